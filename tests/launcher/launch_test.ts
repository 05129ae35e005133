/** `canopy launch --engine sim`: real processes on real ports, from a plan to served trees and back to nothing. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../base/clock.ts";
import { systemProcessTable } from "../../launcher/process_table.ts";
import { selfCommand } from "../../launcher/self_command.ts";
import { type LaunchState, readState } from "../../launcher/state.ts";
import { systemTransport } from "../../router/transport/system.ts";

const clock = new SystemClock();
const table = systemProcessTable();

/** Recorded output of `nvidia-smi`. */
function hostFile(name: string): string {
  return fileURLToPath(new URL(`../fixtures/launcher/${name}`, import.meta.url));
}

/** A run of the program. */
class Canopy {
  readonly child: ChildProcess;
  readonly ended: Promise<number | null>;
  out = "";
  err = "";

  constructor(args: readonly string[]) {
    const [program, ...rest] = selfCommand(args);
    this.child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"] });
    this.child.stdout?.on("data", (chunk) => this.out += chunk);
    this.child.stderr?.on("data", (chunk) => this.err += chunk);
    this.ended = new Promise((resolve) => this.child.once("close", (code) => resolve(code)));
  }

  /** Waits for this in its output. */
  async says(pattern: RegExp): Promise<RegExpExecArray> {
    let over = false;
    void this.ended.then(() => over = true);
    while (true) {
      const match = pattern.exec(this.out);
      if (match !== null) return match;
      assert.ok(!over, `it ended:\n${this.out}\n${this.err}`);
      await clock.sleep(20);
    }
  }

  // Not `child.kill`: under Deno the exit event then names the signal, whatever the exit code was.
  signal(name: NodeJS.Signals): void {
    process.kill(this.child.pid ?? 0, name);
  }
}

interface Stage {
  readonly folder: string;
  readonly state: () => LaunchState;
  /** Starts the program; ended with the test, whatever happens. */
  readonly canopy: (...args: string[]) => Canopy;
}

/** Takes what a launch of these tests needs; afterwards no process of it may be left. */
async function onStage(use: (stage: Stage) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), "canopy-launch-"));
  const folder = join(root, "default");
  const started: Canopy[] = [];
  const ids = new Set<string>();
  const state = () => {
    const read = readState(folder);
    assert.ok(read !== undefined);
    ids.add(read.id);
    return read;
  };
  try {
    await use({
      folder,
      state,
      canopy: (...args) => {
        const one = new Canopy([...args, "--state-dir", root]);
        started.push(one);
        return one;
      },
    });
    const left = table.list().filter(({ pid }) => [...ids].some((id) => table.bearsMark(pid, id)));
    assert.deepEqual(left, [], "a process is left");
  } finally {
    for (const one of started) table.signal(one.child.pid ?? 0, "SIGTERM");
    await Promise.all(started.map((one) => one.ended));
    for (const { pid } of table.list()) {
      if ([...ids].some((id) => table.bearsMark(pid, id))) table.signal(pid, "SIGKILL");
    }
    rmSync(root, { recursive: true, force: true });
  }
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  await new Promise<void>((resolve) => server.close(() => resolve()));
  assert.ok(typeof address === "object" && address !== null);
  return address.port;
}

/** A launch of the 13-agent tree over quick simulated engines. */
async function launchArgs(host: string, ...more: string[]): Promise<string[]> {
  const ports = ["--port", "0", "--base-port", String(10_000 + await freePort() % 20_000)];
  const quick = ["--set", "launch.sim_args=--speedup,100,--scripted"];
  return ["launch", "moa-9-3-1", "--engine", "sim", "--gpus", hostFile(host), ...ports, ...quick, ...more];
}

/** Asks the tree; gives the status and the answer. */
async function ask(url: string): Promise<{ status: number; text: string }> {
  const transport = systemTransport();
  try {
    const body = JSON.stringify({ model: "moa", messages: [{ role: "user", content: "What is 17 * 23?" }] });
    const headers = { "content-type": "application/json" };
    const response = await transport.send(
      { method: "POST", url: `${url}/v1/chat/completions`, headers, body },
      new AbortController().signal,
    );
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body) text += decoder.decode(chunk, { stream: true });
    return { status: response.status, text };
  } finally {
    await transport.close();
  }
}

const LISTENING = /listening on (http:\/\/\S+)/;

