import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, open as openFile, readFile, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { send } from "./http_request.ts";

/** An engine that the scripts in this folder can install. */
export interface EngineKind {
  readonly engine: "vllm" | "sglang";
  readonly version: string;
}

/** All of them. */
export const engineKinds: readonly EngineKind[] = [
  { engine: "vllm", version: "0.32.0" },
  { engine: "sglang", version: "0.5.18" },
  { engine: "sglang", version: "0.5.23" },
];

/** What an engine has counted since it was ready. */
export interface EngineCounters {
  /** Requests that got a first token, also those that were aborted later. */
  readonly requests: number;
  /** Requests that ran to their end. Neither engine counts one whose client has left without an abort. */
  readonly finished: number;
  /** vLLM: of all requests with a first token. SGLang: of requests that ended. */
  readonly promptTokens: number;
  /** vLLM: as they are made. SGLang: of requests that ended. */
  readonly generationTokens: number;
}

/** A request for a generation, as the engine's access log shows it. */
export interface LoggedCall {
  readonly path: string;
  readonly status: number;
}

/** A real engine that serves `tests/fixtures/tiny-qwen3`. */
export interface EngineProcess extends EngineKind {
  readonly url: string;
  /** Names it answers to. */
  readonly modelNames: readonly string[];
  /**
   * Requests that run or wait. Zero only when the engine's scheduler itself says that nothing is left, and then the
   * prefix cache is empty afterwards: that is the only question to which both engines answer truthfully.
   */
  runningRequests(): Promise<number>;
  /** Whether it still makes tokens: a server whose scheduler has died goes on answering for some seconds. */
  isAlive(): Promise<boolean>;
  /** Counts since the engine was ready. */
  counters(): Promise<EngineCounters>;
  /** Every generation whose answer was begun since the engine was ready, refused ones included. */
  calls(): Promise<LoggedCall[]>;
  /** The text that these tokens stand for. */
  detokenize(ids: readonly number[]): Promise<string>;
  /** The last lines of its output. */
  logTail(lines?: number): Promise<string>;
  /** Ends it and all its child processes. */
  stop(): Promise<void>;
}

export interface StartOptions extends EngineKind {
  /** Names to answer to; SGLang lists the first and answers to any. Default: `tiny-qwen3`. */
  readonly modelNames?: readonly string[];
  /** Further command-line flags of the engine. */
  readonly flags?: readonly string[];
  /** Longest time until it is ready; 15 to 45 s are usual, more when the machine is busy. Default: 240 s. */
  readonly readyTimeoutMs?: number;
}

/** The model folder that all engines serve. */
export const tinyModel = fileURLToPath(new URL("../fixtures/tiny-qwen3", import.meta.url));

const here = fileURLToPath(new URL(".", import.meta.url));

/** The command that installs an engine. */
export function setupCommand({ engine, version }: EngineKind): string {
  return `tests/engines/setup_${engine}.sh` + (engine === "sglang" ? ` ${version}` : "");
}

/** Whether its setup script has run. */
export function isInstalled({ engine, version }: EngineKind): boolean {
  const folder = process.env["CANOPY_ENGINES_DIR"] ?? join(homedir(), ".cache", "canopy-engines");
  return existsSync(join(folder, `${engine}-${version}`, ".done"));
}

/** Starts an engine on a free loopback port and resolves when it is ready. Rejects with its last output. */
export async function startEngine(options: StartOptions): Promise<EngineProcess> {
  const { engine, version, modelNames = ["tiny-qwen3"], flags = [], readyTimeoutMs = 240_000 } = options;
  const name = `${engine} ${version}`;
  if (!isInstalled(options)) throw new Error(`${name} is not installed: run ${setupCommand(options)}`);

  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const folder = await mkdtemp(join(tmpdir(), "canopy-engine-"));
  const logFile = join(folder, "log");
  const log = await openFile(logFile, "w");
  const serve = engine === "vllm"
    ? [join(here, "serve_vllm.sh"), `${port}`, "--served-model-name", ...modelNames]
    : [
      join(here, "serve_sglang.sh"),
      version,
      `${port}`,
      "--served-model-name",
      modelNames[0] ?? "tiny-qwen3",
    ];
  // setsid: lifeline.sh needs a process group of its own. It ends everything when the pipe to its stdin closes.
  const child = spawn("setsid", [join(here, "lifeline.sh"), ...serve, ...flags], {
    stdio: ["pipe", log.fd, log.fd],
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
    const { running, count } = engine === "vllm" ? vllm : sglang;
    const start = await count(url); // SGLang warms itself up with a request
    const startOfLog = (await readFile(logFile, "utf8")).length;
    return {
      engine,
      version: await reportedVersion(engine, url),
      url,
      modelNames,
      runningRequests: () => running(url),
      isAlive: () => isHealthy(url),
      counters: async () => {
        const now = await count(url);
        return {
          requests: now.requests - start.requests,
          finished: now.finished - start.finished,
          promptTokens: now.promptTokens - start.promptTokens,
          generationTokens: now.generationTokens - start.generationTokens,
        };
      },
      calls: async () => {
        const lines = (await readFile(logFile, "utf8")).slice(startOfLog);
        return [...lines.matchAll(/"POST (\/generate|\/v1\/(?:chat\/)?completions) HTTP\/1\.1" (\d{3})/g)]
          .map(([, path = "", status]) => ({ path, status: Number(status) }));
      },
      detokenize: async (ids) => {
        const answer = await send("POST", `${url}/detokenize`, { model: modelNames[0], tokens: ids });
        const body: { prompt?: string; text?: string } = JSON.parse(answer.text);
        const text = body.prompt ?? body.text;
        if (text === undefined) {
          throw new Error(`${name} answered ${answer.status} to /detokenize: ${answer.text}`);
        }
        return text;
      },
      logTail,
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
    const { text } = await send("GET", `${url}/v1/loads`);
    const { loads }: { loads: { num_running_reqs: number; num_waiting_reqs: number }[] } = JSON.parse(text);
    return Math.max(1, loads.reduce((sum, load) => sum + load.num_running_reqs + load.num_waiting_reqs, 0));
  },
  async count(url) {
    const metrics = await readMetrics(url);
    return {
      requests: metrics("sglang:time_to_first_token_seconds_count"),
      finished: metrics("sglang:num_requests_total"),
      promptTokens: metrics("sglang:prompt_tokens_total"),
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
  const { text } = await send("GET", url + (engine === "vllm" ? "/version" : "/server_info"));
  const { version }: { version: string } = JSON.parse(text);
  return version;
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
