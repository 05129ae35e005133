import type { Clock } from "../../../base/clock.ts";
import { sumOf } from "../../statistics/statistics.ts";
import type { EvalAnswer } from "../eval_record.ts";

/** Options of `drawAnswers`. */
export interface DrawOptions {
  /** Asks for the answer with a number from 0; rejects when `signal` aborts. */
  readonly ask: (number: number, signal: AbortSignal) => Promise<EvalAnswer>;
  /** What may be spent: tokens of answers, time in ms, or a number of answers. At least one answer is drawn. */
  readonly budget: { readonly tokens: number } | { readonly timeMs: number } | { readonly answers: number };
  /** Answers at the same time. */
  readonly width: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/**
 * Draws answers of one model until a budget is spent. Of tokens, the answers with the lowest numbers that fit into it
 * count, whatever ended first, so that the same answers give the same vote; of time, those that ended within it. Rejects
 * when an answer fails.
 */
export async function drawAnswers(options: DrawOptions): Promise<EvalAnswer[]> {
  const { budget } = options;
  if ("timeMs" in budget) return await drawnInTime(options, budget.timeMs);
  const found: EvalAnswer[] = [];
  const isSpent = () =>
    "answers" in budget
      ? next >= budget.answers
      : sumOf(Object.values(found).map(({ completionTokens }) => completionTokens)) >= budget.tokens;
  let next = 0;
  const failed = new AbortController();
  const signal = AbortSignal.any([options.signal, failed.signal]);
  const goOn = async () => {
    while (!isSpent()) {
      const number = next++;
      found[number] = await options.ask(number, signal);
    }
  };
  await Promise.all(Array.from({ length: options.width }, goOn)).catch((error: unknown) => {
    failed.abort(error);
    throw error;
  });
  if ("answers" in budget) return found;
  let spent = 0;
  const fitting = found.findIndex(({ completionTokens }) => (spent += completionTokens) > budget.tokens);
  return fitting < 0 ? found : found.slice(0, Math.max(1, fitting));
}

/** What is under way when the time is up is broken off; only where nothing has ended yet, the first one is awaited. */
async function drawnInTime(
  { ask, width, clock, signal }: DrawOptions,
  timeMs: number,
): Promise<EvalAnswer[]> {
  const startMs = clock.now();
  const over = new AbortController();
  const both = AbortSignal.any([signal, over.signal]);
  const found: EvalAnswer[] = [];
  let next = 0;
  const isOver = () => clock.now() - startMs >= timeMs;
  const goOn = async () => {
    do {
      const answer = await ask(next++, both);
      if (over.signal.aborted) return;
      found.push(answer);
      if (isOver()) over.abort(TIME_IS_UP);
    } while (!over.signal.aborted);
  };
  const timer = clock.sleep(timeMs, both).then(() => {
    if (found.length > 0) over.abort(TIME_IS_UP);
  }, () => {});
  const lanes = Array.from({ length: width }, () =>
    goOn().catch((error: unknown) => {
      if (!over.signal.aborted) throw error;
    }));
  try {
    await Promise.all(lanes);
  } finally {
    over.abort(TIME_IS_UP);
    await timer;
  }
  signal.throwIfAborted();
  return found;
}

const TIME_IS_UP = new Error("The time of the first mode is over");
