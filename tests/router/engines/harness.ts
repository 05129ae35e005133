import { VirtualClock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import { Random } from "../../../base/random.ts";
import { type ModelConfig, modelSchema } from "../../../cfgs/schema/config.ts";
import { createEngine } from "../../../router/engines/create.ts";
import type {
  Engine,
  EngineCapabilities,
  EngineUsage,
  FinishReason,
  GenerateEvent,
  GenerateRequest,
  TokenLogprob,
} from "../../../router/engines/engine.ts";
import type { EngineOptions } from "../../../router/engines/protocol/engine_options.ts";
import { defaultCapabilities } from "../../../router/engines/probe.ts";
import { type MemoryHandler, MemoryTransport } from "../../../router/transport/memory.ts";
import type { Placement } from "../../../router/worker/placement.ts";

export const WORKER = "http://worker:8000";

export const placement: Placement = { workerId: "w1", url: WORKER, release: () => {}, promptRead: () => {} };

const pool: EngineOptions["pool"] = {};

export const never = new AbortController().signal;

/** An engine in front of one server in this process. */
export function engineOver(
  kind: ModelConfig["engine"],
  handler: MemoryHandler,
  options: {
    clock?: VirtualClock;
    capabilities?: Partial<EngineCapabilities>;
    config?: JsonObject;
  } = {},
): { engine: Engine; transport: MemoryTransport } {
  const config = modelSchema.parse({
    model: "tiny-qwen3",
    engine: kind,
    workers: [WORKER],
    ...options.config,
  });
  const transport = new MemoryTransport((request) =>
    new URL(request.url).host === "worker:8000" ? handler : undefined
  );
  const engine = createEngine({
    config,
    pool,
    transport,
    clock: options.clock ?? new VirtualClock(),
    random: new Random("engines"),
    capabilities: { ...defaultCapabilities(config), ...options.capabilities },
  });
  return { engine, transport };
}

export const textRequest: GenerateRequest = {
  id: "r1",
  prompt: { kind: "text", text: "hi" },
  sampling: { max_tokens: 8 },
};

export const chatRequest: GenerateRequest = {
  id: "r1",
  prompt: { kind: "chat", messages: [{ role: "user", content: "hi" }] },
  sampling: { max_tokens: 8 },
};

/** Everything that one generation brought, put together. */
export interface Collected {
  text: string;
  reasoning: string;
  tokenIds: number[];
  logprobs: TokenLogprob[];
  toolCalls: JsonObject[];
  deltas: number;
  finishReason: FinishReason | undefined;
  stopReason: string | number | undefined;
  usage: EngineUsage | undefined;
  /** The usage that came with the last delta. */
  runningUsage: EngineUsage | undefined;
}

export async function collect(events: AsyncIterable<GenerateEvent>): Promise<Collected> {
  const all: Collected = {
    text: "",
    reasoning: "",
    tokenIds: [],
    logprobs: [],
    toolCalls: [],
    deltas: 0,
    finishReason: undefined,
    stopReason: undefined,
    usage: undefined,
    runningUsage: undefined,
  };
  for await (const event of events) {
    if (all.usage !== undefined) throw new Error("An event after the end");
    if (event.type === "end") {
      all.finishReason = event.finishReason;
      all.stopReason = event.stopReason;
      all.usage = event.usage;
      continue;
    }
    all.deltas++;
    const before = all.runningUsage?.completionTokens ?? 0;
    if (event.usage !== undefined && event.usage.completionTokens < before) {
      throw new Error("The usage shrinks");
    }
    all.runningUsage = event.usage ?? all.runningUsage;
    all.text += event.text;
    all.reasoning += event.reasoning ?? "";
    for (const id of event.tokenIds ?? []) all.tokenIds.push(id);
    all.logprobs.push(...event.logprobs ?? []);
    all.toolCalls.push(...event.toolCalls ?? []);
  }
  return all;
}

const encoder = new TextEncoder();

/** A handler that answers with these events, one chunk each. */
export function eventStream(events: readonly (string | JsonObject)[]): MemoryHandler {
  return () => {
    async function* body(): AsyncGenerator<Uint8Array> {
      for (const event of events) {
        const data = typeof event === "string" ? event : JSON.stringify(event);
        yield await Promise.resolve(encoder.encode(`data: ${data}\n\n`));
      }
    }
    return Promise.resolve({ status: 200, headers: { "content-type": "text/event-stream" }, body: body() });
  };
}
