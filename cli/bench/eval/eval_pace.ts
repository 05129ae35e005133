import {
  arrivalsText,
  type QuestionArrivals,
} from "../../../bench/experiments/workloads/question_arrivals.ts";
import { UsageError } from "../../kit/args.ts";
import type { PickedSet } from "../question_source.ts";
import type { EvalValues } from "./eval_options.ts";
import type { Shard } from "./shard.ts";

/** When questions are asked. */
export interface EvalPace {
  /** At the same time at most; undefined for no limit, which needs a rate. */
  readonly concurrency: number | undefined;
  /** Questions a second, at random; undefined where the next one starts when one ends. */
  readonly rate: number | undefined;
  /** Of the first questions so many are not counted; undefined for none. */
  readonly warmUp: number | undefined;
}

/** The pace that options say. */
export function evalPace(
  { concurrency, rate, "warm-up": warmUp = 0 }: Pick<EvalValues, "concurrency" | "rate" | "warm-up">,
): EvalPace {
  return {
    concurrency: concurrency ?? (rate === undefined ? 1 : undefined),
    rate,
    warmUp: warmUp === 0 ? undefined : warmUp,
  };
}

/** True where no two questions are ever asked at the same time. */
export function isOneByOne({ concurrency, rate }: EvalPace): boolean {
  return rate === undefined && concurrency === 1;
}

/** The pace as arrivals of questions. */
export function paceArrivals({ concurrency, rate }: EvalPace): QuestionArrivals {
  return rate === undefined ? concurrency ?? 1 : { perSecond: rate, atMost: concurrency };
}

/** `4 at a time`, `2 questions a second, at most 4 at a time, 3 of warm-up`. */
export function paceText(pace: EvalPace): string {
  const { concurrency = 1, rate, warmUp } = pace;
  const text = rate === undefined
    ? `${concurrency} at a time`
    : `${arrivalsText(paceArrivals(pace))} at random`;
  return warmUp === undefined ? text : `${text}, ${warmUp} of warm-up`;
}

/** Refuses a warm-up that leaves nothing to count. Throws `UsageError`. */
export function checkWarmUp(
  { warmUp = 0 }: EvalPace,
  sets: readonly PickedSet[],
  shard: Shard | undefined,
): void {
  const count = sets.reduce((sum, { questions }) => sum + questions.length, 0);
  // Of more parts than questions some have none, and nothing to count.
  if (warmUp < count || count === 0) return;
  throw new UsageError(
    `Option --warm-up ${warmUp} leaves nothing to count: there ${count === 1 ? "is" : "are"} ${count} ${
      count === 1 ? "question" : "questions"
    }${shard === undefined ? "" : ` in part ${shard.part} of ${shard.parts}`}`,
  );
}
