import { messageOf } from "../../base/errors.ts";
import { Detokenizer } from "../../ml/tokenizers/detokenizer.ts";
import type { DrawnToken, Generator, SequenceRequest } from "../scheduler/generator.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import type { TokenLogprob } from "../../router/engines/engine.ts";
import { heldTail } from "../../router/engines/protocol/stop_filter.ts";
import type { RunEvent } from "../../router/moa/run/run.ts";

/** The end of an answer. */
export interface Finish {
  readonly reason: "stop" | "length";
  /** The stop string or token id that ended it; undefined for the model's own end and for the limit. */
  readonly stop?: string | number | undefined;
}

/** One answer to be made. */
export interface AnswerJob {
  /** Its place among the choices of the request. */
  readonly index: number;
  readonly request: SequenceRequest;
  readonly tokenizer: Pick<ModelTokenizer, "decode">;
  readonly stop: readonly string[];
  /** The model's own way to end, of the ids that end the answer. */
  readonly endId: number | undefined;
  /** Leaves the stop string, or the text of the stop token, in the text. */
  readonly includeStop: boolean;
  readonly skipSpecialTokens: boolean;
  /** Names tokens by their ids in log-probabilities. */
  readonly tokensAsIds: boolean;
}

/** One answer in the making: makes text of tokens, and ends it at the first stop string or stop token. */
export class EmbeddedAnswer {
  readonly job: AnswerJob;
  readonly #detokenizer: Detokenizer;
  readonly tokens: DrawnToken[] = [];
  /** All text so far, held-back text included. */
  text = "";
  cachedTokens = 0;
  finish: Finish | undefined;
  failure: unknown;
  #textSeen = 0;
  #tokensSeen = 0;
  #endSeen = false;

  constructor(job: AnswerJob) {
    this.job = job;
    this.#detokenizer = new Detokenizer(job.tokenizer, job.request.promptIds, job.skipSpecialTokens);
  }

  get ended(): boolean {
    return this.finish !== undefined || this.failure !== undefined;
  }

  /** Takes a token; true when its text ends the answer. */
  push(token: DrawnToken): boolean {
    const { includeStop, endId, tokenizer, request: { stopIds, minTokens } } = this.job;
    this.tokens.push(token);
    const mayStop = this.tokens.length > minTokens;
    if (mayStop && stopIds.has(token.id)) {
      this.text += this.#detokenizer.flush();
      if (includeStop) this.text += tokenizer.decode([token.id]);
      this.finish = { reason: "stop", stop: token.id === endId ? undefined : token.id };
      return true;
    }
    const from = this.text.length;
    this.text += this.#detokenizer.push(token.id);
    return mayStop && this.text.length > from && this.#stopAt(from);
  }

