import type { Clock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { type PairedAnswers, pairedAnswers } from "../../statistics/paired_answers.ts";
import { type Interval, meanOf, quantile } from "../../statistics/statistics.ts";
import { placeSeed } from "../graphs.ts";
import { type TopologyCandidate, topologyCandidates, type TopologyGrid } from "./candidates.ts";
import { chooseTopology, costFigure, type TopologyBudget } from "./choice.ts";
import { type CostedTopologyOptions, costTopology, type TopologyOutcome } from "./costed_topology.ts";
import { exitRuleOf } from "./exit_rules.ts";
import { paretoFront } from "./front.ts";
import { type ByFigure, nextIntervals, topologyIntervals, topologyMeans } from "./outcome_figures.ts";

/** Options of `searchTopology`. */
export interface TopologySearchOptions extends CostedTopologyOptions {
  readonly depths: TopologyGrid["depths"];
  readonly widths: TopologyGrid["widths"];
  /** Names of rules (`exitRuleOf`). */
  readonly exits: readonly string[];
  readonly budget: TopologyBudget;
  /** Questions of the run that is predicted. */
  readonly next: number;
  /** Of the machine: it gives others their turns. */
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called before each candidate with its name. */
  readonly onPart?: (name: string) => void;
}

/** A candidate's figures on the questions that choose. */
export interface TopologyRow {
  readonly name: string;
  readonly exit: string;
  readonly means: ByFigure<number>;
}

/** A candidate's figures on the questions that were held out. */
export interface HeldOutFigures {
  readonly name: string;
  readonly means: ByFigure<number>;
  /** 95 % each. */
  readonly intervals: ByFigure<Interval>;
  readonly p90Ms: number;
}

/** The recommendation, predicted from the questions that were held out. */
export interface RecommendedTopology extends HeldOutFigures {
  /** Bounds that all means of a run of `next` further questions keep with a probability of 95 %. */
  readonly next: ByFigure<Interval>;
  /** The largest model alone on the same questions; undefined where it was not tried, or is what is recommended. */
  readonly alone: ComparedTopology | undefined;
}

/** Another candidate on the held-out questions, and the recommendation's answers against its. */
export interface ComparedTopology extends PairedAnswers {
  readonly name: string;
  readonly means: ByFigure<number>;
}

/** Outcome of a search. */
export interface TopologySearch {
  readonly cost: ReturnType<typeof costFigure>;
  /** Numbers of questions. */
  readonly chosenOn: number;
  readonly heldOut: number;
  readonly next: number;
  readonly budget: TopologyBudget;
  readonly skills: Readonly<Record<string, number>>;
  readonly candidates: readonly TopologyRow[];
  /** Pareto's front on the questions that choose, with what it comes to on the others; the cheapest first. */
  readonly front: readonly { readonly row: TopologyRow; readonly heldOut: HeldOutFigures }[];
  /** Undefined where nothing is within the budget. */
  readonly recommended: RecommendedTopology | undefined;
}

/** A search's outcome, and the candidate that it recommends. */
export interface FoundTopology {
  readonly search: TopologySearch;
  readonly candidate: TopologyCandidate | undefined;
}

interface TriedTopology extends TopologyRow {
  readonly candidate: TopologyCandidate;
  /** Of the questions that choose, and of those that are held out. */
  readonly outcomes: readonly TopologyOutcome[];
  readonly rest: readonly TopologyOutcome[];
}

/** Agents of the first layer whose answers say what share of a model's are right. */
const SKILL_PLACES = [0, 1, 2];

/**
 * Costs every graph of the grid on the same questions. One half of them chooses: the front and the recommendation. The
 * other half predicts, so that what looked good by chance does not look so again.
 */
export async function searchTopology(options: TopologySearchOptions): Promise<FoundTopology> {
  const { depths, widths, models, questions, budget, next, seed, signal } = options;
  const [choosing, rest] = splitQuestions(questions.length, new Random(`${seed}/split`));
  const of = (outcomes: readonly TopologyOutcome[], part: readonly number[]) =>
    part.flatMap((number) => outcomes[number] ?? []);
  const skills = skillsOf(options, choosing);
  const grid = {
    depths,
    widths,
    models: models.map(({ name }) => name),
    exits: options.exits.flatMap((name) => exitRuleOf(name, skills) ?? []),
  };
  const tried: TriedTopology[] = [];
  for (const candidate of topologyCandidates(grid)) {
    signal.throwIfAborted();
    const { name, exit } = candidate;
    options.onPart?.(name);
    const all = costTopology(candidate, options);
    const outcomes = of(all, choosing);
    const means = topologyMeans(outcomes);
    tried.push({ name, exit: exit.name, means, candidate, outcomes, rest: of(all, rest) });
    // Costing is one long computation: signals of the process, such as a stop, have their turn in between.
    await options.clock.sleep(0);
  }
  const cost = costFigure(budget);
  const rowOf = ({ name, exit, means }: TopologyRow): TopologyRow => ({ name, exit, means });
  const front = paretoFront(tried.map((one) => ({ one, cost: one.means[cost], right: one.means.right })));
  const chosen = chooseTopology(tried, budget);
  return {
    candidate: chosen?.candidate,
    search: {
      cost,
      chosenOn: choosing.length,
      heldOut: rest.length,
      next,
      budget,
      skills,
      candidates: tried.map(rowOf),
      front: front.map(({ one }) => ({ row: rowOf(one), heldOut: heldOutFigures(one, seed) })),
      recommended: chosen && {
        ...heldOutFigures(chosen, seed),
        next: nextIntervals(chosen.rest, next, intervalDraws(chosen, seed)),
        alone: comparedWith(
          chosen,
          tried.find(({ candidate: { layers } }) =>
            layers.length === 1 && layers[0]?.clusters[0]?.[0] === models.at(-1)?.name
          ),
        ),
      },
    },
  };
}

function intervalDraws({ name }: TopologyRow, seed: string): Random {
  return new Random(`${seed}/intervals/${name}`);
}

function heldOutFigures(tried: TriedTopology, seed: string): HeldOutFigures {
  const { name, rest } = tried;
  return {
    name,
    means: topologyMeans(rest),
    intervals: topologyIntervals(rest, intervalDraws(tried, seed)),
    p90Ms: quantile(rest.map(({ latencyMs }) => latencyMs).sort((a, b) => a - b), 0.9),
  };
}

function comparedWith(
  chosen: TriedTopology,
  other: TriedTopology | undefined,
): ComparedTopology | undefined {
  if (other === undefined || other === chosen) return undefined;
  return {
    name: other.name,
    means: topologyMeans(other.rest),
    ...pairedAnswers(chosen.rest.map(({ right }, at) => [[right, other.rest[at]?.right === true]])),
  };
}

/** Two halves of the questions' numbers, drawn. */
function splitQuestions(count: number, random: Random): readonly [readonly number[], readonly number[]] {
  const drawn = Array.from({ length: count }, (_, number) => ({ number, at: random.next() }))
    .sort((a, b) => a.at - b.at).map(({ number }) => number);
  const half = Math.floor(count / 2);
  return [drawn.slice(0, half), drawn.slice(half)];
}

/** Shares of right answers of agents that read nobody, by model, to two digits. */
function skillsOf(
  { models, questions }: Pick<TopologySearchOptions, "models" | "questions">,
  choosing: readonly number[],
): Record<string, number> {
  return Object.fromEntries(models.map(({ name }) => {
    const rights = choosing.flatMap((number) =>
      SKILL_PLACES.map((index) => {
        const question = questions[number];
        return Number(question?.answerOf(name, placeSeed({ layer: 0, index }), []) === question?.right);
      })
    );
    return [name, Math.min(0.99, Math.max(0.01, Math.round(100 * meanOf(rights)) / 100))];
  }));
}
