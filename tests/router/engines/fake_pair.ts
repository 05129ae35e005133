import { VirtualClock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import { Random } from "../../../base/random.ts";
import { modelSchema } from "../../../cfgs/schema/config.ts";
import { createEngine } from "../../../router/engines/create.ts";
import type { Engine, EngineCapabilities } from "../../../router/engines/engine.ts";
import { defaultCapabilities } from "../../../router/engines/probe.ts";
import { type MemoryHandler, MemoryTransport } from "../../../router/transport/memory.ts";
import type { Placement, PlacementOutcome } from "../../../router/worker/placement.ts";

/** One event of a `/generate` stream, after `tokens` tokens of which this one is `text`. */
export function token(text: string, tokens: number, finish: JsonObject | null = null): JsonObject {
  return {
    text,
    output_ids: Array.from({ length: tokens }, (_, i) => 100 + i),
    meta_info: {
      finish_reason: finish,
      prompt_tokens: 5,
      completion_tokens: tokens,
      cached_tokens: 3,
    },
  };
}

/** What a prefill server says when its work is done. */
export const PREFILLED: readonly (string | JsonObject)[] = [
  token("A", 1, { type: "length", length: 0 }),
  "[DONE]",
];

/** A decode server's whole answer. */
export const DECODED: readonly (string | JsonObject)[] = [
  token("A", 1),
  token("AB", 2, { type: "stop", matched: 7 }),
  "[DONE]",
];

export type Half = "prefill" | "decode";

export interface Sent {
  readonly half: Half;
  readonly path: string;
  readonly body: JsonObject;
}

const encoder = new TextEncoder();

/** Two scripted servers and an engine in front of them. */
export class FakePair {
  readonly clock = new VirtualClock();
  readonly sent: Sent[] = [];
  /** In order: requests, aborts, connections that closed before their end, halves given back. */
  readonly log: string[] = [];
  readonly transport: MemoryTransport;
  readonly engine: Engine;
  readonly at: Placement;
  /** When the pool could know that the prompt has been read. */
  readAtMs: number | undefined;
  /** How each half answers; by default well. */
  readonly answers: Record<Half, MemoryHandler> = {
    prefill: this.stream("prefill", PREFILLED),
    decode: this.stream("decode", DECODED),
  };
  readonly #aborted: Record<Half, PromiseWithResolvers<void>> = {
    prefill: Promise.withResolvers(),
    decode: Promise.withResolvers(),
  };

  constructor(options: {
    engine?: "sglang-pd" | "vllm-pd";
    capabilities?: Partial<EngineCapabilities>;
    seed?: string;
    bootstrapPort?: number;
  } = {}) {
    const config = modelSchema.parse({
      model: "tiny-qwen3",
      engine: options.engine ?? "sglang-pd",
      workers: [{ prefill: "http://prefill:1", decode: "http://decode:2" }],
      first_token_timeout_ms: 60_000,
    });
    this.transport = new MemoryTransport((request) => {
      const half = new URL(request.url).hostname === "prefill" ? "prefill" : "decode";
      return (outgoing, signal) => this.#handle(half, outgoing, signal);
    });
    this.at = {
      workerId: "m.d2",
      url: "http://decode:2",
      prefill: {
        workerId: "m.p1",
        url: "http://prefill:1",
        bootstrapHost: "prefill",
        bootstrapPort: options.bootstrapPort ?? 8998,
      },
      release: (outcome: PlacementOutcome, side?: Half) => {
        this.log.push(`${side ?? "rest"} released ${outcome}`);
        if (side === "prefill") this.readAtMs ??= this.clock.now();
      },
      promptRead: () => this.readAtMs ??= this.clock.now(),
    };
    this.engine = createEngine({
      config,
      pool: {},
      transport: this.transport,
      clock: this.clock,
      random: new Random(options.seed ?? "pair"),
      capabilities: { ...defaultCapabilities(config), ...options.capabilities },
    });
  }

  /** Bodies that a half got on a path other than `/abort_request`. */
  bodies(half: Half): JsonObject[] {
    return this.sent.filter((one) => one.half === half).map((one) => one.body);
  }

  /** An event stream, each event after `everyMs`. */
  stream(half: Half, events: readonly (string | JsonObject)[], everyMs = 1): MemoryHandler {
    return (_request, signal) => {
      const pair = this as FakePair;
      async function* body(): AsyncGenerator<Uint8Array> {
        for (const event of events) {
          await pair.clock.sleep(everyMs, signal);
          yield encoder.encode(`data: ${typeof event === "string" ? event : JSON.stringify(event)}\n\n`);
        }
      }
      return Promise.resolve({
        status: 200,
        headers: { "content-type": "text/event-stream" },
        body: this.#watched(half, body(), signal),
      });
    };
  }

  /** Events, then silence until the half is aborted, which it confirms as SGLang does. */
  hanging(half: Half, events: readonly (string | JsonObject)[] = []): MemoryHandler {
    return (request, signal) => {
      const aborted = this.#aborted[half].promise;
      const gone = Promise.withResolvers<void>();
      signal.addEventListener("abort", () => gone.resolve(), { once: true });
      async function* body(): AsyncGenerator<Uint8Array> {
        for (const event of events) {
          yield await Promise.resolve(encoder.encode(`data: ${JSON.stringify(event)}\n\n`));
        }
        await Promise.race([aborted, gone.promise]);
        const end = token("", events.length, { type: "abort", message: "Aborted" });
        yield encoder.encode(`data: ${JSON.stringify(end)}\n\ndata: [DONE]\n\n`);
      }
      void request;
      return Promise.resolve({
        status: 200,
        headers: { "content-type": "text/event-stream" },
        body: this.#watched(half, body(), signal),
      });
    };
  }

  /** A JSON answer after `afterMs`. */
  json(status: number, body: JsonObject, afterMs = 1): MemoryHandler {
    return async (_request, signal) => {
      await this.clock.sleep(afterMs, signal);
      const bytes = encoder.encode(JSON.stringify(body));
      return {
        status,
        headers: { "content-type": "application/json" },
        body: (async function* () {
          yield await Promise.resolve(bytes);
        })(),
      };
    };
  }

  #handle(...[half, request, signal]: [Half, ...Parameters<MemoryHandler>]): ReturnType<MemoryHandler> {
    const { pathname } = new URL(request.url);
    const body: JsonObject = JSON.parse(String(request.body));
    if (pathname === "/abort_request") {
      const mine = this.bodies(half).some((one) => one.rid === body.rid);
      this.log.push(`${half} abort${mine ? "" : " of an unknown rid"}`);
      this.#aborted[half].resolve();
      return Promise.resolve({ status: 200, headers: {}, body: (async function* () {})() });
    }
    this.sent.push({ half, path: pathname, body });
    return this.answers[half](request, signal);
  }

  /** Notes a connection that is closed before the answer has ended. */
  async *#watched(
    half: Half,
    body: AsyncGenerator<Uint8Array>,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    let ended = false;
    const onAbort = () => {
      if (!ended) this.log.push(`${half} closed`);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      yield* body;
      ended = true;
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }
}
