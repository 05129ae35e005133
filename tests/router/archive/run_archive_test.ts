import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SystemClock, VirtualClock } from "../../../base/clock.ts";
import type { StartArchive, ToArchive } from "../../../router/archive/archive_thread.ts";
import { RunArchive } from "../../../router/archive/run_archive.ts";
import { RunDatabase } from "../../../router/archive/run_database.ts";
import { mortalEnv } from "../../lifeline.ts";
import { inlineArchive } from "./inline_archive.ts";
import { inFolder, madeRun } from "./made_runs.ts";

const clock = new SystemClock();
// The runs that these tests make ended in 1970.
const BOUNDS = { maxAgeMs: 1e13, maxBytes: 64 * 1024 * 1024 };
const textOf = ({ bytes }: { bytes: Uint8Array }) => new TextDecoder().decode(bytes);

async function inlineOf(path: string, seen?: (message: ToArchive) => void): Promise<RunArchive> {
  return await RunArchive.open({ path, bounds: BOUNDS, clock, start: inlineArchive(clock, seen) });
}

test("a list has all runs that were given before it was asked for, in their order, however long they are", async () => {
  await inFolder(async (folder) => {
    const parts: number[] = [];
    const archive = await inlineOf(join(folder, "runs"), (message) => {
      if (message.kind === "part") parts.push(message.part.length);
    });
    const long = JSON.stringify({ text: "é😀".repeat(300_000), events: [] });
    const added = [
      archive.add("run_1", async () => {
        for (let turn = 0; turn < 3; turn++) await clock.sleep(0);
        return madeRun(1, { record: long });
      }),
      archive.add("run_2", () => Promise.resolve(madeRun(2))),
    ];
    const { count, last, more, ...page } = await archive.list({ limit: 10 });
    assert.deepEqual([count, last, more, textOf(page)], [2, "run_1", false, '{"id":"run_2"},{"id":"run_1"}']);
    assert.ok(parts.length > 2 && parts.every((length) => length <= 256 * 1024));
    assert.equal(textOf((await archive.get("run_1"))!), long);
    assert.equal(await archive.get("run_3"), undefined);
    assert.deepEqual(await archive.events("run_2"), [
      '{"type":"run_started"}',
      '{"type":"run_done","data":{"n":2}}',
    ]);
    assert.deepEqual(await archive.events("run_3"), []);
    assert.equal(textOf(await archive.list({ limit: 10 }, ["run_2"])), '{"id":"run_1"}');
    assert.deepEqual(await Promise.all(added), [true, true]);
    await archive.close();
    assert.equal(archive.usable, false);
  });
});

test("what was given is on disk when the archive has closed", async () => {
  await inFolder(async (folder) => {
    const path = join(folder, "runs");
    const archive = await inlineOf(path);
    for (let number = 1; number <= 20; number++) {
      void archive.add(`run_${number}`, () => Promise.resolve(madeRun(number)));
    }
    await archive.close();
    const database = new RunDatabase(path, BOUNDS);
    assert.equal(database.list({ limit: 100 }).runs.length, 20);
    database.close();
  });
});

test("a run that cannot be written is known as missing, and the next one is written again", async () => {
  await inFolder(async (folder) => {
    const path = join(folder, "runs");
    const archive = await inlineOf(path);
    const raw = new DatabaseSync(path);
    raw.exec("ALTER TABLE runs RENAME TO away");
    assert.equal(await archive.add("run_1", () => Promise.resolve(madeRun(1))), false);
    raw.exec("ALTER TABLE away RENAME TO runs");
    assert.equal(await archive.add("run_2", () => Promise.resolve(madeRun(2))), true);
    assert.equal(await archive.add("run_3", () => Promise.reject(new Error("no record"))), false);
    assert.deepEqual(["run_1", "run_2", "run_3"].map((id) => archive.lacks(id)), [true, false, true]);
    assert.equal(archive.usable, true);
    raw.exec("DROP TABLE runs");
    await assert.rejects(
      archive.list({ limit: 1 }),
      /^CanopyError: Cannot use the records of runs in .*runs/,
    );
    raw.close();
    await archive.close();
  });
});

