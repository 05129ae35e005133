import { deadlineSignal } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Random } from "../../base/random.ts";
import { randomText } from "../experiments/workload.ts";
import { type LoadSample, type LoadTarget, sendOne } from "./request.ts";
import { DurationHistogram } from "../statistics/histogram.ts";

/** A load on an OpenAI-compatible server. */
export interface LoadOptions extends LoadTarget {
  readonly model: string;
  /** Requests that are measured; those of the warm-up come before. */
  readonly requests: number;
  readonly warmUp: number;
  /** Most requests at the same time. Without `ratePerSecond` always so many run: the next one starts when one ends. */
  readonly concurrency: number;
  /** Requests start at random with this mean rate, whether others have ended or not. */
  readonly ratePerSecond: number | undefined;
  /** Words of each prompt, each about a token; no two prompts are alike. */
  readonly inputTokens: number;
  /** `max_tokens` of each request. */
  readonly outputTokens: number;
  /** Asks engines not to stop before (`ignore_eos`, which OpenAI itself refuses). */
  readonly ignoreEos: boolean;
  /** Longest time for one request. */
  readonly timeoutMs: number;
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Called after each measured request. */
  readonly onDone?: (done: number) => void;
}

/** Result of a load, in the terms of vLLM's `bench serve`; durations in ms. */
export interface LoadResult {
  readonly completed: number;
  readonly failed: number;
  /** From the first measured request's start to the last one's end. */
  readonly durationMs: number;
  readonly inputTokens: number;
  /** Of the answers alone. */
  readonly outputTokens: number;
  /** Those that graphs' other agents wrote, too. */
  readonly allOutputTokens: number;
  /** Most requests in flight at once. */
  readonly maxConcurrent: number;
  /** From the sending to the first text. */
  readonly ttft: DurationHistogram;
  /** Per request: the time after the first token over the number of the other ones. */
  readonly tpot: DurationHistogram;
  /** Between two pieces of text, all requests together. */
  readonly itl: DurationHistogram;
  readonly e2e: DurationHistogram;
  /** True when the signal ended the load before its last request was done. */
  readonly stopped: boolean;
  /** Errors of the failed requests with their counts; at most ten kinds. */
  readonly errors: ReadonlyMap<string, number>;
}

const MAX_ERROR_KINDS = 10;

/**
 * Sends the load and measures it. When the signal aborts, the result is that of the requests which were done by then;
 * rejects with its reason where none was.
 */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const { clock, random, signal, requests, warmUp } = options;
  const warmUpBooks = new Books();
  await closedLoop(options, warmUp, (index) => measure(options, `warm-up ${index}`, warmUpBooks));
  const books = new Books();
  const startMs = clock.now();
  const one = (index: number) => measure(options, `request ${index}`, books, options.onDone);
  if (options.ratePerSecond === undefined) await closedLoop(options, requests, one);
  else await openLoop(options, options.ratePerSecond, random.stream("arrivals"), one);
  // What was measured until then is kept.
  if (books.done === 0) signal.throwIfAborted();
  return { ...books.result(), durationMs: clock.now() - startMs, stopped: signal.aborted };
}

/** As many at a time as allowed, one after the other. */
async function closedLoop(
  { concurrency, signal }: LoadOptions,
  count: number,
  one: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const work = async () => {
    while (next < count && !signal.aborted) await one(next++);
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, work));
}

/** A Poisson process; a request for which there is no place waits for one, and its time counts from then on. */
async function openLoop(
  { clock, concurrency, requests, signal }: LoadOptions,
  ratePerSecond: number,
  random: Random,
  one: (index: number) => Promise<void>,
): Promise<void> {
  const running = new Set<Promise<void>>();
  let dueMs = clock.now();
  for (let index = 0; index < requests && !signal.aborted; index++) {
    dueMs += random.exponential(1000 / ratePerSecond);
    await clock.sleep(Math.max(0, dueMs - clock.now()), signal).catch(() => {});
    if (signal.aborted) break;
    while (running.size >= concurrency) await Promise.race(running);
    const request: Promise<void> = one(index).finally(() => running.delete(request));
    // It is awaited later.
    request.catch(() => {});
    running.add(request);
  }
  await Promise.all(running);
}

async function measure(
  options: LoadOptions,
  name: string,
  books: Books,
  onDone?: LoadOptions["onDone"],
): Promise<void> {
  const { clock, random, signal, timeoutMs } = options;
  const overdue = new CanopyError(`no answer within ${timeoutMs / 1000} s`, { code: "timeout", status: 504 });
  const deadline = deadlineSignal(clock, timeoutMs, overdue, signal);
  const text = randomText(random.stream(name), options.inputTokens);
  const body: JsonObject = {
    model: options.model,
    messages: [{ role: "user", content: text }],
    max_tokens: options.outputTokens,
  };
  if (options.ignoreEos) body.ignore_eos = true;
  books.begin();
  try {
    const sample = await sendOne(options, body, deadline.signal, (ms) => books.itl.add(ms));
    if (signal.aborted) return;
    books.add(sample);
    onDone?.(books.done);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    deadline.release();
    books.end();
  }
}

/** The sums of a load while it runs. */
class Books {
  readonly ttft = new DurationHistogram();
  readonly tpot = new DurationHistogram();
  readonly itl = new DurationHistogram();
  readonly e2e = new DurationHistogram();
  readonly errors = new Map<string, number>();
  #completed = 0;
  #failed = 0;
  #inputTokens = 0;
  #outputTokens = 0;
  #allOutputTokens = 0;
  #running = 0;
  #maxConcurrent = 0;

  get done(): number {
    return this.#completed + this.#failed;
  }

  begin(): void {
    this.#maxConcurrent = Math.max(this.#maxConcurrent, ++this.#running);
  }

  end(): void {
    this.#running--;
  }

  add({ error, ttftMs, e2eMs, inputTokens, outputTokens, allOutputTokens }: LoadSample): void {
    if (error !== undefined || ttftMs === undefined) {
      this.#failed++;
      const kind = error ?? "the answer had no text";
      if (this.errors.has(kind) || this.errors.size < MAX_ERROR_KINDS) {
        this.errors.set(kind, (this.errors.get(kind) ?? 0) + 1);
      }
      return;
    }
    this.#completed++;
    this.#inputTokens += inputTokens;
    this.#outputTokens += outputTokens;
    this.#allOutputTokens += allOutputTokens;
    this.ttft.add(ttftMs);
    this.e2e.add(e2eMs);
    if (outputTokens > 1) this.tpot.add((e2eMs - ttftMs) / (outputTokens - 1));
  }

  result(): Omit<LoadResult, "durationMs" | "stopped"> {
    return {
      completed: this.#completed,
      failed: this.#failed,
      inputTokens: this.#inputTokens,
      outputTokens: this.#outputTokens,
      allOutputTokens: this.#allOutputTokens,
      maxConcurrent: this.#maxConcurrent,
      ttft: this.ttft,
      tpot: this.tpot,
      itl: this.itl,
      e2e: this.e2e,
      errors: this.errors,
    };
  }
}
