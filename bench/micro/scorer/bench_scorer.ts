import type { Clock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import { cpuMicros } from "../measure.ts";
import type { EmbeddingTokenizer } from "../../../scorer/embedders/embedding_tokenizer.ts";
import { WorkerScorer } from "../../../scorer/thread/worker_scorer.ts";
import { startScorerThread } from "../../../scorer/thread/worker_thread.ts";

/** Time, and CPU time of the process. */
export interface Cost {
  readonly ms: number;
  readonly cpuMs: number;
}

export async function costOf(clock: Clock, work: () => Promise<void>): Promise<Cost> {
  const startMs = clock.now();
  const cpuMs = await cpuMicros(work) / 1000;
  return { ms: clock.now() - startMs, cpuMs };
}

/** A text of random words with so many tokens, the end token not counted. */
export function answerOf(tokenizer: EmbeddingTokenizer, tokens: number, seed: string): string {
  const random = new Random(seed);
  const words = [
    "so",
    "the",
    "sum",
    "of",
    "all",
    "steps",
    "is",
    "equal",
    "to",
    "what",
    "we",
    "said",
    "before",
    "2",
    ".",
  ];
  const open = tokenizer.open();
  let text = "";
  while (true) {
    const word = ` ${random.pick(words)}`;
    open.append(word);
    const count = open.complete().length;
    if (count > tokens) return text;
    text += word;
    if (count === tokens) return text;
  }
}

export interface BenchScorerOptions {
  readonly clock: Clock;
  readonly folder: string;
  readonly path: string;
  readonly threads: number;
  readonly maxTokens: number;
}

/** The scorer as the router uses it, with one short answer to compare with. */
export class BenchScorer {
  readonly #clock: Clock;
  readonly #scorer: WorkerScorer;
  #answers = 0;

  private constructor({ clock, folder, path, threads, maxTokens }: BenchScorerOptions) {
    this.#clock = clock;
    this.#scorer = new WorkerScorer({
      clock,
      log: logger("bench"),
      start: startScorerThread,
      maxQueued: 256,
      embedder: {
        files: { folder, path },
        model: folder,
        threads,
        span: "all",
        maxTokens,
        maxCachedTokens: 100_000,
      },
    });
  }

  /** Waits until the model is loaded. */
  static async start(options: BenchScorerOptions): Promise<BenchScorer> {
    const scorer = new BenchScorer(options);
    const feed = scorer.#scorer.open("other");
    feed.append("The sum of all steps is 2.");
    feed.end();
    await scorer.#compare("other");
    return scorer;
  }

  /** Embeds a text that is there as a whole, up to its similarity. */
  async embed(text: string): Promise<void> {
    const id = `answer ${this.#answers++}`;
    const feed = this.#scorer.open(id);
    feed.append(text);
    feed.end();
    await this.#compare(id);
    feed.close();
  }

  /** Streams a text more slowly than it is embedded, and looks at what comes after its last characters. */
  async tail(text: string): Promise<Cost> {
    const id = `answer ${this.#answers++}`;
    const feed = this.#scorer.open(id);
    for (let at = 0; at < text.length - 8; at += 512) {
      feed.append(text.slice(at, Math.min(at + 512, text.length - 8)));
      await this.#rest();
    }
    const cost = await costOf(this.#clock, async () => {
      feed.append(text.slice(-8));
      feed.end();
      await this.#compare(id);
    });
    feed.close();
    return cost;
  }

  async close(): Promise<void> {
    await this.#scorer.close();
  }

  /** Until the threads have had nothing to do for a while; on a busy machine they may only seem to. */
  async #rest(): Promise<void> {
    for (let quiet = 0; quiet < 4; quiet++) {
      const cpuMs = await cpuMicros(() => this.#clock.sleep(100)) / 1000;
      if (cpuMs > 5) quiet = -1;
    }
  }

  async #compare(id: string): Promise<void> {
    const { value, reason } = await this.#scorer.similarity(id, "other", "fcs_u", 600_000);
    if (value === undefined) throw new Error(`The scorer gave no similarity: ${reason}`);
  }
}
