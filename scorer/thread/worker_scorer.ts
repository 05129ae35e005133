import { type Clock, deadlineSignal } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import type { Transport } from "../../base/transport.ts";
import { ModelThread } from "../../ml/onnx/model_thread.ts";
import type { AnswerFeed, AnswerId, Scorer, ScorerFacts, Similarity, SimilarityMetric } from "../scorer.ts";
import { ThreadRequests } from "./thread_transport.ts";
import type {
  AnswerUpdate,
  ComparisonRequest,
  FromScorerThread,
  ScorerThreadOptions,
  StartScorerThread,
  ToScorerThread,
} from "./worker_thread.ts";

/** Most characters of all answers that wait to be sent. */
const MAX_WAITING_LENGTH = 16 * 1024 * 1024;
/** Text of an answer that is sent at once, in characters: the model takes some tens of tokens at a time. */
const SENT_LENGTH = 128;

/** Options of a `WorkerScorer`. */
export interface WorkerScorerOptions extends ScorerThreadOptions {
  readonly clock: Clock;
  readonly log: Logger;
  readonly start: StartScorerThread;
  /** Carries the thread's requests, for an embedder with an endpoint. */
  readonly transport?: Transport | undefined;
}

/**
 * A scorer whose model runs in a thread of its own. The thread is sent one batch at a time: what comes while it is
 * busy waits here, joined. When it crashes, its answers are lost and it is started again.
 */
export class WorkerScorer implements Scorer {
  readonly #options: WorkerScorerOptions;
  readonly #opened = Promise.withResolvers<void>();
  readonly #requests: ThreadRequests | undefined;
  readonly #answers = new Map<AnswerId, Answer>();
  /** Answers with changes that are not sent. */
  readonly #changed = new Set<Answer>();
  readonly #waiters = new Map<number, Waiter>();
  readonly #unsent = new Set<Waiter>();
  #closedKeys: number[] = [];
  #keys = 0;
  #asked = 0;
  #waitingLength = 0;
  readonly #thread: ModelThread<ToScorerThread, FromScorerThread>;
  #facts: ScorerFacts | undefined;
  /** The thread has not taken the last batch yet. */
  #busy = false;
  /** Reason why the scorer has stopped for good. */
  #failure: string | undefined;

