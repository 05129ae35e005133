import { Buffer } from "node:buffer";
import { VirtualClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import {
  type IncomingResponse,
  type OutgoingRequest,
  type Transport,
  TransportError,
} from "../../../base/transport.ts";
import { modelSchema } from "../../../cfgs/schema/config.ts";
import type { Engine } from "../../../router/engines/engine.ts";
import { Arrivals } from "../../../router/pool/arrivals.ts";
import { createPool } from "../../../router/pool/create_pool.ts";
import type { ManagedPool } from "../../../router/pool/pool.ts";
import { createRelay } from "../../../router/relay/relay.ts";
import type { Relay, RelayAnswer, RelayRequest } from "../../../router/relay/relay_types.ts";
import type { ServedModel } from "../../../router/served/served_model.ts";

/** One thing that a worker does, in order. */
export type Act =
  | { readonly send: string | Uint8Array }
  | { readonly waitMs: number }
  | {
    readonly fail: "connect_failed" | "reset_before_head" | "reset_in_body";
    readonly reusedSocket?: boolean;
  }
  | { readonly hang: true };

/** What a worker does with a request: acts before the head, the head, acts in the body. */
export interface Script {
  readonly before?: readonly Act[];
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: readonly Act[];
}

/** A request that a worker got. */
export interface Seen {
  readonly host: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** Workers that play scripts, and a journal of everything that they see. */
export class FakeWorkers implements Transport {
  readonly seen: Seen[] = [];
  /** `POST a /path`, `close a /path`, `end a /path`, in the order in which they happened. */
  readonly journal: string[] = [];
  /** Scripts of a host, used one after the other; the last one stays. */
  readonly scripts = new Map<string, Script[]>();
  /** True when a body that is sent without a wait is there with its head. */
  atOnce = false;
  open = 0;
  chunksRead = 0;

  constructor(readonly clock: VirtualClock) {}

  async send(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    signal.throwIfAborted();
    const { host, pathname: path } = new URL(request.url);
    const body = typeof request.body === "string" ? request.body : new TextDecoder().decode(request.body);
    this.seen.push({ host, path, headers: request.headers, body });
    this.journal.push(`${request.method} ${host} ${path}`);
    const queue = this.scripts.get(`${host}${path}`) ?? this.scripts.get(host) ?? [{}];
    const script = (queue.length > 1 ? queue.shift() : queue[0]) ?? {};
    this.open++;
    try {
      for await (
        const _none of this.#play(script.before ?? [], request.url, signal)
      ) { /* nothing is sent yet */ }
    } catch (error) {
      this.open--;
      this.journal.push(`close ${host} ${path}`);
      throw error;
    }
    const sent = (script.body ?? []).flatMap((act) => "send" in act ? [Buffer.from(act.send)] : []);
    const isThere = this.atOnce && sent.length === (script.body ?? []).length;
    return {
      status: script.status ?? 200,
      headers: script.headers ?? {},
      body: this.#body(script, request.url, signal),
      ...(isThere && { takeWhole: () => this.#whole(sent, `${host} ${path}`) }),
    };
  }

  #whole(sent: readonly Buffer[], where: string): Uint8Array {
    this.open--;
    this.chunksRead += sent.length;
    this.journal.push(`end ${where}`);
    return Buffer.concat(sent);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  async *#body(script: Script, url: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const { host, pathname: path } = new URL(url);
    let ended = false;
    // A socket is closed by its signal, whether or not somebody reads.
    const onAbort = () => {
      if (!ended) this.journal.push(`close ${host} ${path}`);
      ended = true;
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      for await (const chunk of this.#play(script.body ?? [], url, signal)) {
        signal.throwIfAborted();
        this.chunksRead++;
        yield chunk;
      }
      signal.throwIfAborted();
      ended = true;
      this.journal.push(`end ${host} ${path}`);
    } finally {
      signal.removeEventListener("abort", onAbort);
      onAbort();
      this.open--;
    }
  }

  async *#play(acts: readonly Act[], url: string, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    for (const act of acts) {
      if ("send" in act) yield typeof act.send === "string" ? new TextEncoder().encode(act.send) : act.send;
      else if ("waitMs" in act) await this.clock.sleep(act.waitMs, signal);
      else if ("hang" in act) await untilAborted(signal);
      else throw new TransportError(act.fail, url, { reusedSocket: act.reusedSocket ?? false });
    }
  }
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) return reject(signal.reason);
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
}

/** A head for server-sent events. */
export const SSE = { "content-type": "text/event-stream; charset=utf-8" };
/** A head for JSON. */
export const JSON_HEAD = { "content-type": "application/json" };

/** One server-sent event. */
export function event(data: unknown): Act {
  return { send: `data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n` };
}

/** Everything that a relay test needs. */
export interface RelayBench {
  readonly clock: VirtualClock;
  readonly workers: FakeWorkers;
  readonly pool: ManagedPool;
  readonly model: ServedModel;
  readonly relay: Relay;
  readonly gone: AbortController;
  /** Relays a POST of this body text. */
  post(body: string, options?: { path?: string; headers?: Record<string, string> }): Promise<Response>;
  /** Places that were not given back, connections that were not closed, timers that were not cancelled. */
  leaks(): { inFlight: number; open: number; timers: number };
}

/** An answer as a client sees it. */
export function responseOf({ status, headers, body }: RelayAnswer): Response {
  if (body === undefined || body instanceof Uint8Array) {
    return new Response(body ?? null, { status, headers });
  }
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await body.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    cancel: async () => void await body.return(),
  }, { highWaterMark: 0 });
  return new Response(stream, { status, headers });
}

/** A relay in front of fake workers `a`, `b`, … (or those of the config). */
export function relayBench(config: Record<string, unknown> = {}, name = "m"): RelayBench {
  const clock = new VirtualClock();
  const workers = new FakeWorkers(clock);
  const random = new Random("relay");
  const log = logger("test");
  const parsed = modelSchema.parse({
    model: "m",
    engine: "vllm",
    workers: ["http://a"],
    policy: "round_robin",
    ...config,
  });
  const pool = createPool({ model: name, config: parsed, clock, random, transport: workers, log });
  const model: ServedModel = {
    name,
    config: parsed,
    engine: noEngine,
    pool,
    membership: pool,
    tokenizer: undefined,
  };
  const relay = createRelay({ clock, random, transport: workers, log, arrivals: new Arrivals() });
  const gone = new AbortController();
  return {
    clock,
    workers,
    pool,
    model,
    relay,
    gone,
    post(body, options = {}) {
      const request: RelayRequest = {
        method: "POST",
        path: options.path ?? "/v1/chat/completions",
        headers: { "content-type": "application/json", ...options.headers },
        body: new TextEncoder().encode(body),
      };
      return relay.relay(model, request, gone.signal).then(responseOf);
    },
    leaks: () => ({
      inFlight: pool.workers().reduce((sum, worker) => sum + worker.inFlight, 0),
      open: workers.open,
      timers: clock.pendingTimers,
    }),
  };
}

/** No leak at all. */
export const CLEAN = { inFlight: 0, open: 0, timers: 0 };

/** The relay never asks the engine anything. */
const noEngine: Engine = {
  capabilities: {
    version: undefined,
    tokenIds: false,
    returnsTokenIds: false,
    logprobs: false,
    cachedTokens: false,
    warm: "none",
    abort: "close",
    contextTokens: undefined,
    maxStopStrings: undefined,
  },
  warm: () => Promise.reject(new Error("not used")),
  generate: () => {
    throw new Error("not used");
  },
};