test("what waits for a slow disk is bounded by the whole records, and a run beyond that is not kept", async () => {
  const virtual = new VirtualClock();
  const record = "x".repeat(33 * 1024 * 1024);
  let release = () => {};
  // A disk that writes nothing until it is told to.
  const start: StartArchive = (_, { message }) => {
    const numbers: number[] = [];
    release = () => numbers.splice(0).forEach((number) => message({ kind: "added", number }));
    queueMicrotask(() => message({ kind: "open" }));
    const page = { count: 0, last: undefined, bytes: new Uint8Array(), more: false };
    return {
      post: (sent) => {
        if (sent.kind === "add") numbers.push(sent.number);
        if (sent.kind === "list") message({ kind: "page", number: sent.number, page });
        if (sent.kind === "close") message({ kind: "closed" });
      },
      keepAlive: () => {},
      terminate: () => {},
    };
  };
  await virtual.run(async () => {
    const archive = await RunArchive.open({ path: "runs", bounds: BOUNDS, clock: virtual, start });
    const add = (number: number) =>
      archive.add(`run_${number}`, () => Promise.resolve(madeRun(number, { record })));
    const added = [add(1), add(2), add(3)];
    await archive.list({ limit: 1 });
    release();
    assert.deepEqual(await Promise.all(added), [true, true, false]);
    const later = add(4);
    await archive.list({ limit: 1 });
    release();
    assert.equal(await later, true);
    await archive.close();
  });
});

test("when its thread dies nobody waits for it any more, and it says that it cannot be used", async () => {
  await inFolder(async (folder) => {
    const archive = await inlineOf(join(folder, "runs"), ({ kind }) => {
      if (kind === "list") throw new Error("out of memory");
    });
    await assert.rejects(archive.list({ limit: 1 }), /out of memory/);
    assert.equal(archive.usable, false);
    assert.equal(await archive.add("run_1", () => Promise.resolve(madeRun(1))), false);
    await assert.rejects(archive.get("run_1"), /out of memory/);
    await archive.close();
  });
});

test("a file that cannot be used is refused in one sentence that names it", async () => {
  await inFolder(async (folder) => {
    const path = join(folder, "notes.txt");
    writeFileSync(path, "These are notes and no database.".repeat(50));
    await assert.rejects(
      RunArchive.open({ path, bounds: BOUNDS, clock }),
      new RegExp(`^CanopyError: Cannot use the records of runs in ${path}: file is not a database$`),
    );
  });
});

test("a process that is killed in the middle of a write has lost at most the run that it was writing", async () => {
  await inFolder(async (folder) => {
    const path = join(folder, "runs");
    const file = fileURLToPath(new URL("./writing_program.ts", import.meta.url));
    const args = "Deno" in globalThis ? ["run", "-A", "--no-check", file, path] : [file, path];
    const child = spawn(process.execPath, args, { env: mortalEnv(), stdio: ["ignore", "pipe", "inherit"] });
    let told = "";
    child.stdout.on("data", (chunk) => {
      told += chunk;
      // It writes one after the other without a pause: in the middle of one.
      if (told.split("\n").length > 8) child.kill("SIGKILL");
    });
    await once(child, "close");
    assert.equal(child.signalCode, "SIGKILL");
    const written = told.split("\n").slice(0, -1);
    const database = new RunDatabase(path, BOUNDS);
    const kept = database.list({ limit: 1000 }).runs.map(({ id }) => id).reverse();
    assert.deepEqual(kept.slice(0, written.length), written);
    assert.ok(kept.length <= written.length + 1, `${kept.length} runs, ${written.length} were told`);
    for (const id of kept) JSON.parse(new TextDecoder().decode(database.get(id)!.record));
    database.add(madeRun(1_000_000));
    database.close();
  });
});
