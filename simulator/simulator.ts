import type { Clock } from "../base/clock.ts";
import { AsyncQueue } from "../base/queue.ts";
import { type IncomingResponse, type OutgoingRequest, TransportError } from "../base/transport.ts";
import { Faults, type Strike } from "./engine/faults.ts";
import { versionNumber } from "./engine/sglang_version.ts";
import { ANY_HOST } from "./pd/fabric.ts";
import { BOOTSTRAP_PORT } from "./pd/role.ts";
import type { Protocol } from "./server/protocol.ts";
import {
  emptyReply,
  type Events,
  headersOf,
  Refusal,
  type Reply,
  type ServedRequest,
} from "./server/reply.ts";
import type { Simulator, SimulatorOptions } from "./server/simulator_options.ts";
import { Utf8Arena } from "./server/utf8.ts";
import { registryReply } from "./sglang/registry.ts";
import { sglangProtocol } from "./sglang/sglang.ts";
import { vllmProtocol } from "./vllm/vllm.ts";

/** Events of a slowed stream that wait for their time. */
const MAX_SLOW_EVENTS = 1024;

/** An answer whose body is not bytes yet. */
interface Served {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Events;
}

const utf8 = new Utf8Arena();
const fromUtf8 = new TextDecoder();

/** Makes a simulated server. It works in memory through `handle`, or on a port through `startSimulator`. */
export function createSimulator(options: SimulatorOptions): Simulator {
  const { clock } = options;
  const faults = new Faults(options);
  let life: "alive" | "dying" | "gone" = "alive";

  /** A fatal request: the engine stops for good, the HTTP process follows. Nobody gets an answer any more. */
  const die = (): Promise<never> => {
    if (life === "alive") {
      life = "dying";
      protocol.backend.scheduler.kill();
      protocol.dead?.();
      clock.sleep(protocol.deathMs / (options.speedup ?? 1)).then(crash, () => {});
    }
    return new Promise(() => {});
  };
  const connections = new Set<() => void>();
  const crash = () => {
    life = "gone";
    protocol.backend.kill();
    for (const reset of connections) reset();
  };
  const hooks = { die, strike: () => faults.nextTransfer() };
  const protocol: Protocol = options.engine === "vllm"
    ? vllmProtocol(options, hooks)
    : sglangProtocol(options, hooks);
  const { pd } = options;
  const registry = pd?.role !== "prefill" || options.engine === "vllm" ? undefined : {
    port: String(pd.bootstrapPort ?? BOOTSTRAP_PORT),
    facts: () => ({
      version: versionNumber(protocol.backend.version),
      host: pd.bootstrapHost === undefined || pd.bootstrapHost === ANY_HOST ? "127.0.0.1" : pd.bootstrapHost,
      httpPort: pd.httpPort ?? 30_000,
      pageSize: protocol.backend.scheduler.options.pageSize,
    }),
  };

  async function answer(request: OutgoingRequest, served: ServedRequest): Promise<Served> {
    if (life === "gone") throw new TransportError("connect_failed", request.url);
    const beganMs = clock.now();
    if (registry !== undefined && new URL(request.url).port === registry.port) {
      return incoming(registryReply(served, registry.facts()), request, undefined, beganMs);
    }
    const generates = protocol.generates(served);
    const strike = faults.next(generates);
    if (strike?.kind === "refuse") throw new TransportError("connect_failed", request.url);
    if (strike?.kind === "reset") {
      await clock.sleep(0);
      throw new TransportError("reset_before_head", request.url);
    }
    if (strike?.kind === "hang") return await new Promise(() => {});
    if (strike?.kind === "status_500") return incoming(protocol.failure(500), request, undefined, beganMs);
    if (strike?.kind === "status_503") return incoming(protocol.failure(503), request, undefined, beganMs);
    if (life === "dying" && (generates || served.path.startsWith("/health"))) {
      if (protocol.dead !== undefined) {
        return incoming(generates ? protocol.failure(500) : emptyReply(503), request, undefined, beganMs);
      }
      return await new Promise(() => {});
    }
    let reply: Reply;
    try {
      reply = await protocol.serve(served);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      reply = error.reply;
    }
    if (strike?.kind === "slow") {
      await clock.sleep((clock.now() - beganMs) * Math.max(0, slowness(strike) - 1));
    }
    return incoming(reply, request, strike, beganMs);
  }

  function incoming(
    reply: Reply,
    request: OutgoingRequest,
    strike: Strike | undefined,
    beganMs: number,
  ): Served {
    const { status, body } = reply;
    if (typeof body === "string") {
      const bytes = utf8.encode(body);
      const headers = headersOf(reply, clock, bytes.length);
      const cut = strike?.kind === "truncate";
      return {
        status,
        headers,
        body: cut
          ? truncated(wholeBody(bytes.subarray(0, bytes.length >> 1)), 1, request.url)
          : wholeBody(bytes),
      };
    }
    const headers = headersOf(reply, clock, undefined);
    const events = struck(body, strike, beganMs, request.url);
    return { status, headers, body: events };
  }

  /** A stream that a fault may cut or slow. */
  function struck(
    events: Events,
    strike: Strike | undefined,
    beganMs: number,
    url: string,
  ): Events {
    if (strike?.kind === "truncate") return truncated(events, Math.max(0, strike.value ?? 1), url);
    if (strike?.kind === "split") return split(events);
    return strike?.kind === "slow" ? slowed(events, slowness(strike), beganMs, clock) : events;
  }

  return {
    handle: (request, signal) => connect(request, signal, answer, connections),
    get running() {
      return protocol.backend.load;
    },
    get stats() {
      return protocol.backend.scheduler.stats;
    },
    inject: (fault) => faults.inject(fault),
    freeze: () => protocol.backend.scheduler.freeze(),
    crash,
    close() {
      life = "gone";
      protocol.backend.kill();
    },
  };
}

