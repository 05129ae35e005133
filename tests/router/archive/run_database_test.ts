import assert from "node:assert/strict";
import { readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { test } from "node:test";
import type { ArchivePage } from "../../../router/archive/archived_run.ts";
import { Random } from "../../../base/random.ts";
import { listStatement, RunDatabase } from "../../../router/archive/run_database.ts";
import { inFolder, madeRun } from "./made_runs.ts";

const BOUNDS = { maxAgeMs: 1e9, maxBytes: 64 * 1024 * 1024 };
const idsOf = (database: RunDatabase, page: Partial<ArchivePage> = {}) =>
  database.list({ limit: 100, ...page }).runs.map(({ id }) => id);

test("runs are listed newest first, by owner, graph, state and request, and page by page", async () => {
  await inFolder((folder) => {
    const database = new RunDatabase(join(folder, "deeper", "runs.sqlite"), BOUNDS);
    database.add(madeRun(1, { owner: "alice", graph: "tree" }));
    database.add(madeRun(2, { state: "failed", requestId: "mine" }));
    database.add(madeRun(3, { owner: "alice" }));
    database.add(madeRun(4));
    // The same once more changes nothing.
    database.add(madeRun(4, { state: "failed" }));
    assert.deepEqual(idsOf(database), ["run_4", "run_3", "run_2", "run_1"]);
    assert.deepEqual(idsOf(database, { owner: "alice" }), ["run_3", "run_1"]);
    assert.deepEqual(idsOf(database, { owner: "" }), []);
    assert.deepEqual(idsOf(database, { owner: "alice", graph: "tree" }), ["run_1"]);
    assert.deepEqual(idsOf(database, { state: "failed" }), ["run_2"]);
    assert.deepEqual(idsOf(database, { requestId: "mine" }), ["run_2"]);
    const first = database.list({ limit: 3 });
    assert.deepEqual([first.runs.length, first.more], [3, true]);
    assert.deepEqual(first.runs[0], { id: "run_4", summary: '{"id":"run_4"}' });
    const second = database.list({ limit: 3, after: "run_2" });
    assert.deepEqual([second.runs.map(({ id }) => id), second.more], [["run_1"], false]);
    assert.deepEqual(idsOf(database, { after: "run_gone" }), []);
    const { record, ...kept } = database.get("run_1")!;
    assert.deepEqual(kept, { owner: "alice", state: "done" });
    assert.equal(new TextDecoder().decode(record), madeRun(1).record);
    assert.equal(database.get("run_9"), undefined);
    database.close();
  });
});

test("lists of an owner, a graph, a state or a request go by its index, further pages and all others by number", async () => {
  await inFolder((folder) => {
    const path = join(folder, "runs.sqlite");
    new RunDatabase(path, BOUNDS).close();
    const raw = new DatabaseSync(path);
    const planOf = (page: Partial<ArchivePage>): string[] => {
      const { sql, values } = listStatement({ limit: 9, ...page });
      return raw.prepare(`EXPLAIN QUERY PLAN ${sql}`).all(...values).map(({ detail }) => String(detail));
    };
    const byIndex: readonly (readonly [Partial<ArchivePage>, index: string, column: string])[] = [
      [{ owner: "x" }, "runs_of_owner", "owner"],
      [{ graph: "x" }, "runs_of_graph", "graph"],
      [{ state: "x" }, "runs_in_state", "state"],
      [{ requestId: "x" }, "runs_of_request", "request_id"],
    ];
    for (const [page, index, column] of byIndex) {
      assert.deepEqual(planOf(page), [`SEARCH runs USING INDEX ${index} (${column}=?)`]);
      const [further, ...rest] = planOf({ ...page, after: "run_9" });
      assert.equal(further, `SEARCH runs USING INDEX ${index} (${column}=? AND rowid<?)`);
      assert.doesNotMatch(rest.join("; "), /SCAN|B-TREE/);
    }
    const [further, ...rest] = planOf({ after: "run_9" });
    assert.equal(further, "SEARCH runs USING INTEGER PRIMARY KEY (rowid<?)");
    assert.doesNotMatch(rest.join("; "), /SCAN|B-TREE/);
    raw.close();
  });
});

test("a file that is opened again has all its runs, and only its owner may read it", async () => {
  await inFolder((folder) => {
    const path = join(folder, "runs.sqlite");
    const first = new RunDatabase(path, BOUNDS);
    // A second server may write into the same file.
    const beside = new RunDatabase(path, BOUNDS);
    first.add(madeRun(1));
    beside.add(madeRun(2));
    assert.deepEqual(idsOf(first), ["run_2", "run_1"]);
    first.close();
    beside.close();
    assert.equal(statSync(path).mode & 0o777, 0o600);
    const again = new RunDatabase(path, BOUNDS);
    again.add(madeRun(3));
    assert.deepEqual(idsOf(again), ["run_3", "run_2", "run_1"]);
    again.close();
  });
});

test("runs go when they are too old, some at a time", async () => {
  await inFolder((folder) => {
    const database = new RunDatabase(join(folder, "runs.sqlite"), { ...BOUNDS, maxAgeMs: 50_000 });
    for (let number = 1; number <= 250; number++) database.add(madeRun(number));
    assert.equal(database.prune(51_000), false);
    assert.equal(idsOf(database, { limit: 1000 }).length, 250);
    // 50 s before 201 s: all that ended before the 151st.
    assert.equal(database.prune(201_000), true);
    assert.equal(idsOf(database, { limit: 1000 }).length, 150);
    assert.equal(database.prune(201_000), false);
    const left = idsOf(database, { limit: 1000 });
    assert.deepEqual([left.length, left.at(-1)], [100, "run_151"]);
    database.close();
  });
});

test("the oldest runs go when the file is too large, and it becomes smaller again", async () => {
  await inFolder((folder) => {
    const path = join(folder, "runs.sqlite");
    const maxBytes = 1024 * 1024;
    const random = new Random("records");
    const unbounded = new RunDatabase(path, BOUNDS);
    for (let number = 1; number <= 200; number++) {
      unbounded.add(madeRun(number, { record: random.hex(40_000) }));
    }
    unbounded.close();
    assert.ok(statSync(path).size > 4_000_000);
    const database = new RunDatabase(path, { ...BOUNDS, maxBytes });
    while (database.prune(0));
    const kept = idsOf(database);
    assert.ok(kept.length > 20 && kept.length < 60, `${kept.length}`);
    assert.equal(kept[0], "run_200");
    for (let number = 201; number <= 260; number++) {
      database.add(madeRun(number, { record: random.hex(40_000) }));
      while (database.prune(0));
    }
    assert.equal(idsOf(database).length, kept.length);
    database.close();
    assert.ok(statSync(path).size <= maxBytes, `${statSync(path).size}`);
  });
});

test("a file that is not ours, is newer, or is none is refused with its reason, and stays as it is", async () => {
  await inFolder((folder) => {
    const path = join(folder, "file");
    const opening = () => new RunDatabase(path, BOUNDS, 0);
    const other = new DatabaseSync(path);
    other.exec("CREATE TABLE things (a); INSERT INTO things VALUES (1)");
    other.close();
    const before = readFileSync(path);
    assert.throws(opening, /^Error: it is an SQLite file of another program$/);
    assert.deepEqual(readFileSync(path), before);

    const newer = join(folder, "newer");
    new RunDatabase(newer, BOUNDS).close();
    const raw = new DatabaseSync(newer);
    raw.exec("PRAGMA user_version = 7");
    raw.close();
    assert.throws(
      () => new RunDatabase(newer, BOUNDS),
      /it was written by a newer Canopy \(version 7 of its tables; this one knows 1\)/,
    );

    writeFileSync(path, "no database, though it is long enough for one".repeat(100));
    assert.throws(opening, /file is not a database/);
    assert.match(readFileSync(path, "utf8"), /^no database/);
    assert.throws(() => new RunDatabase(folder, BOUNDS), /EISDIR|is a directory/i);
  });
});

test("a file that another process has locked is refused after a while", async () => {
  await inFolder((folder) => {
    const path = join(folder, "runs.sqlite");
    const locker = new DatabaseSync(path);
    locker.exec("CREATE TABLE t (a); PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    assert.throws(() => new RunDatabase(path, BOUNDS, 0), /database is locked/);
    locker.exec("ROLLBACK");
    locker.close();
  });
});