  /** The generator has ended it. */
  end(reason: Finish["reason"]): void {
    if (this.ended) return;
    const from = this.text.length;
    this.text += this.#detokenizer.flush();
    if (this.text.length > from && this.#stopAt(from)) return;
    this.finish = { reason };
  }

  /** The events since the last call, tokens and text joined to one. */
  take(): RunEvent[] {
    const { index, includeStop, stop } = this.job;
    const held = this.ended || includeStop ? 0 : heldTail(this.text, stop);
    const visible = Math.max(this.#textSeen, this.text.length - held);
    const text = this.text.slice(this.#textSeen, visible);
    const tokens = this.tokens.slice(this.#tokensSeen);
    this.#textSeen = visible;
    this.#tokensSeen = this.tokens.length;
    const events: RunEvent[] = [];
    if (text !== "" || tokens.length > 0) {
      const tokenIds = tokens.map(({ id }) => id);
      events.push({
        type: "delta",
        index,
        delta: { type: "delta", text, tokenIds, logprobs: this.#scored(tokens) },
      });
    }
    if (this.finish !== undefined && !this.#endSeen) {
      this.#endSeen = true;
      events.push({ type: "end", index, finishReason: this.finish.reason, stopReason: this.finish.stop });
    }
    return events;
  }

  /** Log-probabilities of those tokens that have them. */
  #scored(tokens: readonly DrawnToken[]): TokenLogprob[] {
    const { tokenizer, tokensAsIds } = this.job;
    const entry = (id: number, logprob: number) => ({
      token: tokensAsIds ? `token_id:${id}` : tokenizer.decode([id]),
      logprob,
    });
    return tokens.flatMap(({ id, logprob, top }) =>
      logprob === undefined
        ? []
        : [{ ...entry(id, logprob), top: top.map(([other, value]) => entry(other, value)) }]
    );
  }

  /** Finds the first stop string that ends after `from`, and cuts the text there. */
  #stopAt(from: number): boolean {
    let best: { at: number; stop: string } | undefined;
    for (const stop of this.job.stop) {
      const at = this.text.indexOf(stop, Math.max(0, from - stop.length + 1));
      if (at >= 0 && (best === undefined || at < best.at)) best = { at, stop };
    }
    if (best === undefined) return false;
    this.text = this.text.slice(0, best.at + (this.job.includeStop ? best.stop.length : 0));
    this.finish = { reason: "stop", stop: best.stop };
    return true;
  }
}

/**
 * The answers of one request while they are made. What a slow reader has not taken is joined: nothing piles up but
 * the answers themselves.
 */
export class Answers {
  readonly list: readonly EmbeddedAnswer[];
  readonly #stop = new AbortController();
  readonly #signals: readonly AbortSignal[];
  readonly #changed = new Set<EmbeddedAnswer>();
  #notify: (() => void) | undefined;
  #running: number;

  /** Starts them; they end when the signal aborts. */
  constructor(generator: Generator, jobs: readonly AnswerJob[], signal: AbortSignal) {
    this.#signals = [signal, this.#stop.signal];
    this.list = jobs.map((job) => new EmbeddedAnswer(job));
    this.#running = jobs.length;
    for (const answer of this.list) {
      this.#drive(generator, answer).catch((error: unknown) => {
        if (!answer.ended) answer.failure = error;
      }).finally(() => {
        this.#running--;
        this.#note(answer);
      });
    }
  }

  /** The events of all answers, to be read once. Throws the failure of any, and ends the others. */
  async *events(): AsyncGenerator<RunEvent, void, void> {
    try {
      for (let answer = await this.#next(); answer !== undefined; answer = await this.#next()) {
        if (answer.failure !== undefined) throw answer.failure;
        yield* answer.take();
      }
    } finally {
      this.#stop.abort(new Error("The answers are not read any more"));
    }
  }

  /** The next answer with news; undefined when all have ended and were looked at. */
  async #next(): Promise<EmbeddedAnswer | undefined> {
    while (this.#changed.size === 0) {
      if (this.#running === 0) return undefined;
      await new Promise<void>((resolve) => this.#notify = resolve);
    }
    const [answer] = this.#changed;
    this.#changed.delete(answer!);
    return answer;
  }

  async #drive(generator: Generator, answer: EmbeddedAnswer): Promise<void> {
    const enough = new AbortController();
    const signal = AbortSignal.any([...this.#signals, enough.signal]);
    for await (const event of generator.generate(answer.job.request, signal)) {
      if (event.type === "prompt") answer.cachedTokens = event.cachedTokens;
      else if (event.type === "end") answer.end(event.reason);
      else if (answer.push(event.token)) {
        this.#note(answer);
        enough.abort(new Error(`The answer has ended: ${messageOf(answer.finish?.stop ?? "stop token")}`));
        break;
      }
      if (event.type !== "prompt") this.#note(answer);
    }
    if (!answer.ended) throw new Error("The generator ended without a reason");
  }

  #note(answer: EmbeddedAnswer): void {
    this.#changed.add(answer);
    const notify = this.#notify;
    this.#notify = undefined;
    notify?.();
  }
}