test("on six GPUs: the tree is served, an engine that is killed is back and no run is lost, a stop leaves nothing", async () => {
  await onStage(async ({ canopy, state }) => {
    const twice = ["--set", "models.4b.workers=http://127.0.0.1:30000,http://127.0.0.1:30003"];
    const launched = canopy(...await launchArgs("h200x6.txt", ...twice));
    const url = (await launched.says(LISTENING))[1] ?? "";
    const before = state();
    assert.equal(before.phase, "serving");
    assert.deepEqual(before.engines.map(({ name, phase }) => [name, phase]).sort(), [
      ["32b", "ready"],
      ["4b-1", "ready"],
      ["4b-2", "ready"],
      ["8b", "ready"],
    ]);
    const victim = before.engines.find(({ name }) => name === "4b-1");
    assert.ok(victim?.pid !== undefined);
    let killed = false;
    const runs = Array.from({ length: 4 }, async () => {
      const statuses: number[] = [];
      while (!killed || statuses.length < 3) statuses.push((await ask(url)).status);
      return statuses;
    });
    await clock.sleep(100);
    table.signal(victim.pid, "SIGKILL");
    await launched.says(/4b-1: starts again soon: 4b-1: the engine was killed/);
    await launched.says(/starts again soon[^]*4b-1: ready/);
    killed = true;
    assert.ok((await Promise.all(runs)).flat().every((status) => status === 200), "a run was lost");
    const after = state().engines.find(({ name }) => name === "4b-1");
    assert.ok(after?.phase === "ready" && after.restarts === 1 && after.pid !== victim.pid);

    const status = canopy("status");
    assert.equal(await status.ended, 0);
    assert.match(status.out, /^preset moa-9-3-1: serving on http:\S+, process \d+, for 0 minutes\n/);
    assert.match(status.out, /\n4b-1 +ready +\d+ +http:\S+ +1/);
    const stop = canopy("stop");
    assert.equal(await stop.ended, 0);
    assert.equal(stop.out, 'Launch "default" has ended\n');
    assert.equal(await launched.ended, 0);
  });
});

test("on one GPU: what a killed launch has left is ended by the next one, which goes on detached", async () => {
  await onStage(async ({ canopy, state }) => {
    const args = await launchArgs("h200x1.txt");
    const first = canopy(...args);
    await first.says(LISTENING);
    const again = canopy(...args);
    assert.equal(await again.ended, 1);
    assert.match(
      again.err,
      /Launch "default" runs already \(process \d+\): stop it with canopy stop, or give/,
    );
    const orphans = state().engines.map(({ pid }) => pid ?? 0);
    first.signal("SIGKILL");
    await first.ended;
    assert.ok(
      orphans.every((pid) => table.startTime(pid) !== undefined),
      "the engines outlive their supervisor",
    );
    const status = canopy("status");
    assert.equal(await status.ended, 1);
    assert.match(status.out, /Launch "default" was killed and has left process groups/);

    const second = canopy(...args, "--detach");
    assert.equal(await second.ended, 0, second.err);
    assert.match(second.out, /Canopy is listening on http:\S+ \(process \d+\)/);
    assert.ok(orphans.every((pid) => table.startTime(pid) === undefined), "they were ended first");
    const { url, pid } = state();
    assert.equal((await ask(url ?? "")).status, 200);
    assert.equal(await canopy("stop").ended, 0);
    assert.equal(table.startTime(pid), undefined);
    assert.equal(await canopy("stop").ended, 1);
  });
});

test("pairs on six GPUs: a simulated prefill and decode server hand over, and SIGTERM ends all in order", async () => {
  await onStage(async ({ canopy, state }) => {
    const ports = ["--port", "0", "--base-port", String(10_000 + await freePort() % 20_000)];
    const launched = canopy(
      ...["launch", "launch-6-gpus-pd", "--engine", "sim", "--gpus", hostFile("h200x6.txt"), ...ports],
      ...["--set", "launch.sim_args=--speedup,100,--scripted"],
      ...["--set", `launch.bootstrap_port=${10_000 + await freePort() % 20_000}`],
    );
    const url = (await launched.says(LISTENING))[1] ?? "";
    assert.ok(state().engines.length >= 1);
    const { status, text } = await ask(url);
    assert.equal(status, 200, text);
    launched.signal("SIGTERM");
    assert.equal(await launched.ended, 0);
    assert.match(launched.out, /Draining[^]*: stopping[^]*: stopped/);
  });
});

test("on two GPUs: a port of the router that is taken is told before any engine starts", async () => {
  await onStage(async ({ canopy }) => {
    const server = createServer();
    const port = await new Promise<number>((resolve) =>
      server.listen(0, "127.0.0.1", () => {
        const address = server.address();
        resolve(typeof address === "object" && address !== null ? address.port : 0);
      })
    );
    try {
      const launched = canopy(...await launchArgs("a100x2.txt"), "--port", String(port));
      assert.equal(await launched.ended, 1);
      assert.equal(
        launched.err,
        `canopy launch: Cannot listen on 127.0.0.1:${port}: the port is taken; choose another one, or stop what uses it\n`,
      );
      assert.equal(launched.out, "");
    } finally {
      server.close();
    }
    const served = canopy(...await launchArgs("a100x2.txt"));
    const url = (await served.says(LISTENING))[1] ?? "";
    assert.equal((await ask(url)).status, 200);
    served.signal("SIGINT");
    assert.equal(await served.ended, 0);
  });
});

test("an engine that cannot start fails the launch with its own words", async () => {
  await onStage(async ({ canopy }) => {
    const launched = canopy(...await launchArgs("h200x1.txt"), "--set", "launch.sim_args=--no-such-option");
    assert.equal(await launched.ended, 1);
    assert.match(
      launched.err,
      /^canopy launch: \S+: the simulator does not take --no-such-option: correct launch\.sim_args\n$/,
    );
    const status = canopy("status");
    assert.equal(await status.ended, 1);
    assert.match(status.out, /^Launch "default" failed: /);
  });
});
