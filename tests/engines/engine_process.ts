import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, open as openFile, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { WorkerConfig } from "../../cfgs/schema/config.ts";
import { send } from "./http_request.ts";

/** An engine that the scripts in this folder can install; the `-pd` ones are a prefill and a decode server. */
export interface EngineKind {
  readonly engine: "vllm" | "sglang" | "vllm-pd" | "sglang-pd";
  readonly version: string;
}

/** All of them. */
export const engineKinds: readonly EngineKind[] = [
  { engine: "vllm", version: "0.32.0" },
  { engine: "sglang", version: "0.5.18" },
  { engine: "sglang", version: "0.5.23" },
  { engine: "vllm-pd", version: "0.32.0" },
  { engine: "sglang-pd", version: "0.5.10.post1" },
  { engine: "sglang-pd", version: "0.5.18" },
  { engine: "sglang-pd", version: "0.5.23" },
];

/** True for a prefill and a decode server that work together. */
export function isPair({ engine }: EngineKind): boolean {
  return engine === "vllm-pd" || engine === "sglang-pd";
}

/** What a server has counted since it was ready. */
export interface EngineCounters {
  /** Requests that got a first token, also those that were aborted later; of an SGLang pair, those that ended. */
  readonly requests: number;
  /** Requests that ran to their end. Neither engine counts one whose client has left without an abort. */
  readonly finished: number;
  /** vLLM: of all requests with a first token. SGLang: of requests that ended. */
  readonly promptTokens: number;
  /** Of these, the ones found in the prefix cache. */
  readonly cachedTokens: number;
  /** vLLM: as they are made. SGLang: of requests that ended. */
  readonly generationTokens: number;
}

/** A request for a generation, as the access log shows it. */
export interface LoggedCall {
  readonly path: string;
  readonly status: number;
}

/** One real server. */
export interface ServerProcess {
  readonly url: string;
  /**
   * Requests that run or wait. Zero only when the scheduler itself says that nothing is left, and then the prefix
   * cache is empty afterwards: that is the only question to which both engines answer truthfully.
   */
  runningRequests(): Promise<number>;
  /** Whether it still makes tokens: a server whose scheduler has died goes on answering for some seconds. */
  isAlive(): Promise<boolean>;
  /** Counts since it was ready. */
  counters(): Promise<EngineCounters>;
  /** One of its metrics, summed over all labels. */
  metric(name: string): Promise<number>;
  /** Every generation whose answer was begun since it was ready, refused ones included. */
  calls(): Promise<LoggedCall[]>;
  /** The last lines of its output. */
  logTail(lines?: number): Promise<string>;
  /** Kills it and all its child processes at once; resolves when they are gone. */
  kill(): Promise<void>;
}

/** A real engine that serves `tests/fixtures/tiny-qwen3`: one server or a pair; of a pair, the sums over both. */
export interface EngineProcess extends EngineKind, ServerProcess {
  /** The server to send requests to; of a pair, the decode server. */
  readonly url: string;
  /** As a `workers` entry of Canopy's configuration. */
  readonly worker: WorkerConfig;
  /** One server, or prefill and decode. */
  readonly servers: readonly ServerProcess[];
  /** The model folder that it serves. */
  readonly modelFolder: string;
  /** Names it answers to. */
  readonly modelNames: readonly string[];
  /** The text that these tokens stand for. */
  detokenize(ids: readonly number[]): Promise<string>;
  /** Ends it and all its child processes. */
  stop(): Promise<void>;
}

export interface StartOptions extends EngineKind {
  /** Names to answer to; SGLang lists the first and answers to any. Default: `tiny-qwen3`. */
  readonly modelNames?: readonly string[];
  /** Default: the tiny model. */
  readonly modelFolder?: string;
  /** Where to listen; any free port by default. Not for pairs. */
  readonly port?: number;
  /** Further command-line flags of the engine; of a pair, of both servers. */
  readonly flags?: readonly string[];
  /** Longest time until it is ready; 15 to 45 s are usual, more when the machine is busy. Default: 240 s. */
  readonly readyTimeoutMs?: number;
}

