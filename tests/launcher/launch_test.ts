/** `canopy launch --engine sim`: real processes on real ports, from a plan to served trees and back to nothing. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../base/clock.ts";
import type { JsonObject } from "../../base/json.ts";
import { runCommand } from "../../cli/kit/dispatch.ts";
import { launchCommand } from "../../cli/launch/launch.ts";
import { statusCommand } from "../../cli/launch/status.ts";
import { stopCommand } from "../../cli/launch/stop.ts";
import { selfCommand } from "../../launcher/commands/self_command.ts";
import { type LaunchState, readState } from "../../launcher/supervise/launch_state.ts";
import { systemProcessTable } from "../../launcher/supervise/process_table.ts";
import { systemTransport } from "../../router/transport/system.ts";
import { type FakeIo, fakeIo } from "../cli/fake_io.ts";
import { mortalEnv } from "../lifeline.ts";
import { type PortBlock, takePorts } from "../ports.ts";
import { HANG_MS, until } from "../until.ts";
import "../loopback.ts";

const clock = new SystemClock();
const table = systemProcessTable();

/** Recorded output of `nvidia-smi`. */
function hostFile(name: string): string {
  return fileURLToPath(new URL(`../fixtures/launcher/${name}`, import.meta.url));
}

/** Waits until this gives something. */
async function found<T>(what: string, look: () => T | undefined): Promise<T> {
  let seen: T | undefined;
  await until(what, () => (seen = look()) !== undefined);
  assert.ok(seen !== undefined);
  return seen;
}

/** A run of the program: in a process of its own, or, where nobody needs that process, in this one. */
interface Canopy {
  /** What it has printed so far. */
  out(): string;
  err(): string;
  /** The exit code. */
  ended(): Promise<number | null>;
  /** Waits for this in its output. */
  says(pattern: RegExp): Promise<RegExpExecArray>;
}

function says(one: { out(): string; err(): string }, code: () => unknown, pattern: RegExp) {
  return found(`output like ${pattern}`, () => {
    const match = pattern.exec(one.out());
    assert.ok(match !== null || code() === undefined, `it ended:\n${one.out()}\n${one.err()}`);
    return match ?? undefined;
  });
}

class CanopyProcess implements Canopy {
  readonly child: ChildProcess;
  #out = "";
  #err = "";
  #code: number | null | undefined;

