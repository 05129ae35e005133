import type { Clock } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import {
  type IncomingResponse,
  type OutgoingRequest,
  type Transport,
  TransportError,
} from "../../base/transport.ts";
import type { LaunchPlan, PlannedEngine } from "../../launcher/plan/launch_plan.ts";
import type { EngineProcess, Exit, Processes, ProcessOptions } from "../../launcher/supervise/processes.ts";

/** What a fake engine does: prints, becomes healthy, ends. Times in ms after its start. */
export interface FakeLife {
  readonly lines?: readonly (readonly [atMs: number, line: string])[];
  /** When it answers; never, when absent. */
  readonly healthyAtMs?: number;
  /** When it ends by itself. */
  readonly exit?: readonly [atMs: number, exit: Exit];
  /** From when to when it gives no answer though it runs. */
  readonly hangs?: readonly [fromMs: number, untilMs: number];
  /** True: SIGTERM means nothing to it. */
  readonly stubborn?: boolean;
  /** The status with which it answers a request for a token; 200 when absent. */
  readonly tokenStatus?: number;
  /** The key without which it answers nothing but health checks. */
  readonly apiKey?: string;
  /** True: there is no such program. */
  readonly absent?: boolean;
}

interface Live {
  readonly life: FakeLife;
  readonly startedAtMs: number;
  readonly port: number;
  readonly end: (exit: Exit) => void;
  ended: boolean;
}

/** Processes that exist on a clock only, and the network on which they answer. */
export class FakeProcesses implements Processes, Transport {
  /** Names of engines in the order of their starts, with the time of each. */
  readonly starts: (readonly [name: string, atMs: number])[] = [];
  /** Signals that were sent, in order. */
  readonly signals: (readonly [name: string, signal: string, atMs: number])[] = [];
  readonly #clock: Clock;
  readonly #lives: Map<string, FakeLife[]>;
  readonly #live = new Map<string, Live>();
  #pids = 100;

  /** By engine name: one life for each start; the last one for all further starts. */
  constructor(clock: Clock, lives: Readonly<Record<string, readonly FakeLife[]>>) {
    this.#clock = clock;
    this.#lives = new Map(Object.entries(lives).map(([name, list]) => [name, [...list]]));
  }

  get running(): string[] {
    return [...this.#live].filter(([, live]) => !live.ended).map(([name]) => name);
  }

  start({ command, onLine }: ProcessOptions): Promise<EngineProcess> {
    const [, name = "", port = "0"] = command.argv;
    const list = this.#lives.get(name) ?? [];
    const life = (list.length > 1 ? list.shift() : list[0]) ?? {};
    if (life.absent) {
      return Promise.reject(
        new CanopyError(`There is no program ${name}`, { code: "engine_not_installed", status: 500 }),
      );
    }
    const exited = Promise.withResolvers<Exit>();
    const gone = new AbortController();
    const live: Live = {
      life,
      startedAtMs: this.#clock.now(),
      port: Number(port),
      ended: false,
      end: (exit) => {
        if (live.ended) return;
        live.ended = true;
        gone.abort();
        exited.resolve(exit);
      },
    };
    this.#live.set(name, live);
    this.starts.push([name, this.#clock.now()]);
    const later = (atMs: number, act: () => void) =>
      void this.#clock.sleep(atMs, gone.signal).then(act, () => {});
    for (const [atMs, line] of life.lines ?? []) later(atMs, () => onLine(line));
    if (life.exit !== undefined) later(life.exit[0], () => live.end(life.exit![1]));
    return Promise.resolve({
      pid: this.#pids++,
      startTime: `t${this.#clock.now()}`,
      exited: exited.promise,
      signal: (signal) => {
        this.signals.push([name, signal, this.#clock.now()]);
        if (signal === "SIGTERM" && life.stubborn) return;
        live.end({ code: undefined, signal });
      },
      groupAlive: () => !live.ended,
    });
  }

  /** Ends an engine from outside, as an operator with `kill` does. */
  kill(name: string): void {
    this.#live.get(name)?.end({ code: undefined, signal: "SIGKILL" });
  }

  async send(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    const url = new URL(request.url);
    const live = [...this.#live.values()].find((one) => !one.ended && one.port === Number(url.port));
    const aliveMs = live === undefined ? NaN : this.#clock.now() - live.startedAtMs;
    if (live === undefined || !(aliveMs >= (live.life.healthyAtMs ?? Infinity))) {
      throw new TransportError("connect_failed", request.url);
    }
    const [from, until] = live.life.hangs ?? [Infinity, Infinity];
    if (aliveMs >= from && aliveMs < until) await this.#clock.sleep(Infinity, signal);
    const { tokenStatus = 200, apiKey } = live.life;
    if (url.pathname.startsWith("/v1/") && apiKey !== undefined) {
      if (request.headers?.["authorization"] !== `Bearer ${apiKey}`) {
        return answer(401, { error: "Unauthorized" });
      }
    }
    switch (url.pathname) {
      case "/v1/models":
        return answer(200, { data: [{ id: "org/model" }] });
      case "/v1/completions":
        return answer(tokenStatus, tokenStatus === 200 ? { choices: [{ text: "!" }] } : { error: "no" });
      default:
        return answer(200, {});
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

function answer(status: number, body: unknown): IncomingResponse {
  const bytes = new TextEncoder().encode(JSON.stringify(body));
  return {
    status,
    headers: {},
    body: (async function* () {
      yield bytes;
    })(),
  };
}

/** An engine of a plan; `gpus` by index. */
export function plannedEngine(
  name: string,
  port: number,
  options: Partial<Omit<PlannedEngine, "gpus" | "name" | "port">> & { gpus?: readonly number[] } = {},
): PlannedEngine {
  const command = { argv: ["engine", name, String(port)], env: {} } as const;
  return {
    name,
    modelKey: name,
    shape: undefined,
    family: "vllm",
    version: "0.32.0",
    role: "whole",
    tensorParallel: 1,
    memoryFraction: 0.9,
    memory: undefined,
    host: "127.0.0.1",
    port,
    bootstrapPort: undefined,
    command,
    bare: command,
    image: undefined,
    within: undefined,
    nodes: 1,
    contextTokens: undefined,
    reasons: [],
    ...options,
    gpus: (options.gpus ?? []).map((index) => ({
      id: String(index),
      index,
      uuid: `GPU-${index}`,
      name: "NVIDIA H200",
      vendor: "nvidia",
      totalMiB: 143_771,
      usedMiB: 0,
      computeCapability: "9.0",
      numaNode: undefined,
    })),
  };
}

export function planOf(...engines: PlannedEngine[]): LaunchPlan {
  return {
    host: { gpus: [], driver: undefined, linked: () => false, source: "test" },
    engines,
    workers: new Map(),
    protocols: new Map(),
    notes: [],
  };
}