/** The model folder that all engines serve. */
export const tinyModel = fileURLToPath(new URL("../fixtures/tiny-qwen3", import.meta.url));

const here = fileURLToPath(new URL(".", import.meta.url));

/** Where engines are installed. */
export const enginesFolder = process.env["CANOPY_ENGINES_DIR"] ?? join(homedir(), ".cache", "canopy-engines");

/** The command that installs an engine. */
export function setupCommand({ engine, version }: EngineKind): string {
  return engine.startsWith("vllm")
    ? "tests/engines/setup_vllm.sh"
    : `tests/engines/setup_sglang.sh ${version}`;
}

/** Whether its setup script has run. */
export function isInstalled({ engine, version }: EngineKind): boolean {
  const parts = {
    "vllm": [`vllm-${version}`],
    "vllm-pd": [`vllm-${version}`, "nixl-1.5.1"],
    "sglang": [`sglang-${version}`],
    "sglang-pd": [`sglang-${version}`, "mooncake-0.3.10.post2"],
  };
  return parts[engine].every((part) => existsSync(join(enginesFolder, part, ".done")));
}

/** Starts an engine on free loopback ports and resolves when it is ready. Rejects with its last output. */
export async function startEngine(options: StartOptions): Promise<EngineProcess> {
  const { engine, version, modelNames = ["tiny-qwen3"], modelFolder = tinyModel } = options;
  const name = `${engine} ${version}`;
  if (!isInstalled(options)) throw new Error(`${name} is not installed: run ${setupCommand(options)}`);
  const started = isPair(options) ? await startPair(options) : await startAlone(options);
  const { servers, worker } = started;
  const url = servers.at(-1)?.url ?? "";
  const stop = async () => {
    await Promise.all(servers.map((server) => server.stop()));
  };
  try {
    return {
      engine,
      version: await reportedVersion(engine, url),
      url,
      worker,
      servers,
      modelFolder,
      modelNames,
      runningRequests: async () => sum(await Promise.all(servers.map((server) => server.runningRequests()))),
      isAlive: async () => (await Promise.all(servers.map((server) => server.isAlive()))).every(Boolean),
      counters: async () => {
        const counts = await Promise.all(servers.map((server) => server.counters()));
        return counts.reduce((one, other) => combined(one, other, (a, b) => a + b));
      },
      metric: async (name) => sum(await Promise.all(servers.map((server) => server.metric(name)))),
      calls: async () => (await Promise.all(servers.map((server) => server.calls()))).flat(),
      detokenize: async (ids) => {
        const answer = await send("POST", `${url}/detokenize`, { model: modelNames[0], tokens: ids });
        const body: { prompt?: string; text?: string } = JSON.parse(answer.text);
        const text = body.prompt ?? body.text;
        if (text === undefined) {
          throw new Error(`${name} answered ${answer.status} to /detokenize: ${answer.text}`);
        }
        return text;
      },
      logTail: async (lines) =>
        (await Promise.all(servers.map((server) => server.logTail(lines)))).join("\n\n"),
      kill: async () => {
        await Promise.all(servers.map((server) => server.kill()));
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Both counts, number by number. */
export function combined(
  one: EngineCounters,
  other: EngineCounters,
  combine: (one: number, other: number) => number,
): EngineCounters {
  return {
    requests: combine(one.requests, other.requests),
    finished: combine(one.finished, other.finished),
    promptTokens: combine(one.promptTokens, other.promptTokens),
    cachedTokens: combine(one.cachedTokens, other.cachedTokens),
    generationTokens: combine(one.generationTokens, other.generationTokens),
  };
}

interface Started {
  readonly servers: readonly (ServerProcess & { stop(): Promise<void> })[];
  readonly worker: WorkerConfig;
}

async function startAlone(options: StartOptions): Promise<Started> {
  const port = options.port ?? await freePort();
  const command = options.engine === "vllm"
    ? ["serve_vllm.sh", `${port}`]
    : ["serve_sglang.sh", options.version, `${port}`];
  const server = await startServer(options, port, command);
  return { servers: [server], worker: server.url };
}

async function startPair(options: StartOptions): Promise<Started> {
  const [prefillPort, decodePort, registry, other] = await Promise.all([
    freePort(),
    freePort(),
    freePort(),
    freePort(),
  ]);
  const halves = [["prefill", prefillPort, registry], ["decode", decodePort, other]] as const;
  const begun = await Promise.allSettled(halves.map(([role, port, sidePort]) =>
    startServer(
      options,
      port,
      options.engine === "vllm-pd"
        ? ["serve_vllm_half.sh", role, `${port}`, `${sidePort}`]
        : ["serve_sglang_half.sh", options.version, role, `${port}`, `${sidePort}`],
    )
  ));
  const servers = begun.flatMap((result) => result.status === "fulfilled" ? [result.value] : []);
  const failure = begun.find((result) => result.status === "rejected");
  if (failure !== undefined) {
    await Promise.all(servers.map((server) => server.stop()));
    throw failure.reason;
  }
  const pair = { prefill: `http://127.0.0.1:${prefillPort}`, decode: `http://127.0.0.1:${decodePort}` };
  return {
    servers,
    worker: options.engine === "vllm-pd" ? pair : { ...pair, bootstrap_port: registry },
  };
}

/** Starts one server with a script of this folder and resolves when it is ready. Rejects with its last output. */
async function startServer(
  options: StartOptions,
  port: number,
  command: readonly string[],
): Promise<ServerProcess & { stop(): Promise<void> }> {
  const { engine, version, modelNames = ["tiny-qwen3"], flags = [], readyTimeoutMs = 240_000 } = options;
  const name = `${engine} ${version}`;
  const url = `http://127.0.0.1:${port}`;
  const folder = await mkdtemp(join(tmpdir(), "canopy-engine-"));
  const logFile = join(folder, "log");
  const log = await openFile(logFile, "w");
  const isVllm = engine.startsWith("vllm");
  const names = isVllm ? modelNames : modelNames.slice(0, 1);
  const [script = "", ...parameters] = command;
  const serve = [join(here, script), ...parameters, "--served-model-name", ...names, ...flags];
  // setsid: lifeline.sh needs a process group of its own. It ends everything when the pipe to its stdin closes.
  const child = spawn("setsid", [join(here, "lifeline.sh"), ...serve], {
    stdio: ["pipe", log.fd, log.fd],
    env: { ...process.env, MODEL: options.modelFolder ?? tinyModel },
  });
  await log.close();
  let ended = false;
  const end = new Promise<void>((resolve) => {
    const settle = () => (ended = true, resolve());
    child.once("exit", settle);
    child.once("error", settle);
  });
  const stop = async () => {
    child.stdin?.end();
    await end;
    await rm(folder, { recursive: true, force: true });
  };
  const logTail = async (lines = 30) =>
    (await readFile(logFile, "utf8")).trimEnd().split("\n").slice(-lines).join("\n");

  try {
    const giveUpAt = performance.now() + readyTimeoutMs;
    while (!await isHealthy(url)) {
      if (ended) throw new Error(`${name} ended before it was ready:\n${await logTail()}`);
      if (performance.now() > giveUpAt) {
        throw new Error(`${name} is not ready after ${readyTimeoutMs} ms:\n${await logTail()}`);
      }
      await sleep(250);
    }
    const { running, count } = isVllm ? vllm : sglang;
    const start = await count(url); // SGLang warms itself up with a request
    const startOfLog = (await readFile(logFile, "utf8")).length;
    return {
      url,
      runningRequests: () => running(url),
      isAlive: () => isHealthy(url),
      counters: async () => combined(await count(url), start, (now, then) => now - then),
      metric: async (name) => (await readMetrics(url))(name),
      calls: async () => {
        const lines = (await readFile(logFile, "utf8")).slice(startOfLog);
        return [...lines.matchAll(/"POST (\/generate|\/v1\/(?:chat\/)?completions) HTTP\/1\.1" (\d{3})/g)]
          .map(([, path = "", status]) => ({ path, status: Number(status) }));
      },
      logTail,
      kill: async () => {
        // It leads a group of its own.
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
        await end;
      },
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Resolves with true as soon as nothing runs or waits in the engine, with false when `withinMs` have passed. */
export async function becomesIdle(engine: EngineProcess, withinMs: number): Promise<boolean> {
  const giveUpAt = performance.now() + withinMs;
  do {
    if (await engine.runningRequests() === 0) return true;
    await sleep(20);
  } while (performance.now() < giveUpAt);
  return false;
}

/** Resolves when `holds` does; rejects with `what` when `withinMs` have passed. */
export async function eventually(
  what: string,
  holds: () => Promise<boolean>,
  withinMs: number,
): Promise<void> {
  const giveUpAt = performance.now() + withinMs;
  while (!await holds()) {
    if (performance.now() > giveUpAt) throw new Error(`not within ${withinMs} ms: ${what}`);
    await sleep(20);
  }
}

/** How the state of one engine family is read. */
interface Gauges {
  running(url: string): Promise<number>;
  count(url: string): Promise<EngineCounters>;
}

const vllm: Gauges = {
  // The gauges change only at the end of a step, so they miss a prompt that is being prefilled and still show one
  // that was aborted. Emptying the prefix cache succeeds exactly when no request holds a block.
  async running(url) {
    const { text } = await send("POST", `${url}/reset_prefix_cache`);
    if (/"success":\s*true/.test(text)) return 0;
    const metrics = await readMetrics(url);
    return Math.max(1, metrics("vllm:num_requests_running") + metrics("vllm:num_requests_waiting"));
  },
  async count(url) {
    const metrics = await readMetrics(url);
    return {
      requests: metrics("vllm:time_to_first_token_seconds_count"),
      finished: metrics("vllm:request_success_total"), // its label finished_reason="abort" stays 0
      promptTokens: metrics("vllm:prompt_tokens_total"),
      cachedTokens: metrics("vllm:prefix_cache_hits_total"),
      generationTokens: metrics("vllm:generation_tokens_total"),
    };
  },
};

const sglang: Gauges = {
  // /v1/loads and the gauges are snapshots that miss a prompt that is being prefilled. Emptying the prefix cache
  // succeeds exactly when the scheduler is idle.
  async running(url) {
    const { status } = await send("POST", `${url}/flush_cache`);
    if (status === 200) return 0;
    const { status: known, text } = await send("GET", `${url}/v1/loads`);
    if (known !== 200) return 1; // 0.5.10.post1
    const { loads }: { loads: { num_running_reqs: number; num_waiting_reqs: number }[] } = JSON.parse(text);
    return Math.max(1, loads.reduce((sum, load) => sum + load.num_running_reqs + load.num_waiting_reqs, 0));
  },
  async count(url) {
    const metrics = await readMetrics(url);
    const finished = metrics("sglang:num_requests_total");
    return {
      requests: metrics("sglang:time_to_first_token_seconds_count") || finished,
      finished,
      promptTokens: metrics("sglang:prompt_tokens_total"),
      cachedTokens: metrics("sglang:cached_tokens_total"),
      generationTokens: metrics("sglang:generation_tokens_total"),
    };
  },
};

/** The engine's metrics as a function from a name to the sum over all its labels. */
async function readMetrics(url: string): Promise<(name: string) => number> {
  const { text } = await send("GET", `${url}/metrics`);
  const lines = text.split("\n");
  return (name) =>
    lines.filter((line) => line.startsWith(`${name}{`))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}

async function isHealthy(url: string): Promise<boolean> {
  try {
    return (await send("GET", `${url}/health`)).status === 200;
  } catch {
    return false; // nobody listens yet
  }
}

async function reportedVersion(engine: EngineKind["engine"], url: string): Promise<string> {
  const { text } = await send("GET", url + (engine.startsWith("vllm") ? "/version" : "/server_info"));
  const { version }: { version: string } = JSON.parse(text);
  return version;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((one, other) => one + other, 0);
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() =>
        typeof address === "object" && address !== null
          ? resolve(address.port)
          : reject(new Error("no free port"))
      );
    });
  });
}