  constructor(args: readonly string[]) {
    const [program, ...rest] = selfCommand(args);
    this.child = spawn(program, rest, { stdio: ["ignore", "pipe", "pipe"], env: mortalEnv() });
    this.child.stdout?.on("data", (chunk) => this.#out += chunk);
    this.child.stderr?.on("data", (chunk) => this.#err += chunk);
    this.child.once("close", (code) => this.#code = code);
  }

  out = () => this.#out;
  err = () => this.#err;
  ended = () => found("end of the program", () => this.#code);
  says = (pattern: RegExp) => says(this, () => this.#code, pattern);

  // Not `child.kill`: under Deno the exit event then names the signal, whatever the exit code was.
  signal(name: NodeJS.Signals): void {
    process.kill(this.child.pid ?? 0, name);
  }
}

class CanopyHere implements Canopy {
  readonly #io: FakeIo;
  #code: number | undefined;

  constructor(args: readonly string[]) {
    const transport = systemTransport();
    this.#io = fakeIo({ clock, transport, env: mortalEnv(), cwd: tmpdir() });
    void runCommand([launchCommand, statusCommand, stopCommand], args, this.#io).then(async (code) => {
      await transport.close();
      this.#code = code;
    });
  }

  out = () => this.#io.out.text;
  err = () => this.#io.err.text;
  ended = () => found("end of the command", () => this.#code);
  says = (pattern: RegExp) => says(this, () => this.#code, pattern);
  interrupt = () => this.#io.interrupt();
  hangUp = () => this.#io.hangUp();
}

interface Stage {
  readonly folder: string;
  /** Ports of the engines. */
  readonly ports: PortBlock;
  readonly state: () => LaunchState;
  /** Starts the program; ended with the test, whatever happens. */
  readonly process: (...args: string[]) => CanopyProcess;
  readonly here: (...args: string[]) => CanopyHere;
}

/** Takes what a launch of these tests needs; afterwards no process of it may be left. */
async function onStage(use: (stage: Stage) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), "canopy-launch-"));
  const ports = await takePorts();
  const folder = join(root, "default");
  const started: (CanopyProcess | CanopyHere)[] = [];
  const ids = new Set<string>();
  const state = () => {
    const read = readState(folder);
    assert.ok(read !== undefined);
    ids.add(read.id);
    return read;
  };
  const add = <T extends CanopyProcess | CanopyHere>(one: T): T => {
    started.push(one);
    return one;
  };
  const left = () => table.list().filter(({ pid }) => [...ids].some((id) => table.bearsMark(pid, id)));
  try {
    await use({
      folder,
      ports,
      state,
      process: (...args) => add(new CanopyProcess([...args, "--state-dir", root])),
      here: (...args) => add(new CanopyHere([...args, "--state-dir", root])),
    });
    assert.deepEqual(left(), [], "a process is left");
  } finally {
    for (const one of started) {
      if (one instanceof CanopyHere) one.interrupt();
      else table.signal(one.child.pid ?? 0, "SIGTERM");
    }
    for (const one of started) await one.ended();
    for (const { pid } of left()) table.signal(pid, "SIGKILL");
    rmSync(root, { recursive: true, force: true });
    await ports.release();
  }
}

/** A launch of the 13-agent tree over quick simulated engines. */
function launchArgs({ ports: { base } }: Stage, host: string, ...more: string[]): string[] {
  const ports = ["--port", "0", "--base-port", String(base)];
  return ["launch", "moa-9-3-1", "--engine", "sim", "--gpus", hostFile(host), ...ports, ...QUICK, ...more];
}

/** The same of a tree of these models, each an engine, so that no more start than the test is about. */
function fewArgs(stage: Stage, host: string, sizes: readonly string[], ...more: string[]): string[] {
  const path = `${stage.folder}.few.json`;
  const models = sizes.map((size) => [size.toLowerCase(), { model: `Qwen/Qwen3-${size}`, engine: "vllm" }]);
  const agents = sizes.map((size) => ({ model: size.toLowerCase() }));
  const layers = [{ agents: [...agents, ...agents] }, { agents: agents.slice(0, 1) }];
  writeFileSync(path, JSON.stringify({ models: Object.fromEntries(models), graphs: { moa: { layers } } }));
  const [, , ...options] = launchArgs(stage, host, ...more);
  return ["launch", path, ...options];
}

/** Asks the tree; gives the status and the answer. */
async function ask(url: string): Promise<{ status: number; text: string }> {
  const transport = systemTransport();
  try {
    const body = JSON.stringify({ model: "moa", messages: [{ role: "user", content: "What is 17 * 23?" }] });
    const headers = { "content-type": "application/json" };
    const response = await transport.send(
      { method: "POST", url: `${url}/v1/chat/completions`, headers, body },
      AbortSignal.timeout(HANG_MS),
    );
    let text = "";
    const decoder = new TextDecoder();
    for await (const chunk of response.body) text += decoder.decode(chunk, { stream: true });
    return { status: response.status, text };
  } finally {
    await transport.close();
  }
}

/** Simulated engines that answer at once, and no log in between the tests. */
const QUICK = ["--set", "launch.sim_args=--speedup,100,--scripted", "--set", "server.log_level=fatal"];
const LISTENING = /listening on (http:\/\/\S+)/;

test("on six GPUs: the tree is served, an engine that is killed is back and no run is lost, a stop leaves nothing", async () => {
  await onStage(async (stage) => {
    const { process, here, state } = stage;
    const twice = ["--set", "models.4b.workers=http://127.0.0.1:30000,http://127.0.0.1:30003"];
    const launched = process(...launchArgs(stage, "h200x6.txt", ...twice));
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
    const runs = Array.from({ length: 2 }, async () => {
      const statuses: number[] = [];
      while (!killed || statuses.length < 3) statuses.push((await ask(url)).status);
      return statuses;
    });
    await clock.sleep(100);
    table.signal(victim.pid, "SIGKILL");
    try {
      await launched.says(/4b-1: starts again soon: the engine was killed: if nobody did it on purpose/);
      await launched.says(/starts again soon[^]*4b-1: ready/);
    } finally {
      killed = true;
    }
    assert.ok((await Promise.all(runs)).flat().every((status) => status === 200), "a run was lost");
    const after = state().engines.find(({ name }) => name === "4b-1");
    assert.ok(after?.phase === "ready" && after.restarts === 1 && after.pid !== victim.pid);

    const status = here("status");
    assert.equal(await status.ended(), 0);
    assert.match(status.out(), /^preset moa-9-3-1: serving on http:\S+, process \d+, for \d+ minutes?\n/);
    assert.match(status.out(), /\n4b-1 +ready +\d+ +http:\S+ +1 +the engine was killed: /);
    const stop = here("stop");
    assert.equal(await stop.ended(), 0);
    assert.equal(stop.out(), 'Launch "default" has ended\n');
    assert.equal(await launched.ended(), 0);
  });
});

test("on one GPU: what a launch that was killed has left is ended by the next one, which goes on detached", async () => {
  await onStage(async (stage) => {
    const { process, here, state } = stage;
    const args = fewArgs(stage, "h200x1.txt", ["4B", "8B"]);
    const first = process(...args);
    // In the middle of its start: engines that share a GPU come one after the other.
    await first.says(/4b: ready/);
    const again = here(...args);
    assert.equal(await again.ended(), 1);
    assert.match(
      again.err(),
      /Launch "default" runs already \(process \d+\): stop it with canopy stop, or give/,
    );
    first.signal("SIGKILL");
    await first.ended();
    const orphans = state().engines.flatMap(({ pid }) => pid ?? []);
    const ready = state().engines.find(({ name }) => name === "4b")?.pid;
    assert.ok(ready !== undefined && orphans.includes(ready));
    // One that is still starting may end where it says so to nobody.
    assert.notEqual(table.startTime(ready), undefined, "the engine outlives its supervisor");
    const status = here("status");
    assert.equal(await status.ended(), 1);
    assert.match(status.out(), /Launch "default" was killed and has left process groups? /);

    const second = process(...args, "--detach");
    assert.equal(await second.ended(), 0, second.err());
    assert.match(second.out(), /Canopy is listening on http:\S+ \(process \d+\)/);
    assert.ok(orphans.every((pid) => table.startTime(pid) === undefined), "they were ended first");
    const { url, pid } = state();
    assert.equal((await ask(url ?? "")).status, 200);
    assert.equal(await here("stop").ended(), 0);
    assert.equal(table.startTime(pid), undefined);
    assert.equal(await here("stop").ended(), 1);
  });
});

test("pairs on six GPUs: a simulated prefill and decode server hand over, and SIGTERM ends all in order", async () => {
  await onStage(async (stage) => {
    const { process, state } = stage;
    const ports = ["--port", "0", "--base-port", String(stage.ports.base)];
    const launched = process(
      ...["launch", "launch-6-gpus-pd", "--engine", "sim", "--gpus", hostFile("h200x6.txt"), ...ports],
      ...QUICK,
      ...["--set", `launch.bootstrap_port=${stage.ports.base + 50}`],
    );
    const url = (await launched.says(LISTENING))[1] ?? "";
    assert.ok(state().engines.length >= 1);
    const { status, text } = await ask(url);
    assert.equal(status, 200, text);
    launched.signal("SIGTERM");
    assert.equal(await launched.ended(), 0);
    assert.match(launched.out(), /Draining[^]*: stopping[^]*: stopped/);
  });
});

test("on two GPUs: a port of the router that is taken is told before any engine starts", async () => {
  await onStage(async (stage) => {
    const { here } = stage;
    const server = createServer();
    const port = await new Promise<number>((resolve) =>
      server.listen(0, "127.0.0.1", () => {
        const address = server.address();
        resolve(typeof address === "object" && address !== null ? address.port : 0);
      })
    );
    try {
      const launched = here(...launchArgs(stage, "a100x2.txt"), "--port", String(port));
      assert.equal(await launched.ended(), 1);
      assert.equal(
        launched.err(),
        `canopy launch: Cannot listen on 127.0.0.1:${port}: the port is taken; choose another one, or stop what uses it\n`,
      );
      assert.equal(launched.out(), "");
      const metrics = `server.metrics={"port":${port}}`;
      const other = here(...launchArgs(stage, "a100x2.txt"), "--set", metrics);
      assert.equal(await other.ended(), 1);
      assert.match(other.err(), new RegExp(`Cannot listen on 0\\.0\\.0\\.0:${port}: the port is taken`));
      assert.equal(other.out(), "");
    } finally {
      server.close();
    }
    const served = here(...fewArgs(stage, "a100x2.txt", ["8B"]));
    const url = (await served.says(LISTENING))[1] ?? "";
    assert.equal((await ask(url)).status, 200);
    served.interrupt();
    assert.equal(await served.ended(), 0);
  });
});

test("MoA-vllm's configuration on two GPUs: its programs find the engines in model2port.json beside it", async () => {
  await onStage(async (stage) => {
    const { folder, here, state } = stage;
    const { base } = stage.ports;
    const path = `${folder}.configs.json`;
    const fixture = new URL("../fixtures/cfgs/moa_vllm/configs.json", import.meta.url);
    writeFileSync(path, readFileSync(fixture));
    const old = '{ "another/model": 1 }';
    writeFileSync(join(folder, "../model2port.json"), old);
    const where = ["--engine", "sim", "--base-port", String(base), "--port", "0"];
    const served = here("launch", path, ...where, ...QUICK);
    const url = (await served.says(LISTENING))[1] ?? "";
    const ports: unknown = JSON.parse(readFileSync(join(folder, "../model2port.json"), "utf8"));
    assert.deepEqual(
      Object.values(ports ?? {}),
      state().engines.map((engine) => Number(new URL(engine.url).port)).sort(),
    );
    assert.equal(readFileSync(join(folder, "../model2port.json.old"), "utf8"), old);
    assert.equal((await ask(url)).status, 200);
    assert.equal(served.hangUp(), true);
    assert.match(
      await (await fetch(`${url}/metrics`)).text(),
      /canopy_config_reloads_total\{result="unchanged"\} 1/,
      "the ports that the launch has written are its own",
    );
    served.interrupt();
    assert.equal(await served.ended(), 0);
  });
});

test("an engine that cannot start fails the launch with its own words", async () => {
  await onStage(async (stage) => {
    const { process, here } = stage;
    const launched = process(...launchArgs(stage, "h200x1.txt"), "--set", "launch.sim_args=--no-such-option");
    assert.equal(await launched.ended(), 1);
    assert.match(
      launched.err(),
      /^canopy launch: \S+: the simulator does not take --no-such-option: correct launch\.sim_args\n$/,
    );
    const status = here("status");
    assert.equal(await status.ended(), 1);
    assert.match(status.out(), /^Launch "default" failed: /);
  });
});

test("on two GPUs: a model in this process takes none, and works beside one that is launched", async () => {
  await onStage(async (stage) => {
    const { folder, here, state } = stage;
    const path = `${folder}.mixed.json`;
    const tiny = fileURLToPath(new URL("../fixtures/tiny-qwen3", import.meta.url));
    const small = {
      model: tiny,
      engine: "onnx",
      onnx: { file: "../tiny-qwen3-onnx/model.onnx", threads: 1 },
    };
    const layers = [
      { agents: [{ model: "small" }, { model: "small" }], prompt: "propose" },
      { agents: [{ model: "big" }], prompt: "aggregate" },
    ];
    const graph = { sampling: { max_tokens: 8 }, layers };
    const big = { model: "Qwen/Qwen3-8B", engine: "vllm" };
    writeFileSync(path, JSON.stringify({ models: { small, big }, graphs: { moa: graph } }));
    const { base } = stage.ports;
    const where = ["--engine", "sim", "--gpus", hostFile("a100x2.txt"), "--base-port", String(base)];
    const served = here("launch", path, ...where, "--port", "0", ...QUICK);
    const url = (await served.says(LISTENING))[1] ?? "";
    assert.deepEqual(state().engines.map(({ name }) => name), ["big"]);
    const { status, text } = await ask(url);
    assert.equal(status, 200, text);
    assert.ok(JSON.parse(text).usage.completion_tokens > 16, text);
    served.interrupt();
    assert.equal(await served.ended(), 0);
  });
});

test("on one GPU: SIGHUP reads the file again, the engines stay as they are, and one that dies comes back", async () => {
  await onStage(async (stage) => {
    const { folder, here, state } = stage;
    const path = `${folder}.live.json`;
    const layers = [{ agents: [{ model: "big" }, { model: "big" }] }, { agents: [{ model: "big" }] }];
    const write = (big: JsonObject, graphs: JsonObject) =>
      writeFileSync(
        path,
        JSON.stringify({
          models: { big: { model: "Qwen/Qwen3-8B", engine: "sglang", tokenizer: false, ...big } },
          graphs,
        }),
      );
    write({}, {});
    const { base } = stage.ports;
    const where = ["--engine", "sim", "--gpus", hostFile("h200x1.txt"), "--base-port", String(base)];
    const served = here("launch", path, ...where, "--port", "0", ...QUICK);
    const url = (await served.says(LISTENING))[1] ?? "";
    const names = async () => JSON.stringify(await (await fetch(`${url}/v1/models`)).json());
    assert.doesNotMatch(await names(), /"moa"/);
    const [engine] = state().engines;
    assert.ok(engine !== undefined);

    write({ context_tokens: 4096, max_in_flight: 3 }, { moa: { layers } });
    assert.equal(served.hangUp(), true);
    assert.match(await names(), /"moa"/);
    assert.equal((await ask(url)).status, 200);
    assert.deepEqual(state().engines.map(({ pid }) => pid), [engine.pid]);

    table.signal(engine.pid ?? 0, "SIGKILL");
    await until("the engine is back", () => {
      const [now] = state().engines;
      return now?.pid !== engine.pid && now?.phase === "ready";
    });
    await until("the tree is served again", async () => (await ask(url)).status === 200);
    served.interrupt();
    assert.equal(await served.ended(), 0);
  });
});
