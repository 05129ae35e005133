import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { IncomingResponse, OutgoingRequest } from "../../../base/transport.ts";
import { wordExitServices } from "../../../bench/experiments/exit_run.ts";
import type { SandboxSource } from "../../../bench/grading/grade_program.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { createRouter, type Router } from "../../../router/router.ts";
import { type MemoryHandler, MemoryTransport } from "../../../router/transport/memory.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { createSimulator } from "../../../simulator/simulator.ts";
import { version } from "../../kit/version.ts";
import {
  type CostOf,
  simulatedConfig,
  type SimulatedEngine,
  type StartedEngine,
} from "./simulated_config.ts";

/** Tokens of a piece of a stream. */
export const STREAM_INTERVAL = 8;

/** Port of a prefill server's registry; each server has a host of its own. */
const BOOTSTRAP_PORT = 8998;

/** Routers before simulated H200 GPUs, all in this process and in virtual time: nothing listens, and nobody waits. */
export class SimulatedWorld {
  readonly clock = new VirtualClock();
  readonly transport = new MemoryTransport(({ url }) => {
    const { host, hostname } = new URL(url);
    return this.#hosts.get(host) ?? this.#hosts.get(hostname);
  });
  readonly #costOf: CostOf;
  readonly #hosts = new Map<string, MemoryHandler>();
  readonly #served = new Map<string, { readonly config: Config; readonly router: Router }>();

  constructor(costOf: CostOf = () => undefined) {
    this.#costOf = costOf;
  }

  /** Serves a configuration with a simulated server, or pair, for each of its models; gives the router's URL. */
  async serve(config: Config, number = this.#served.size + 1): Promise<string> {
    const start = (engine: SimulatedEngine) => Promise.resolve(this.#start(engine));
    const router = createRouter({
      config: await simulatedConfig(config, start, this.#costOf),
      clock: this.clock,
      random: new Random(`router ${number}`),
      transport: this.transport,
      version,
      earlyExit: wordExitServices(this.clock),
      loadTokenizer: () => Promise.resolve(builtinTokenizer()),
    });
    const host = `localhost:${number}`;
    this.#served.set(`http://${host}`, { config, router });
    await this.clock.run(() => router.ready());
    return this.#listen(host, (request, signal) => answered(router, request, signal));
  }

  /**
   * Runs `work` in a world of its own in which only the configuration behind this URL is served, as it was at the start:
   * nothing is cached, and what is asked before and beside changes nothing.
   */
  async alone<T>(url: string, work: (world: SimulatedWorld) => Promise<T>): Promise<T> {
    const world = new SimulatedWorld(this.#costOf);
    try {
      await world.serve(this.#served.get(url)!.config, Number(new URL(url).port));
      return await world.clock.run(() => work(world));
    } finally {
      await world.close();
    }
  }

  /** A sandbox whose programs run while the time stands still. */
  sandbox(source: SandboxSource): SandboxSource {
    return async () => {
      const opened = await this.clock.outside(source());
      if (typeof opened === "string") return opened;
      return { run: (request, seconds) => this.clock.outside(opened.run(request, seconds)) };
    };
  }

  async close(): Promise<void> {
    await this.clock.run(async () => {
      for (const { router } of this.#served.values()) await router.close();
    });
  }

  #start({ half, ...options }: SimulatedEngine): StartedEngine {
    const name = `engine-${this.#hosts.size + 1}`;
    const simulator = createSimulator({
      ...options,
      clock: this.clock,
      // Events that repeat all before them, or come for each token, would cost most of the time that this takes.
      incrementalStream: true,
      streamInterval: STREAM_INTERVAL,
      pd: half && { ...half, bootstrapHost: name },
    });
    const url = this.#listen(name, (request, signal) => simulator.handle(request, signal));
    return { url, bootstrapPort: half?.role === "prefill" ? BOOTSTRAP_PORT : undefined };
  }

  #listen(host: string, handler: MemoryHandler): string {
    this.#hosts.set(host, handler);
    return `http://${host}`;
  }
}

async function answered(
  { app }: Router,
  { method, url, headers, body }: OutgoingRequest,
  signal: AbortSignal,
): Promise<IncomingResponse> {
  const sent = typeof body === "string" || body === undefined ? body : new Uint8Array(body);
  const response = await app.fetch(new Request(url, { method, headers, body: sent ?? null, signal }));
  return {
    status: response.status,
    headers: Object.fromEntries(response.headers),
    body: piecesOf(response.body),
  };
}

async function* piecesOf(
  body: ReadableStream<Uint8Array> | null,
): AsyncGenerator<Uint8Array, void, undefined> {
  if (body === null) return;
  const reader = body.getReader();
  try {
    for (let read = await reader.read(); !read.done; read = await reader.read()) yield read.value;
  } finally {
    await reader.cancel();
  }
}
