import { CanopyError } from "../../../base/errors.ts";
import { Random } from "../../../base/random.ts";
import { leastRuns, safeRules } from "../../../bench/statistics/risk_control.ts";
import type { RecordedRun, RecordedRuns } from "./recorded_run.ts";
import {
  agreementRules,
  learnedKinds,
  posteriorRules,
  type TriedRule,
  type WrittenRules,
} from "./run_rules.ts";

/** The promise that rules are chosen for. */
export interface RiskGoal {
  /** Share of runs that may be made worse. */
  readonly risk: number;
  readonly confidence: number;
}

/** Rules that were tried, and the one that is chosen. */
export interface TunedRuns {
  readonly tried: readonly TriedRule[];
  readonly safe: readonly TriedRule[];
  /** Of the safe ones the one that saves most time; undefined where none ends a run. */
  readonly chosen: TriedRule | undefined;
  /** Runs from which skills were learned; 0 where there were too few to learn from some and test on others. */
  readonly learnedFrom: number;
}

/** Share of the runs from which skills are learned: on these, rules that use them cannot be tested. */
const LEARNED_SHARE = 1 / 3;
/** Share of exits that are held back in service to see that the promise still holds. */
const AUDIT = 0.01;

/**
 * Chooses the rule that saves most of those for which the risk is kept: by Learn then Test, over two chains of rules
 * from cautious to bold. Throws `too_few_runs` (400).
 */
export function tuneRuns({ runs, labelled }: RecordedRuns, goal: RiskGoal, random: Random): TunedRuns {
  const needed = leastRuns(goal.risk, goal.confidence);
  if (runs.length < needed) {
    throw new CanopyError(
      `Cannot promise a risk of ${percent(goal.risk)} with ${
        percent(goal.confidence)
      } confidence from ${runs.length} ` +
        `whole runs: it takes at least ${needed}, and more when some would have gone wrong`,
      { code: "too_few_runs", status: 400 },
    );
  }
  const shuffled = shuffle(runs, random);
  const learning = shuffled.slice(0, Math.floor(runs.length * LEARNED_SHARE));
  const testing = shuffled.slice(learning.length);
  const half = 1 - (1 - goal.confidence) / 2;
  const learns = testing.length >= leastRuns(goal.risk, half) && runs.length >= leastRuns(goal.risk, half);
  const chains = [agreementRules(runs)];
  if (learns) chains.push(posteriorRules(testing, learnedKinds(learning, labelled)));
  const safe = safeRules(chains, goal).filter(({ exits }) => exits > 0);
  const chosen = safe.reduce<TriedRule | undefined>(
    (best, rule) => best === undefined || rule.timeSaved > best.timeSaved ? rule : best,
    undefined,
  );
  return { tried: chains.flat(), safe, chosen, learnedFrom: learns ? learning.length : 0 };
}

/** A chosen rule for a configuration, with where it comes from, and watched in service. */
export function rulesFor(
  { written, runs, exits, losses, votes }: TriedRule,
  { risk, confidence }: RiskGoal,
  sha256: string,
): WrittenRules {
  return {
    ...written,
    audit: AUDIT,
    // Of the exits alone, where the promise is for all runs.
    most_wrong: Number(Math.min(0.5, risk * runs / exits).toFixed(4)),
    usual_votes: votes,
    tuned: { by: "canopy tune", risk, confidence, runs, exits, wrong: losses, records_sha256: sha256 },
  };
}

function shuffle(runs: readonly RecordedRun[], random: Random): RecordedRun[] {
  const all = [...runs];
  for (let last = all.length - 1; last > 0; last--) {
    const other = random.int(last + 1);
    [all[last], all[other]] = [all[other]!, all[last]!];
  }
  return all;
}

function percent(share: number): string {
  return `${Number((100 * share).toFixed(2))} %`;
}
