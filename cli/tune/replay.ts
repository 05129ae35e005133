import { meanOf } from "../../bench/statistics/statistics.ts";
import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { type ComparedGroup, evidenceFor, stateAfter } from "../kit/answers/compared_group.ts";
import { exitPolicyOf } from "../../scorer/exit_policy_of.ts";

/** A group whose answers are labelled; labels in the order of the answers, undefined: nobody knows. */
export interface LabelledGroup {
  readonly compared: ComparedGroup;
  readonly labels: readonly (string | undefined)[];
}

/** Answers (or time, where the file has times) of one group, and what of it was saved, as a mean over the draws. */
export interface GroupSaving {
  readonly all: number;
  readonly saved: number;
}

/** Result of a metric over all groups. */
export interface ReplayFigures {
  /** Groups in which there was anything to decide. */
  readonly groups: number;
  /** Share of them that exited, mean over the draws. */
  readonly exitRate: number;
  /** Share of the exits after which the majority of what goes on is not the majority of all; NaN without exits. */
  readonly wrongRate: number;
  /** Share of the answers that were not waited for. */
  readonly answersSaved: number;
  /** Share of the time; NaN where the file has no times. */
  readonly timeSaved: number;
  /** In the order of the groups; `sum(saved) / sum(all)` is what is saved. */
  readonly savings: readonly GroupSaving[];
}

/** Draws over which metrics that draw are averaged. */
const DRAWS = 64;

/** Plays the decisions of a policy on recorded groups. */
export function replay(
  groups: readonly LabelledGroup[],
  settings: EarlyExitConfig,
  seed: string,
): ReplayFigures {
  const policy = exitPolicyOf(settings);
  const drawn = settings.metric === "random" || (settings.metric === "q" && settings.decide === "sample");
  const sums = new Sums();
  for (const group of groups) {
    const { compared } = group;
    const size = compared.completions.length;
    const evidence = evidenceFor(compared, policy?.needs.similarity);
    for (let draw = 0; draw < (drawn ? DRAWS : 1); draw++) {
      const weight = drawn ? 1 / DRAWS : 1;
      let exited = false;
      for (let count = 1; count < size && policy !== undefined && !exited; count++) {
        const decision = policy.decide(stateAfter(compared, count, `${seed} ${draw}`), evidence);
        if (!decision.exit) continue;
        exited = true;
        const kept = decision.keep.map((agent) =>
          compared.completions.findIndex((one) => one.agent === agent)
        );
        sums.exit(group, count, kept, weight);
      }
      if (!exited) sums.wait(group, weight);
    }
  }
  return sums.figures();
}

/**
 * Expectation of `random` with the same exit rate: its probability p is chosen so that the mean over the
 * groups of 1 − (1 − p)^decisions is the rate. It decides from `minAgents` answers on.
 */
export function randomAt(
  groups: readonly LabelledGroup[],
  exitRate: number,
  minAgents: number,
): ReplayFigures {
  const decisions = (group: LabelledGroup) => Math.max(0, group.compared.completions.length - minAgents);
  const rateOf = (p: number) => meanOf(groups.map((group) => 1 - (1 - p) ** decisions(group)));
  const sums = new Sums();
  if (exitRate === 0) {
    for (const group of groups) sums.wait(group, 1);
    return sums.figures();
  }
  let [low, high] = [0, 1];
  for (let step = 0; step < 60; step++) {
    const middle = (low + high) / 2;
    if (rateOf(middle) < exitRate) low = middle;
    else high = middle;
  }
  for (const group of groups) {
    let waiting = 1;
    for (let k = 0; k < decisions(group); k++) {
      const count = minAgents + k;
      sums.exit(group, count, [...Array(count).keys()], waiting * high);
      waiting *= 1 - high;
    }
    sums.wait(group, waiting);
  }
  return sums.figures();
}

/** The most frequent label of the given answers, of several the one that came first; undefined when there is none. */
export function plurality(
  labels: readonly (string | undefined)[],
  places: readonly number[],
): string | undefined {
  const counts = new Map<string, number>();
  for (const place of places) {
    const label = labels[place];
    if (label !== undefined) counts.set(label, (counts.get(label) ?? 0) + 1);
  }
  return [...counts].reduce<[string, number] | undefined>(
    (best, entry) => best === undefined || entry[1] > best[1] ? entry : best,
    undefined,
  )?.[0];
}

class Sums {
  #groups = 0;
  #exits = 0;
  #wrong = 0;
  #answers = 0;
  #answersRead = 0;
  #time = 0;
  readonly #savings = new Map<LabelledGroup, { all: number; saved: number; ms: number; msSaved: number }>();
  #timeTaken = 0;

  exit(group: LabelledGroup, count: number, kept: readonly number[], weight: number): void {
    this.#count(group, count, weight);
    this.#exits += weight;
    const all = plurality(group.labels, [...group.labels.keys()]);
    if (plurality(group.labels, kept) !== all) this.#wrong += weight;
  }

  wait(group: LabelledGroup, weight: number): void {
    this.#count(group, group.labels.length, weight);
  }

  figures(): ReplayFigures {
    const savings = [...this.#savings.values()];
    const timed = savings.every(({ ms }) => !Number.isNaN(ms));
    return {
      groups: Math.round(this.#groups),
      exitRate: this.#exits / this.#groups,
      wrongRate: this.#exits === 0 ? NaN : this.#wrong / this.#exits,
      answersSaved: (this.#answers - this.#answersRead) / this.#answers,
      timeSaved: (this.#time - this.#timeTaken) / this.#time,
      savings: savings.map(({ all, saved, ms, msSaved }) =>
        timed ? { all: ms, saved: msSaved } : { all, saved }
      ),
    };
  }

  #count(group: LabelledGroup, count: number, weight: number): void {
    const { compared: { group: { answers } }, labels } = group;
    const [ms, msTaken] = [answers.at(-1)?.ms ?? NaN, answers[count - 1]?.ms ?? NaN];
    const saving = this.#savings.get(group) ?? { all: labels.length, saved: 0, ms, msSaved: 0 };
    saving.saved += weight * (labels.length - count);
    saving.msSaved += weight * (ms - msTaken);
    this.#savings.set(group, saving);
    this.#groups += weight;
    this.#answers += weight * labels.length;
    this.#answersRead += weight * count;
    this.#time += weight * ms;
    this.#timeTaken += weight * msTaken;
  }
}
