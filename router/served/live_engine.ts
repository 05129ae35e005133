import { createEngine } from "../engines/create.ts";
import type {
  Engine,
  EngineCapabilities,
  GenerateEvent,
  GenerateRequest,
  Prompt,
  Sampling,
  WarmResult,
} from "../engines/engine.ts";
import type { EngineOptions } from "../engines/protocol/engine_options.ts";
import type { Placement } from "../worker/placement.ts";

/** An engine whose capabilities follow what its workers turn out to be; calls under way keep what they began with. */
export class LiveEngine implements Engine {
  #options: EngineOptions;
  #current: Engine;

  constructor(options: EngineOptions) {
    this.#options = options;
    this.#current = createEngine(options);
  }

  get capabilities(): EngineCapabilities {
    return this.#current.capabilities;
  }

  /** Goes on with what all workers can do, or with a tokenizer that was found. */
  update(news: Partial<Pick<EngineOptions, "capabilities" | "tokenizer" | "config">>): void {
    this.#options = { ...this.#options, ...news };
    this.#current = createEngine(this.#options);
  }

  warm(prefix: Prompt, at: Placement, signal: AbortSignal, like?: Sampling): Promise<WarmResult> {
    return this.#current.warm(prefix, at, signal, like);
  }

  generate(request: GenerateRequest, at: Placement, signal: AbortSignal): AsyncIterable<GenerateEvent> {
    return this.#current.generate(request, at, signal);
  }
}

/** Capabilities that every one of several workers has. */
export function commonCapabilities(
  all: readonly [EngineCapabilities, ...EngineCapabilities[]],
): EngineCapabilities {
  const [first] = all;
  const every = (test: (one: EngineCapabilities) => boolean) => all.every(test);
  const incremental = all.map((one) => one.incrementalStream);
  const [incrementalStream] = incremental;
  const { blockTokens, priority, computes } = first;
  return {
    version: every((one) => one.version === first.version) ? first.version : undefined,
    tokenIds: every((one) => one.tokenIds),
    returnsTokenIds: every((one) => one.returnsTokenIds),
    logprobs: every((one) => one.logprobs),
    ...(every((one) => one.topLogprobs !== false) ? {} : { topLogprobs: false }),
    cachedTokens: every((one) => one.cachedTokens),
    warm: commonWarm(all.map((one) => one.warm)),
    abort: every((one) => one.abort === "close") ? "close" : "abort_then_close",
    contextTokens: least(all.map((one) => one.contextTokens)),
    maxStopStrings: least(all.map((one) => one.maxStopStrings)),
    ...(blockTokens !== undefined && every((one) => one.blockTokens === blockTokens) ? { blockTokens } : {}),
    ...(every((one) => one.smallPieces === true) ? { smallPieces: true } : {}),
    ...(priority !== undefined && every((one) => one.priority === priority) ? { priority } : {}),
    ...(every((one) => one.priorityTokens === true) ? { priorityTokens: true } : {}),
    // One that is simulated is enough for figures that are no engine's.
    ...(all.some((one) => one.simulated === true) ? { simulated: true } : {}),
    // A model in this process is its own only worker.
    ...(computes !== undefined && all.length === 1 ? { computes } : {}),
    ...(incrementalStream !== undefined && incremental.every((one) => one === incrementalStream)
      ? { incrementalStream }
      : {}),
  };
}

/** A real pair can warm wherever a prefill server could alone. */
function commonWarm(warms: readonly EngineCapabilities["warm"][]): EngineCapabilities["warm"] {
  const [first = "none"] = warms;
  if (warms.every((warm) => warm === first)) return first;
  return warms.every((warm) => warm === "pair_1" || warm === "fake_bootstrap") ? "pair_1" : "none";
}

function least(numbers: readonly (number | undefined)[]): number | undefined {
  const known = numbers.filter((number) => number !== undefined);
  return known.length === 0 ? undefined : Math.min(...known);
}