  constructor(options: WorkerScorerOptions) {
    this.#options = options;
    const { clock, log, start, embedder, maxQueued, transport } = options;
    // A failure is also told in every comparison.
    this.#opened.promise.catch(() => {});
    this.#thread = new ModelThread({
      clock,
      log,
      name: "the scorer",
      start: (events) => start({ embedder, maxQueued }, events),
      message: (message) => this.#take(message),
      crash: (reason) => {
        this.#lose(reason);
        return true;
      },
    });
    this.#requests = transport &&
      new ThreadRequests(transport, (outcome, transfer) => this.#thread.post(outcome, transfer));
    this.#thread.start();
  }

  get facts(): ScorerFacts | undefined {
    return this.#facts;
  }

  /** Waits for the model. Rejects when it cannot be used. */
  async ready(): Promise<void> {
    this.#thread.keepAlive(true);
    try {
      await this.#opened.promise;
    } finally {
      this.#thread.keepAlive(false);
    }
  }

  open(id: AnswerId): AnswerFeed {
    const earlier = this.#answers.get(id);
    if (earlier !== undefined) this.#close(earlier);
    const answer: Answer = {
      id,
      key: this.#keys++,
      sent: false,
      text: "",
      ended: false,
      lost: this.#failure,
    };
    this.#answers.set(id, answer);
    this.#changed.add(answer);
    return {
      append: (text) => this.#append(answer, text),
      end: () => this.#end(answer),
      close: () => this.#close(answer),
    };
  }

  similarity(a: AnswerId, b: AnswerId, metric: SimilarityMetric, deadlineMs: number): Promise<Similarity> {
    const unknown = (reason: string): Similarity => ({ metric, value: undefined, reason, tokens: [0, 0] });
    const [left, right] = [this.#answers.get(a), this.#answers.get(b)];
    if (left === undefined || right === undefined) {
      return Promise.resolve(unknown(`answer ${left === undefined ? a : b} is not open`));
    }
    const lost = this.#failure ?? left.lost ?? right.lost;
    if (lost !== undefined) return Promise.resolve(unknown(lost));
    return new Promise((resolve) => {
      const waitMs = deadlineMs > 0 ? deadlineMs : 0;
      const deadline = deadlineSignal(this.#options.clock, waitMs, undefined);
      const request = this.#asked++;
      const waiter: Waiter = {
        request: { request, a: left.key, b: right.key, metric, deadlineMs: waitMs },
        settle: (result) => {
          this.#waiters.delete(request);
          this.#unsent.delete(waiter);
          deadline.release();
          resolve(typeof result === "string" ? unknown(result) : result);
        },
      };
      deadline.signal.addEventListener("abort", () => waiter.settle(`not known within ${waitMs} ms`));
      this.#waiters.set(request, waiter);
      this.#unsent.add(waiter);
      this.#flush();
    });
  }

  async close(): Promise<void> {
    if (this.#thread.isClosing) return;
    const reason = "the scorer is closed";
    this.#opened.reject(new CanopyError(reason, { code: "scorer_closed", status: 503 }));
    this.#giveUp(reason);
    await this.#thread.close();
  }

  #append(answer: Answer, text: string): void {
    if (text === "" || answer.ended || answer.lost !== undefined || !this.#isOpen(answer)) return;
    if (this.#waitingLength + text.length > MAX_WAITING_LENGTH) {
      return this.#loseOne(answer, `the scorer is busy: ${MAX_WAITING_LENGTH} characters wait for it`);
    }
    this.#waitingLength += text.length;
    answer.text += text;
    this.#changed.add(answer);
    if (answer.text.length >= SENT_LENGTH) this.#flush();
  }

  #end(answer: Answer): void {
    if (answer.ended || answer.lost !== undefined || !this.#isOpen(answer)) return;
    answer.ended = true;
    this.#changed.add(answer);
    this.#flush();
  }

  #close(answer: Answer): void {
    if (!this.#isOpen(answer)) return;
    this.#answers.delete(answer.id);
    this.#loseOne(answer, `answer ${answer.id} is closed`);
    this.#flush();
  }

  #isOpen(answer: Answer): boolean {
    return this.#answers.get(answer.id) === answer;
  }

  /** Sends nothing more of an answer, and has the thread drop it. */
  #loseOne(answer: Answer, reason: string): void {
    answer.lost ??= reason;
    this.#waitingLength -= answer.text.length;
    answer.text = "";
    this.#changed.delete(answer);
    if (answer.sent) this.#closedKeys.push(answer.key);
    answer.sent = false;
    for (const { request, settle } of this.#waiters.values()) {
      if (request.a === answer.key || request.b === answer.key) settle(reason);
    }
  }

  /** Sends all changes as a batch, unless the thread has not taken the last one. */
  #flush(): void {
    if (this.#busy || this.#facts === undefined) return;
    const answers: AnswerUpdate[] = [];
    for (const answer of this.#changed) {
      const { key, sent, text, ended } = answer;
      answers.push({ key, opened: !sent, text, ended });
      this.#waitingLength -= text.length;
      answer.sent = true;
      answer.text = "";
    }
    const comparisons = [...this.#unsent].map(({ request }) => request);
    const closed = this.#closedKeys;
    if (answers.length + comparisons.length + closed.length === 0) return;
    this.#changed.clear();
    this.#unsent.clear();
    this.#closedKeys = [];
    this.#busy = true;
    this.#thread.post({ kind: "batch", answers, comparisons, closed });
  }

  #take(message: FromScorerThread): void {
    switch (message.kind) {
      case "ready": {
        const { facts } = message;
        this.#facts = facts;
        this.#opened.resolve();
        const { fallbacks } = facts.details;
        const level = Array.isArray(fallbacks) && fallbacks.length > 0 ? "warn" : "info";
        this.#options.log[level]("The scorer is ready: {facts}", { facts });
        const { wrong } = facts.details;
        if (wrong !== undefined) this.#options.log.warn("The scorer: {wrong}", { wrong });
        return this.#flush();
      }
      case "failed":
        this.#options.log.error("The scorer cannot work: {reason}", { reason: message.reason });
        this.#thread.terminate();
        this.#opened.reject(new CanopyError(message.reason, { code: message.code, status: message.status }));
        return this.#giveUp(message.reason);
      case "taken":
        this.#busy = false;
        return this.#flush();
      case "ask":
        return void this.#requests?.send(message.request, message.outgoing);
      case "leave":
        return this.#requests?.leave(message.request);
      case "compared":
        this.#thread.works();
        return this.#waiters.get(message.request)?.settle(message.result);
      case "closed":
        return this.#thread.hasClosed();
    }
  }

  /** Stops for good. */
  #giveUp(reason: string): void {
    this.#failure = reason;
    this.#lose(reason);
    for (const answer of this.#answers.values()) this.#loseOne(answer, reason);
  }

  /** Gives up what a crashed thread knew. */
  #lose(reason: string): void {
    this.#facts = undefined;
    this.#requests?.leaveAll();
    this.#busy = false;
    for (const answer of this.#answers.values()) {
      // Answers that it had not been sent are not lost.
      if (answer.sent) this.#loseOne(answer, reason);
    }
    this.#closedKeys = [];
  }
}

interface Answer {
  readonly id: AnswerId;
  /** Id in the thread. */
  readonly key: number;
  /** True when the thread knows it. */
  sent: boolean;
  /** Text that is not sent yet. */
  text: string;
  ended: boolean;
  /** Reason why it is not compared. */
  lost: string | undefined;
}

interface Waiter {
  readonly request: ComparisonRequest;
  /** Ends the wait with a result, or with the reason why there is none. */
  settle(result: Similarity | string): void;
}
