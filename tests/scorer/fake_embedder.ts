import type { Clock } from "../../base/clock.ts";
import type { AnswerEmbedding, AnswerFeatures, Embedder } from "../../scorer/embedders/embedder.ts";
import type { ScorerFacts, SimilarityMetric } from "../../scorer/scorer.ts";

export interface FakeEmbedderOptions {
  readonly clock: Clock;
  /** Time of each call. */
  readonly callMs?: number;
  /** Calls at the same time, each of another answer; one by default. */
  readonly concurrency?: number;
  /** Called before each call; what it throws is the model's failure. */
  readonly onCall?: (call: string) => void;
  /** Instead of the share of equal characters. */
  readonly similarityOf?: (a: string, b: string, metric: SimilarityMetric) => number | undefined;
}

/**
 * An embedder whose features are the text itself; it notes every call, and an overlap when there are more at the same
 * time than it takes, or two of one answer's embedding.
 */
export class FakeEmbedder implements Embedder {
  readonly concurrency: number;
  readonly facts: ScorerFacts = { embedder: "lexical", model: undefined, details: { fake: true } };
  /** Such as `append abc`, `finish abc`, `compare abc abd fcs`, `close abc`. */
  readonly calls: string[] = [];
  readonly #options: FakeEmbedderOptions;
  #running = 0;
  closed = false;
  /** Embeddings that are open. */
  openEmbeddings = 0;

  constructor(options: FakeEmbedderOptions) {
    this.#options = options;
    this.concurrency = options.concurrency ?? 1;
  }

  open(): AnswerEmbedding {
    this.#options.onCall?.("open");
    this.openEmbeddings++;
    let text = "";
    let open = true;
    let calls = 0;
    const embed = async <T>(call: string, work: () => T): Promise<T> => {
      if (calls++ > 0) this.calls.push("overlap");
      try {
        return await this.#call(call, work);
      } finally {
        calls--;
      }
    };
    return {
      append: (piece) => embed(`append ${piece}`, () => void (text += piece)),
      finish: () => embed(`finish ${text}`, () => this.#features(text)),
      close: () => {
        this.calls.push(`close ${text}`);
        if (open) this.openEmbeddings--;
        open = false;
      },
    };
  }

  close(): Promise<void> {
    this.closed = true;
    return Promise.resolve();
  }

  #features(text: string): FakeFeatures {
    return new FakeFeatures(
      text,
      (other, metric) =>
        this.#call(`compare ${text} ${other.text} ${metric}`, () => {
          if (this.#options.similarityOf !== undefined) {
            return this.#options.similarityOf(text, other.text, metric);
          }
          return text === "" || other.text === "" ? undefined : equalShare(text, other.text);
        }),
    );
  }

  async #call<T>(call: string, work: () => T): Promise<T> {
    if (this.#running++ >= this.concurrency) this.calls.push("overlap");
    this.calls.push(call);
    try {
      await this.#options.clock.sleep(this.#options.callMs ?? 1);
      this.#options.onCall?.(call);
      return work();
    } finally {
      this.#running--;
    }
  }
}

type Compare = (other: FakeFeatures, metric: SimilarityMetric) => Promise<number | undefined>;

class FakeFeatures implements AnswerFeatures {
  readonly text: string;
  readonly dimensions = 4;
  readonly #compare: Compare;

  constructor(text: string, compare: Compare) {
    this.text = text;
    this.#compare = compare;
  }

  get tokens(): number {
    return this.text.length;
  }

  get effectiveDimensions(): number | undefined {
    return this.text === "" ? undefined : 1 + this.text.length;
  }

  compare(other: AnswerFeatures, metric: SimilarityMetric): Promise<number | undefined> {
    if (!(other instanceof FakeFeatures)) throw new Error("Features of another embedder");
    return this.#compare(other, metric);
  }
}

function equalShare(a: string, b: string): number {
  const length = Math.max(a.length, b.length);
  let equal = 0;
  for (let i = 0; i < length; i++) if (a[i] === b[i]) equal++;
  return equal / length;
}
