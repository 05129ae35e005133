import { Random } from "../../base/random.ts";
import {
  bootstrapInterval,
  type Interval,
  sumOf,
  wilsonInterval,
} from "../../bench/statistics/statistics.ts";
import type { TuneCandidate } from "./candidates.ts";
import type { GroupSaving, ReplayFigures } from "./replay.ts";

/** Settings that the data speak for, with what they say of them. */
export interface Suggestion {
  readonly candidate: TuneCandidate;
  readonly groups: number;
  /** Groups that exited, a mean over the draws of metrics that draw. */
  readonly exits: number;
  readonly wrong: Interval;
  /** Share of the time (of the answers, where there are no times) that is saved. */
  readonly saved: number;
  /** The same less what chance saves at the same exit rate. */
  readonly overChance: Interval & { readonly mean: number };
}

/** A suggestion, or why there is none. */
export type SuggestionOrReason = { readonly suggestion: Suggestion } | {
  readonly suggestion?: undefined;
  readonly reason: string;
};

const RESAMPLES = 1_000;
/** Rounding between two sums of the same savings. */
const ROUNDING = 1e-9;

/**
 * Of the candidates that are wrong at most so often, and save no less than chance at their own rate, the one that saves
 * most; none where the data are too few to tell its wrong exits from those of chance.
 */
export function suggestionOf(
  candidates: readonly TuneCandidate[],
  mostWrong: number,
  seed: string,
): SuggestionOrReason {
  const tried = candidates.filter(({ written, figures }) =>
    written.metric !== "random" && figures.exitRate > 0 && figures.wrongRate <= mostWrong
  );
  if (tried.length === 0) {
    return {
      reason: `No settings exit with at most ${
        percent(mostWrong)
      } wrong exits: leave the metric at "none", or allow more`,
    };
  }
  const worthwhile = tried.filter(({ figures, random }) => savedOf(figures) >= savedOf(random) - ROUNDING);
  const [first, ...others] = worthwhile;
  if (first === undefined) {
    return {
      reason: `No suggestion: all settings with at most ${
        percent(mostWrong)
      } wrong exits save less than chance at their own exit rate`,
    };
  }
  const best = others.reduce((best, one) => savedOf(one.figures) > savedOf(best.figures) ? one : best, first);
  const { figures, random, name } = best;
  const exits = figures.exitRate * figures.groups;
  const wrong = wilsonInterval(figures.wrongRate * exits, exits);
  if (!(wrong.high < random.wrongRate)) {
    return {
      reason: `The data are too few for a suggestion (groups: ${figures.groups}, exits: ${
        count(exits)
      }): ${name} did best, and ${percent(wrong.low)} to ${
        percent(wrong.high)
      } of its exits may be wrong (95 % interval), those of chance ${percent(random.wrongRate)}`,
    };
  }
  const pairs = figures.savings.map((
    own,
    index,
  ): readonly [GroupSaving, GroupSaving] => [own, random.savings[index]!]);
  const difference = (values: typeof pairs) =>
    shareOf(values.map(([own]) => own)) - shareOf(values.map(([, chance]) => chance));
  const interval = bootstrapInterval(pairs, (values) => difference([...values]), {
    random: new Random(`${seed}/suggestion`),
    resamples: RESAMPLES,
  });
  return {
    suggestion: {
      candidate: best,
      groups: figures.groups,
      exits,
      wrong,
      saved: savedOf(figures),
      overChance: { ...interval, mean: difference(pairs) },
    },
  };
}

/** A suggestion in a sentence, with its numbers. */
export function suggestionText(
  { candidate, groups, exits, wrong, saved, overChance }: Suggestion,
  mostWrong: number,
  tried: number,
): string {
  return `Suggested for at most ${percent(mostWrong)} wrong exits: "early_exit": ${
    JSON.stringify(candidate.written)
  }; ` +
    `on these data (groups: ${groups}, exits: ${count(exits)}) ${
      percent(candidate.figures.wrongRate)
    } of the exits were wrong ` +
    `(95 % interval ${percent(wrong.low)} to ${percent(wrong.high)}; chance ${
      percent(candidate.random.wrongRate)
    }), and ` +
    `${percent(saved)} was saved, ${points(overChance.mean)} points more than by chance at the same rate ` +
    `(${points(overChance.low)} to ${
      points(overChance.high)
    }); chosen from ${tried} settings tried on the same data`;
}

function savedOf({ savings }: ReplayFigures): number {
  return shareOf(savings);
}

function shareOf(savings: readonly GroupSaving[]): number {
  return sumOf(savings.map(({ saved }) => saved)) / sumOf(savings.map(({ all }) => all));
}

function percent(share: number): string {
  return Number.isNaN(share) ? "none" : `${(share * 100).toFixed(1)} %`;
}

function points(share: number): string {
  // No minus before a zero.
  return (share * 100 + 0).toFixed(1).replace(/^-0\.0$/, "0.0");
}

function count(value: number): string {
  return String(Math.round(value));
}