async function* truncated(
  events: Events,
  count: number,
  url: string,
): Events {
  for (let sent = 0; sent < count; sent++) {
    const event = await events.next();
    if (event.done === true) return;
    yield event.value;
  }
  throw new TransportError("reset_in_body", url);
}

/** Sends every event in two pieces, cut anywhere: as TCP may. */
async function* split(events: Events): Events {
  let cut = 1;
  for await (const event of events) {
    const bytes = typeof event === "string" ? utf8.encode(event) : event;
    cut = (cut * 31 + 7) % 8191;
    const at = cut % (bytes.length + 1);
    for (const piece of [bytes.slice(0, at), bytes.slice(at)]) if (piece.length > 0) yield piece;
  }
}

/** Delivers each event `factor` times as late after the request's begin as it comes. */
async function* slowed(
  events: Events,
  factor: number,
  beganMs: number,
  clock: Clock,
): Events {
  const queue = new AsyncQueue<{ event: string | Uint8Array; atMs: number }>(MAX_SLOW_EVENTS);
  const pump = async () => {
    for await (const event of events) await queue.push({ event, atMs: clock.now() });
    queue.close();
  };
  pump().catch((error) => queue.fail(error));
  for await (const { event, atMs } of queue) {
    const delayMs = beganMs + factor * (atMs - beganMs) - clock.now();
    if (delayMs > 0) await clock.sleep(delayMs);
    yield event;
  }
}

function slowness(strike: Strike): number {
  return strike.value ?? 10;
}

/** Runs one request under the transport's contract. */
async function connect(
  request: OutgoingRequest,
  signal: AbortSignal,
  answer: (request: OutgoingRequest, served: ServedRequest) => Promise<Served>,
  connections: Set<() => void>,
): Promise<IncomingResponse> {
  signal.throwIfAborted();
  const served = takeApart(request);
  let leave: (reason: unknown) => void = () => {};
  const left = new Promise<never>((_, reject) => leave = reject);
  left.catch(() => {});
  let open = true;
  /** Ends the connection; `early` when the client did not get everything. */
  const end = (early: boolean) => {
    if (!open) return;
    open = false;
    connections.delete(onReset);
    signal.removeEventListener("abort", onAbort);
    if (early) served.onClose?.();
  };
  const onAbort = () => {
    end(true);
    leave(signal.reason);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  let stage: "reset_before_head" | "reset_in_body" = "reset_before_head";
  let reset: TransportError | undefined;
  const onReset = () => {
    end(false);
    reset = new TransportError(stage, request.url);
    leave(reset);
  };
  connections.add(onReset);
  let response: Served;
  try {
    response = await Promise.race([answer(request, served), left]);
  } catch (error) {
    end(true);
    throw error;
  }
  stage = "reset_in_body";
  const source = response.body;
  const body: AsyncIterator<Uint8Array> = {
    next() {
      if (signal.aborted) return Promise.reject(signal.reason);
      if (reset !== undefined) return Promise.reject(reset);
      if (!open) return Promise.resolve({ done: true, value: undefined });
      return new Promise((resolve, reject) => {
        // Replaces the reader of the previous chunk: a race per chunk would pile up on `left`.
        leave = reject;
        source.next().then(({ done, value }) => {
          if (done === true) {
            end(false);
            resolve({ done, value: undefined });
          } else resolve({ done: false, value: typeof value === "string" ? utf8.encode(value) : value });
        }, (error) => {
          end(true);
          reject(error);
        });
      });
    },
    return() {
      end(true);
      return Promise.resolve({ done: true, value: undefined });
    },
  };
  return { status: response.status, headers: response.headers, body: { [Symbol.asyncIterator]: () => body } };
}

function takeApart(request: OutgoingRequest): ServedRequest {
  const url = new URL(request.url);
  const { body } = request;
  return {
    method: request.method,
    path: url.pathname,
    query: url.searchParams,
    headers: request.headers,
    text: body === undefined ? "" : typeof body === "string" ? body : fromUtf8.decode(body),
    onClose: undefined,
  };
}

async function* wholeBody(bytes: Uint8Array): Events {
  await Promise.resolve();
  if (bytes.length > 0) yield bytes;
}
