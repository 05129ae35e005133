import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fakeIo } from "../../cli/fake_io.ts";
import { until } from "../../until.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { statusCommand } from "../../../cli/launch/status.ts";
import { stopCommand } from "../../../cli/launch/stop.ts";
import { SystemClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { LogFile } from "../../../launcher/logs/log_file.ts";
import { LineSplitter } from "../../../launcher/logs/log_lines.ts";
import {
  type LaunchState,
  readState,
  stateFolder,
  writeState,
} from "../../../launcher/supervise/launch_state.ts";
import { endGroups, leftoverGroups } from "../../../launcher/supervise/leftovers.ts";
import { groupRuns, LAUNCH_VARIABLE, systemProcessTable } from "../../../launcher/supervise/process_table.ts";
import { SystemProcesses } from "../../../launcher/supervise/processes.ts";

const clock = new SystemClock();
const table = systemProcessTable();

async function withFolder(use: (folder: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-launch-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Starts `bash -c` with this script. */
function bash(processes: SystemProcesses, folder: string, script: string, lines: string[] = []) {
  const command = { argv: ["bash", "-c", script], env: { GREETING: "hello" } } as const;
  return processes.start({
    command,
    logFile: join(folder, "logs", "a.log"),
    onLine: (line) => lines.push(line),
  });
}

/**
 * Starts a `bash` that stays, and waits for its environment: while a process takes on a new program, it has none, which
 * the system does not hide. (`bash` itself does so where a script is one command alone.)
 */
async function lasting(processes: SystemProcesses, folder: string, script = "sleep 300; :") {
  const started = await bash(processes, folder, script);
  await until("its mark", () => hasMark(started.pid));
  return started;
}

const hasMark = (pid: number) => table.variable(pid, LAUNCH_VARIABLE) !== undefined;

/** What a process has written to a file so far; nothing where it has not made it yet. */
function written(path: string): string {
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

test("an engine's output is split into lines and kept, its helpers are in its group, one signal ends all", async () => {
  await withFolder(async (folder) => {
    const processes = new SystemProcesses({ launchId: "test-1", env: process.env, table });
    const lines: string[] = [];
    const started = await bash(
      processes,
      folder,
      "sleep 300 & printf '\\033[1m%s\\033[0m\\n' \"$GREETING\"; printf '10%%\\r20%%\\n' >&2; wait",
      lines,
    );
    await until("three lines", () => lines.length === 3);
    assert.deepEqual([...lines].sort(), ["10%", "20%", "hello"]);
    assert.equal(table.startTime(started.pid), started.startTime);
    assert.ok(table.bearsMark(started.pid, "test-1") && !table.bearsMark(started.pid, "test-2"));
    assert.ok(table.list().filter(({ group }) => group === started.pid).length >= 2);
    started.signal("SIGTERM");
    assert.equal((await started.exited).signal, "SIGTERM");
    await until("the end of the group", () => !started.groupAlive());
    await until("the log", () => written(join(folder, "logs", "a.log")).includes("hello"));
    processes.close();
  });
});

test("a container of the same name is removed before the start, and with the client that is killed", async () => {
  await withFolder(async (folder) => {
    // It writes down what it is asked; `run` goes on until it is ended.
    const docker = `#!/bin/sh\necho "$*" >> ${folder}/asked\n[ "$1" != run ] || exec sleep 300\n`;
    writeFileSync(join(folder, "docker"), docker, { mode: 0o755 });
    const env = { ...process.env, PATH: `${folder}:${process.env.PATH ?? ""}` };
    const processes = new SystemProcesses({ launchId: "test-docker", env, table });
    const argv = ["docker", "run", "--rm", "--name", "canopy-8b", "image", "serve"] as const;
    const started = await processes.start({
      command: { argv: [...argv], env: {} },
      logFile: join(folder, "8b.log"),
      onLine: () => {},
    });
    const asked = () => written(join(folder, "asked")).trim().split("\n");
    await until("the client was asked", () => asked().length === 2);
    started.signal("SIGKILL");
    await until("the client was asked", () => asked().length === 3);
    const [first, second, third] = asked();
    const remove = "rm --force canopy-8b";
    assert.deepEqual([first, second, third], [remove, argv.slice(1).join(" "), remove]);
    await until("the end of the group", () => !started.groupAlive());
    processes.close();
  });
});

test("exit codes are told, and programs that are not there are named", async () => {
  await withFolder(async (folder) => {
    const processes = new SystemProcesses({ launchId: "test-2", env: process.env, table });
    assert.deepEqual(await (await bash(processes, folder, "exit 3")).exited, { code: 3, signal: undefined });
    const absent = { argv: ["no-such-engine", "serve"], env: {} } as const;
    await assert.rejects(
      processes.start({ command: absent, logFile: join(folder, "b.log"), onLine: () => {} }),
      (error) =>
        CanopyError.is(error) && error.message.startsWith("There is no program no-such-engine in PATH ("),
    );
    processes.close();
  });
});

test("what a killed launch has left is found by its start time and its mark, and ended; other processes are not", async () => {
  await withFolder(async (folder) => {
    const processes = new SystemProcesses({ launchId: "test-3", env: process.env, table });
    const known = await lasting(processes, folder, "trap '' TERM; sleep 300 & wait; sleep 300");
    const orphaned = await bash(processes, folder, "sleep 300 & disown; exit 0");
    const unknown = await lasting(processes, folder);
    const other = await lasting(new SystemProcesses({ launchId: "test-4", env: process.env, table }), folder);
    await orphaned.exited;
    const left = () => table.list().filter(({ group }) => group === orphaned.pid);
    await until("the mark of what it has left", () => left().some(({ pid }) => hasMark(pid)));
    const engine = (pid: number, startTime: string | undefined) => ({
      name: String(pid),
      phase: "ready",
      pid,
      ...(startTime === undefined ? {} : { startTime }),
      restarts: 0,
      url: "",
      logFile: "",
    });
    const state: LaunchState = {
      id: "test-3",
      pid: 1,
      startedAtUnixMs: 0,
      phase: "serving",
      source: "test",
      engines: [
        engine(known.pid, known.startTime),
        engine(orphaned.pid, "x"),
        engine(other.pid, "another time"),
      ],
    };
    writeState(folder, state);
    assert.deepEqual(readState(folder), state);
    const expected = [known.pid, orphaned.pid, unknown.pid].sort((a, b) => a - b);
    assert.deepEqual(leftoverGroups(state, table), expected);
    await endGroups(expected, { table, clock, graceMs: 200 });
    assert.deepEqual(leftoverGroups(state, table), []);
    assert.ok(groupRuns(table, other.pid));
    other.signal("SIGKILL");
    await until("the end of the group", () => !other.groupAlive());
    processes.close();
  });
});

/** Runs a command that ends at once. */
async function command(folder: string, ...args: string[]) {
  const io = fakeIo({ clock });
  const code = await runCommand([statusCommand, stopCommand], [...args, "--state-dir", folder], io);
  return { code, said: io.out.text + io.err.text };
}

test("a state that is lost or broken hides no engine: it is found by its mark, and ended", async () => {
  await withFolder(async (root) => {
    const folder = join(root, "default");
    // No process can have this number: the launch was killed.
    const processes = new SystemProcesses({ launchId: "999999999-7", folder, env: process.env, table });
    const engine = await lasting(processes, folder);
    assert.match((await command(root, "status")).said, new RegExp(`has left process groups ${engine.pid}:`));
    writeFileSync(join(folder, "state.json"), '{"id": "999999999-7", "pi');
    assert.equal((await command(root, "status")).code, 1);
    assert.match((await command(root, "status")).said, new RegExp(`has left process groups ${engine.pid}:`));
    assert.match((await command(root, "status", "--name", "other")).said, /No launch "other" runs/);
    assert.deepEqual(await command(root, "stop"), { code: 0, said: 'Launch "default" has ended\n' });
    assert.ok(!engine.groupAlive());
    assert.match((await command(root, "status")).said, /No launch "default" runs/);

    // This process has started it, and runs.
    const mine = new SystemProcesses({ launchId: `${process.pid}-8`, folder, env: process.env, table });
    const running = await lasting(mine, folder);
    const { code, said } = await command(root, "status");
    assert.equal(code, 1);
    assert.match(said, new RegExp(`runs as process ${process.pid}, but its state in .* is lost or broken`));
    running.signal("SIGKILL");
    await until("the end of the group", () => !running.groupAlive());
    processes.close();
    mine.close();
  });
});

test("a log moves to numbered files when it is full, and the oldest goes", async () => {
  await withFolder(async (folder) => {
    const path = join(folder, "logs", "a.log");
    const log = new LogFile(path, { maxBytes: 10, kept: 2 });
    for (const text of ["first\n", "second\n", "third\n", "fourth\n"]) {
      log.write(new TextEncoder().encode(text));
    }
    await log.close();
    const texts = ["", ".1", ".2"].map((suffix) => readFileSync(path + suffix, "utf8"));
    assert.deepEqual(texts, ["fourth\n", "third\n", "second\n"]);
    assert.ok(!existsSync(`${path}.3`));
    const again = new LogFile(path, { maxBytes: 10, kept: 2 });
    again.write(new TextEncoder().encode("x\n"));
    await again.close();
    assert.equal(readFileSync(path, "utf8"), "fourth\nx\n");
  });
});

test("lines come whole however the bytes are cut, characters of several bytes included", () => {
  const bytes = new TextEncoder().encode("eins\r\nzwei █▄\rdrei\n\n  \nvier");
  for (let cut = 0; cut <= bytes.length; cut++) {
    const lines: string[] = [];
    const splitter = new LineSplitter((line) => lines.push(line));
    splitter.write(bytes.slice(0, cut));
    splitter.write(bytes.slice(cut));
    splitter.end();
    assert.deepEqual(lines, ["eins", "zwei █▄", "drei", "vier"]);
  }
});

test("the state's folder follows the name and the environment, and a state that cannot be read is none", async () => {
  assert.equal(stateFolder({ XDG_STATE_HOME: "/x" }, { folder: undefined, name: "a" }), "/x/canopy/a");
  assert.equal(
    stateFolder({ CANOPY_STATE_DIR: "/y", XDG_STATE_HOME: "/x" }, { folder: undefined, name: "a" }),
    "/y/a",
  );
  assert.equal(stateFolder({ CANOPY_STATE_DIR: "/y" }, { folder: "/z", name: "a" }), "/z/a");
  for (const name of ["", "..", "a/b", "x".repeat(65)]) {
    assert.throws(() => stateFolder({}, { folder: undefined, name }), /A launch's name may have letters/);
  }
  await withFolder((folder) => {
    assert.equal(readState(folder), undefined);
    return Promise.resolve();
  });
});
