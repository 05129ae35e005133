import {
  type IncomingResponse,
  type OutgoingRequest,
  TransportError,
} from "../../router/transport/transport.ts";
import { Faults, type Strike } from "./faults.ts";
import { headersOf, Refusal, type Reply, type ServedRequest } from "./reply.ts";
import { sglangProtocol } from "./sglang.ts";
import type { Simulator, SimulatorOptions } from "./simulator_types.ts";
import { type Protocol, vllmProtocol } from "./vllm.ts";

/** How long the HTTP process of a dead engine lives on. */
const DEATH_MS = 5000;

const utf8 = new TextEncoder();
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
      const delayMs = options.cost === "instant" ? 0 : DEATH_MS / (options.speedup ?? 1);
      clock.sleep(delayMs).then(() => life = "gone", () => {});
    }
    return new Promise(() => {});
  };
  const protocol: Protocol = options.engine === "vllm" ? vllmProtocol(options) : sglangProtocol(options, die);

  async function answer(request: OutgoingRequest, served: ServedRequest): Promise<IncomingResponse> {
    if (life === "gone") throw new TransportError("connect_failed", request.url);
    const generates = protocol.generates(served);
    const strike = faults.next(generates);
    if (strike?.kind === "refuse") throw new TransportError("connect_failed", request.url);
    if (strike?.kind === "reset") {
      await clock.sleep(0);
      throw new TransportError("reset_before_head", request.url);
    }
    if (strike?.kind === "hang") return await new Promise(() => {});
    if (strike?.kind === "status_500") return incoming(protocol.failure(500), request, undefined);
    if (strike?.kind === "status_503") return incoming(protocol.failure(503), request, undefined);
    if (life === "dying" && (generates || served.path.startsWith("/health"))) {
      return await new Promise(() => {});
    }
    const beganMs = clock.now();
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
    return incoming(reply, request, strike);
  }

  function incoming(reply: Reply, request: OutgoingRequest, strike: Strike | undefined): IncomingResponse {
    const { status, body } = reply;
    if (typeof body === "string") {
      const bytes = utf8.encode(body);
      const headers = headersOf(reply, clock, bytes.length);
      const cut = strike?.kind === "truncate";
      return {
        status,
        headers,
        body: cut ? brokenBody(bytes.subarray(0, bytes.length >> 1), request.url) : wholeBody(bytes),
      };
    }
    const headers = headersOf(reply, clock, undefined);
    const events = strike === undefined ? body : struck(body, strike, request.url);
    return { status, headers, body: encoded(events) };
  }

  /** A stream that a fault cuts or slows. */
  async function* struck(
    events: AsyncGenerator<string, void, void>,
    strike: Strike,
    url: string,
  ): AsyncGenerator<string, void, void> {
    let left = strike.kind === "truncate" ? Math.max(0, strike.value ?? 1) : Infinity;
    let beganMs = clock.now();
    while (true) {
      if (left-- <= 0) throw new TransportError("reset_in_body", url);
      const event = await events.next();
      if (event.done === true) return;
      if (strike.kind === "slow") {
        await clock.sleep((clock.now() - beganMs) * Math.max(0, slowness(strike) - 1));
      }
      yield event.value;
      beganMs = clock.now();
    }
  }

  return {
    handle: (request, signal) => connect(request, signal, answer),
    get running() {
      const { scheduler } = protocol.backend;
      return scheduler.running + scheduler.waiting;
    },
    get stats() {
      return protocol.backend.scheduler.stats;
    },
    inject: (fault) => faults.inject(fault),
    close() {
      life = "gone";
      protocol.backend.scheduler.kill();
    },
  };
}

function slowness(strike: Strike): number {
  return strike.value ?? 10;
}

/** Runs one request under the transport's contract. */
async function connect(
  request: OutgoingRequest,
  signal: AbortSignal,
  answer: (request: OutgoingRequest, served: ServedRequest) => Promise<IncomingResponse>,
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
    signal.removeEventListener("abort", onAbort);
    if (early) served.onClose?.();
  };
  const onAbort = () => {
    end(true);
    leave(signal.reason);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  let response: IncomingResponse;
  try {
    response = await Promise.race([answer(request, served), left]);
  } catch (error) {
    end(true);
    throw error;
  }
  const source = response.body[Symbol.asyncIterator]();
  const body: AsyncIterator<Uint8Array> = {
    next() {
      if (signal.aborted) return Promise.reject(signal.reason);
      if (!open) return Promise.resolve({ done: true, value: undefined });
      return new Promise((resolve, reject) => {
        // Replaces the reader of the previous chunk: a race per chunk would pile up on `left`.
        leave = reject;
        source.next().then((chunk) => {
          if (chunk.done === true) end(false);
          resolve(chunk);
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

function encoded(events: AsyncGenerator<string, void, void>): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]: () => ({
      next: async () => {
        const event = await events.next();
        return event.done === true
          ? { done: true as const, value: undefined }
          : { done: false as const, value: utf8.encode(event.value) };
      },
    }),
  };
}

async function* wholeBody(bytes: Uint8Array): AsyncGenerator<Uint8Array, void, void> {
  await Promise.resolve();
  if (bytes.length > 0) yield bytes;
}

async function* brokenBody(bytes: Uint8Array, url: string): AsyncGenerator<Uint8Array, void, void> {
  yield* wholeBody(bytes);
  throw new TransportError("reset_in_body", url);
}
