import type { Clock } from "../../base/clock.ts";
import type { AnswerEmbedding, AnswerFeatures, Embedder } from "../../scorer/embedders/embedder.ts";
import type { ScorerFacts, SimilarityMetric } from "../../scorer/scorer.ts";

export interface FakeEmbedderOptions {
  readonly clock: Clock;
  /** Time of each call. */
  readonly callMs?: number;
  /** Called before each call; what it throws is the model's failure. */
  readonly onCall?: (call: string) => void;
  /** Instead of the share of equal characters. */
  readonly similarityOf?: (a: string, b: string, metric: SimilarityMetric) => number | undefined;
}

/** An embedder whose features are the text itself; it notes every call, and fails when two overlap. */
export class FakeEmbedder implements Embedder {
  readonly concurrency = 1;
  readonly facts: ScorerFacts = { embedder: "lexical", model: undefined, details: { fake: true } };
  /** Such as `append abc`, `finish abc`, `compare abc abd fcs`, `close abc`. */
  readonly calls: string[] = [];
  readonly #options: FakeEmbedderOptions;
  #busy = false;
  closed = false;
  /** Embeddings that are open. */
  openEmbeddings = 0;

  constructor(options: FakeEmbedderOptions) {
    this.#options = options;
  }

  open(): AnswerEmbedding {
    this.#options.onCall?.("open");
    this.openEmbeddings++;
    let text = "";
    let open = true;
    const use = { busy: false };
    return {
      append: (piece) => this.#call(`append ${piece}`, [use], () => void (text += piece)),
      finish: () => this.#call(`finish ${text}`, [use], () => this.#features(text, use)),
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

  #features(text: string, use: Use): FakeFeatures {
    return new FakeFeatures(
      text,
      use,
      (other, metric) =>
        this.#call(`compare ${text} ${other.text} ${metric}`, [use, other.use], () => {
          if (this.#options.similarityOf !== undefined) {
            return this.#options.similarityOf(text, other.text, metric);
          }
          return text === "" || other.text === "" ? undefined : equalShare(text, other.text);
        }),
    );
  }

  async #call<T>(call: string, uses: readonly Use[], work: () => T): Promise<T> {
    if (this.#busy) this.calls.push("overlap");
    this.#busy = true;
    for (const use of uses) use.busy = true;
    this.calls.push(call);
    try {
      await this.#options.clock.sleep(this.#options.callMs ?? 1);
      this.#options.onCall?.(call);
      return work();
    } finally {
      for (const use of uses) use.busy = false;
      this.#busy = false;
    }
  }
}

/** Whether an answer takes part in the call that is running. */
interface Use {
  busy: boolean;
}

type Compare = (other: FakeFeatures, metric: SimilarityMetric) => Promise<number | undefined>;

class FakeFeatures implements AnswerFeatures {
  readonly text: string;
  readonly use: Use;
  readonly dimensions = 4;
  readonly #compare: Compare;

  constructor(text: string, use: Use, compare: Compare) {
    this.text = text;
    this.use = use;
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
