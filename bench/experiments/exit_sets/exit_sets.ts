import type { Clock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { QuestionKind } from "../../../scorer/policy/vote_model.ts";
import { meanOf, sumOf } from "../../statistics/statistics.ts";
import { runExitTrial } from "../exit_run.ts";
import { type ScriptedExitQuestion, scriptedQuestions } from "../scripted_answers.ts";
import { costTopology, type TopologyOutcome } from "../topology/costed_topology.ts";
import type { BenchWorkload } from "../workloads/workload_file.ts";
import { type ModelCosts, SIZES } from "../world.ts";
import { type SetFigures, setFigures } from "./set_figures.ts";
import { dealtRule, oracleRule, scriptedKinds, type SetRule, setRules } from "./set_rules.ts";

/** Options of `measureExitSets`. */
export interface ExitSetsOptions {
  readonly workload: BenchWorkload;
  readonly sets: number;
  /** Of each set. */
  readonly questions: number;
  /** Questions at the same time. */
  readonly loads: readonly number[];
  /** Questions of the first set that the router plays as well, under each load. */
  readonly play: number;
  readonly serving: "sglang-pd" | "sglang";
  readonly seed: string;
  readonly costs?: ModelCosts | undefined;
  /** Of the machine: it gives others their turns. */
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onPart?: (name: string) => void;
}

/** All ways to answer under one load. */
export interface LoadedSets {
  readonly atOnce: number;
  readonly rows: readonly SetFigures[];
}

/** One way to answer the same questions, costed by what the router played. */
export interface PlayedSet {
  readonly name: string;
  readonly atOnce: number;
  /** Costed mean latency and mean tokens by the played ones. */
  readonly latency: number;
  readonly tokens: number;
  /** Questions with a costed latency more than 3 % off the played one. */
  readonly apart: number;
  /** Right answers. */
  readonly right: { readonly costed: number; readonly played: number };
}

/** Outcome of `measureExitSets`. */
export interface ExitSets {
  /** Of the sets' questions, and of those that the posterior has learned from. */
  readonly seeds: { readonly sets: readonly string[]; readonly learning: string };
  readonly kinds: readonly QuestionKind[];
  readonly loads: readonly LoadedSets[];
  readonly played: readonly PlayedSet[];
}

/** A costed latency that is farther from the played one than this share of it is apart. */
const NEAR = 0.03;

/**
 * Costs rules that end whole runs on several sets of questions, beside #1 and #2, chance at as many answers, and the
 * oracle. The questions of each set are asked in a world of their own.
 */
export async function measureExitSets(options: ExitSetsOptions): Promise<ExitSets> {
  const { workload, seed, questions: count } = options;
  const learning = `${seed}/learning`;
  const kinds = scriptedKinds(workload, learning);
  const seeds = Array.from({ length: options.sets }, (_, at) => `${seed}/set ${at + 1}`);
  const sets = seeds.map((one) => scriptedQuestions(workload, count, one));
  const rules = setRules(kinds);
  const loads: LoadedSets[] = [];
  for (const atOnce of options.loads) loads.push(await loadedSets(atOnce, { sets, rules, options }));
  const played: PlayedSet[] = [];
  for (const atOnce of options.loads) played.push(...await playedSets(sets[0]!, atOnce, { rules, options }));
  return { seeds: { sets: seeds, learning }, kinds, loads, played };
}

async function loadedSets(
  atOnce: number,
  { sets, rules, options }: {
    readonly sets: readonly (readonly ScriptedExitQuestion[])[];
    readonly rules: readonly SetRule[];
    readonly options: ExitSetsOptions;
  },
): Promise<LoadedSets> {
  const { seed, clock, signal, onPart } = options;
  const costAll = async (name: string, ruleOf: (at: number) => SetRule) => {
    const outcomes: TopologyOutcome[][] = [];
    for (const [at, questions] of sets.entries()) {
      signal.throwIfAborted();
      onPart?.(`${atOnce} at once: ${name}, set ${at + 1}`);
      outcomes.push(costed(ruleOf(at), questions, { atOnce, options }));
      // Costing is one long computation: signals of the process, such as a stop, have their turn in between.
      await clock.sleep(0);
    }
    return outcomes;
  };
  const rows: SetFigures[] = [];
  let [dense, tree]: TopologyOutcome[][][] = [];
  const add = async (name: string, ruleOf: (at: number) => SetRule, reads = false) => {
    const outcomes = await costAll(name, ruleOf);
    dense ??= outcomes;
    if (dense !== outcomes) tree ??= outcomes;
    const dealt = outcomes.map((set, at) =>
      new Random(`${seed}/dealt/${name}/${at}`).shuffled(set.map(({ votes }) => votes))
    );
    const chance = reads
      ? await costAll(`${name}, by chance`, (at) => dealtRule(ruleOf(at), dealt[at]!))
      : undefined;
    const random = new Random(`${seed}/intervals/${name}/${atOnce}`);
    rows.push(setFigures({ name, outcomes, chance }, { dense, tree: tree ?? dense, random }));
  };
  for (const rule of rules) await add(rule.name, () => rule, rule.reads);
  await add(oracleRule([]).name, (at) => oracleRule(sets[at]!));
  return { atOnce, rows };
}

function costed(
  { name, layers, exit, readsAhead }: SetRule,
  questions: readonly ScriptedExitQuestion[],
  { atOnce, options: { serving, costs, seed } }: {
    readonly atOnce: number;
    readonly options: ExitSetsOptions;
  },
): TopologyOutcome[] {
  const models = SIZES.map((size) => ({ name: size, cost: costs?.[size] ?? size }));
  const pairs = serving === "sglang-pd";
  return costTopology({ name, layers, exit }, { models, questions, pairs, readsAhead, atOnce, seed });
}

/** The first questions of a set with the real router over simulated engines, beside what was costed. */
async function playedSets(
  set: readonly ScriptedExitQuestion[],
  atOnce: number,
  { rules, options }: { readonly rules: readonly SetRule[]; readonly options: ExitSetsOptions },
): Promise<PlayedSet[]> {
  const { play, serving, seed, costs, signal, onPart } = options;
  const questions = set.slice(0, play);
  const found: PlayedSet[] = [];
  for (const rule of rules) {
    const { name, graph } = rule;
    if (graph === undefined || questions.length === 0) continue;
    onPart?.(`${atOnce} at once: ${name}, played`);
    const world = { serving, costs, seed, graph, questions, concurrency: atOnce, signal };
    const played = await runExitTrial(world);
    const own = costed(rule, questions, { atOnce, options });
    const hits = (of: readonly { readonly right: boolean }[]) => sumOf(of.map(({ right }) => Number(right)));
    found.push({
      name,
      atOnce,
      latency: meanOf(own.map(({ latencyMs }) => latencyMs)) / meanOf(played.map(({ e2eMs }) => e2eMs)),
      tokens: meanOf(own.map(({ tokens }) => tokens)) /
        meanOf(played.map(({ completionTokens }) => completionTokens)),
      apart: own.filter(({ latencyMs }, at) => Math.abs(latencyMs / (played[at]?.e2eMs ?? NaN) - 1) > NEAR)
        .length,
      right: { costed: hits(own), played: hits(played) },
    });
  }
  return found;
}
