import type {
  DrawnToken,
  Generator,
  GeneratorCounts,
  GeneratorFacts,
  SequenceEvent,
  SequenceRequest,
} from "../../embedded/scheduler/generator.ts";

/** A generator without a model: says what it is told to, a token per turn of the event loop. */
export class FakeGenerator implements Generator {
  readonly facts: GeneratorFacts = {
    model: "fake",
    file: "fake.onnx",
    vocabSize: 1920,
    maxContextTokens: 512,
    threads: 1,
    fallbacks: [],
    arithmetic: { cpu: "any", products: "none" },
  };
  readonly requests: SequenceRequest[] = [];
  running = 0;
  /** Sequences that ended before their last token. */
  cut = 0;
  cachedTokens = 0;
  /** The answer to a request: ids, or an error in the place of a token. */
  answer: (request: SequenceRequest) => Iterable<number | Error> = () => [];

  counts(): GeneratorCounts {
    return {
      running: this.running,
      waiting: 0,
      cachedTokens: 50,
      cacheCapacityTokens: 100,
      promptTokens: 30,
      promptTokensCached: 10,
      generatedTokens: 7,
    };
  }

  async *generate(request: SequenceRequest, signal: AbortSignal): AsyncGenerator<SequenceEvent, void, void> {
    this.requests.push(request);
    this.running++;
    let whole = false;
    try {
      yield { type: "prompt", cachedTokens: this.cachedTokens };
      let count = 0;
      for (const id of this.answer(request)) {
        await new Promise((resolve) => setTimeout(resolve, 0));
        signal.throwIfAborted();
        if (typeof id !== "number") throw id;
        yield { type: "token", token: tokenOf(id, request.logprobs) };
        count++;
        if (request.stopIds.has(id) && count > request.minTokens) {
          whole = true;
          yield { type: "end", reason: "stop" };
          return;
        }
        if (count >= request.maxTokens) break;
      }
      whole = true;
      yield { type: "end", reason: "length" };
    } finally {
      this.running--;
      if (!whole) this.cut++;
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** The token as if its id told its probability. */
function tokenOf(id: number, logprobs: number | undefined): DrawnToken {
  if (logprobs === undefined) return { id, logprob: undefined, top: [] };
  const top = Array.from({ length: logprobs }, (_, rank) => [300 + rank, -0.5 - rank] as const);
  return { id, logprob: -id / 1000, top };
}
