import process from "node:process";
import type { Clock } from "../base/clock.ts";
import { logger } from "../base/log.ts";
import { Random } from "../base/random.ts";
import type { EmbeddingTokenizer } from "../scorer/embedders/onnx_tokens.ts";
import { WorkerScorer } from "../scorer/worker_scorer.ts";
import { startWorkerThread } from "../scorer/worker_thread.ts";

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
      start: startWorkerThread,
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

  /** Streams a text more slowly than it is embedded; the time from its last characters to its similarity, in ms. */
  async tail(text: string): Promise<number> {
    const id = `answer ${this.#answers++}`;
    const feed = this.#scorer.open(id);
    for (let at = 0; at < text.length - 8; at += 512) {
      feed.append(text.slice(at, Math.min(at + 512, text.length - 8)));
      await this.#rest();
    }
    const startMs = this.#clock.now();
    feed.append(text.slice(-8));
    feed.end();
    await this.#compare(id);
    const tailMs = this.#clock.now() - startMs;
    feed.close();
    return tailMs;
  }

  async close(): Promise<void> {
    await this.#scorer.close();
  }

  /** Until the threads have nothing to do. */
  async #rest(): Promise<void> {
    for (let busy = true; busy;) {
      const before = process.cpuUsage();
      await this.#clock.sleep(100);
      const { user, system } = process.cpuUsage(before);
      busy = user + system > 20_000;
    }
  }

  async #compare(id: string): Promise<void> {
    const { value, reason } = await this.#scorer.similarity(id, "other", "fcs_u", 600_000);
    if (value === undefined) throw new Error(`The scorer gave no similarity: ${reason}`);
  }
}
