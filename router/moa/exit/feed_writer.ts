import type { AnswerFeed, AnswerId, Scorer } from "../../../scorer/scorer.ts";

/** New characters from which on an answer's text is looked at again; this part of the text, when that is more. */
const STEP = { least: 32, share: 1 / 256 };

/**
 * Hands one answer to the scorer while it is being decoded. It is called with every token, so it looks at the text
 * rarely enough that the work over a whole answer grows hardly faster than the answer.
 */
export class FeedWriter {
  readonly #scorer: Scorer;
  readonly #name: string;
  #feed: AnswerFeed | undefined;
  /** The text that the feed was given. */
  #fed = "";
  #seenLength = 0;
  #attempt = 0;
  #broken = false;

  /** `name`: unique among all answers whose feeds are open. */
  constructor(scorer: Scorer, name: string) {
    this.#scorer = scorer;
    this.#name = name;
  }

  /** The name under which the scorer knows the answer; undefined when it has not taken all of it. */
  get id(): AnswerId | undefined {
    return this.#broken ? undefined : this.#idOf();
  }

  #idOf(): AnswerId {
    return this.#attempt === 0 ? this.#name : `${this.#name}~${this.#attempt}`;
  }

  /** `output`: what the agent has said so far; `answerOf`: what that begins its answer with. */
  grew(output: string, answerOf: (output: string) => string): void {
    const wait = Math.max(STEP.least, this.#seenLength * STEP.share);
    if (output.length - this.#seenLength < wait) return;
    this.#seenLength = output.length;
    this.#write(answerOf(output));
  }

  /** The whole answer is there. */
  end(answer: string): void {
    this.#write(answer);
    this.#tell(() => this.#feed?.end());
  }

  close(): void {
    this.#tell(() => this.#feed?.close());
    this.#feed = undefined;
  }

  #write(answer: string): void {
    if (this.#broken) return;
    this.#tell(() => {
      if (!answer.startsWith(this.#fed)) this.#startAnew();
      if (this.#feed === undefined) this.#feed = this.#scorer.open(this.#idOf());
      if (answer.length > this.#fed.length) this.#feed.append(answer.slice(this.#fed.length));
      this.#fed = answer;
    });
  }

  /** Begins again: what looked like the answer was none, since a `</think>` came that nobody had opened. */
  #startAnew(): void {
    this.#feed?.close();
    this.#feed = undefined;
    this.#fed = "";
    this.#attempt++;
  }

  /** A broken scorer must not break the answer's stream: the answer is not compared then. */
  #tell(work: () => void): void {
    try {
      work();
    } catch {
      this.#broken = true;
    }
  }
}
