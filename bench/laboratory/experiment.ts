import type { Clock } from "../../base/clock.ts";
import type { LaboratoryQuestion } from "../datasets/laboratory/question.ts";
import { askGraph, type LaboratoryRow, rowOf, votedRow } from "./ask.ts";
import {
  chanceGraph,
  type Condition,
  conditionsOf,
  type LaboratoryPart,
  sampledGraph,
} from "./conditions.ts";
import { LABORATORY_SIZES } from "./laboratory_graphs.ts";
import { drawnName, type ProposalRow, proposalRow } from "./predictors.ts";
import type { RowStore } from "./row_store.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { Router } from "../../router/router.ts";
import type { Scorer } from "../../scorer/scorer.ts";

/** Options of `measureLaboratory`. */
export interface LaboratoryOptions {
  readonly router: Router;
  /** Serves these graphs, and no others, from now on. */
  readonly serve: (graphs: Readonly<Record<string, unknown>>) => void;
  readonly scorer: Scorer;
  readonly clock: Clock;
  readonly questions: readonly LaboratoryQuestion[];
  readonly parts: ReadonlySet<LaboratoryPart>;
  /** Of the agents. */
  readonly seed: number;
  /** Questions at the same time. */
  readonly concurrency: number;
  /** What is there already, and where what comes is put. */
  readonly store: RowStore;
  readonly signal: AbortSignal;
  readonly onPart: (part: string) => void;
}

/** Every question answered in every way. */
export interface LaboratoryResult {
  readonly conditions: readonly { readonly condition: Condition; readonly rows: readonly LaboratoryRow[] }[];
  /** Empty without the part `predictors`. */
  readonly proposals: readonly ProposalRow[];
}

/**
 * About as many questions are asked in one way, then in the next: few enough that a machine's moods hit all ways alike,
 * and so many that a small prefix cache has forgotten the first of them.
 */
const BLOCK_QUESTIONS = 20;

/** Asks all questions in all ways, block by block; what the store has is not asked again. */
export async function measureLaboratory(options: LaboratoryOptions): Promise<LaboratoryResult> {
  const { parts, seed, questions } = options;
  const conditions = conditionsOf(parts, seed);
  const measured = new Map<string, LaboratoryRow[]>(conditions.map(({ name }) => [name, []]));
  const proposals: ProposalRow[] = [];
  const blocks = Math.ceil(questions.length / BLOCK_QUESTIONS);
  for (let block = 0; block < blocks; block++) {
    const bound = (index: number) => Math.round(index * questions.length / blocks);
    const of = {
      ...options,
      questions: questions.slice(bound(block), bound(block + 1)),
      first: bound(block),
    };
    for (const condition of conditions) {
      // Of all blocks so far, this one included.
      const yardstick = measured.get(condition.asOftenAs ?? "");
      const graph = yardstick === undefined ? condition.graph : chanceGraph(exitRateOf(yardstick), seed);
      measured.get(condition.name)?.push(...await rowsOf(condition, graph, of));
    }
    if (parts.has("predictors")) proposals.push(...await allProposals(of));
  }
  return {
    conditions: conditions.map((condition) => ({ condition, rows: measured.get(condition.name) ?? [] })),
    proposals,
  };
}

/** Share of the decisions that ended in an exit; 0 without any. */
export function exitRateOf(rows: readonly LaboratoryRow[]): number {
  const decisions = rows.reduce((sum, row) => sum + row.decisions, 0);
  return decisions === 0 ? 0 : rows.reduce((sum, row) => sum + row.exits, 0) / decisions;
}

/** Options for some of the questions, of which the first has this number. */
interface BlockOptions extends LaboratoryOptions {
  readonly first: number;
}

/** Name of a graph in the router: those of conditions are sentences. */
const GRAPH = "asked";

async function rowsOf(
  { name, samples }: Condition,
  settings: Readonly<Record<string, unknown>>,
  options: BlockOptions,
): Promise<LaboratoryRow[]> {
  const { router, store, questions, clock, signal, first } = options;
  if (questions.some(({ id }) => store.row(name, id) === undefined)) options.serve({ [GRAPH]: settings });
  return await forEach(options, name, async (question, index) => {
    const known = store.row(name, question.id);
    if (known !== undefined) return known;
    const graph = graphOf(router, GRAPH);
    const ask = (seed: number) => askGraph(router, graph, { question: question.question, seed, signal });
    if (samples === undefined) {
      const row = rowOf(name, question, graph, await ask(first + index));
      store.addRow(row);
      return row;
    }
    const startMs = clock.now();
    const runs = await Promise.all(Array.from({ length: samples }, (_, sample) => ask(sample)));
    const row = votedRow(name, question, runs, clock.now() - startMs);
    store.addRow(row);
    return row;
  });
}

async function allProposals(options: BlockOptions): Promise<ProposalRow[]> {
  const { router, scorer, store, serve, signal } = options;
  serve(Object.fromEntries(LABORATORY_SIZES.map((model) => [drawnName(model), sampledGraph(model)])));
  return await forEach(options, "proposals", async (question) => {
    const known = store.proposals(question.id);
    if (known !== undefined) return known;
    const row = await proposalRow(router, scorer, question, signal);
    store.addProposals(row);
    return row;
  });
}

/** Results in the questions' order, so many at the same time. */
async function forEach<T>(
  { questions, first, concurrency, signal, onPart }: BlockOptions,
  part: string,
  use: (question: LaboratoryQuestion, index: number) => Promise<T>,
): Promise<T[]> {
  onPart(`questions ${first + 1} to ${first + questions.length}: ${part}`);
  const results: T[] = [];
  let next = 0;
  const goOn = async () => {
    for (let index = next++; index < questions.length; index = next++) {
      signal.throwIfAborted();
      results[index] = await use(questions[index]!, index);
    }
  };
  await Promise.all(Array.from({ length: Math.min(concurrency, questions.length) }, goOn));
  return results;
}

function graphOf(router: Router, name: string): Graph {
  const graph = router.services.moa.graphs.get(name);
  if (graph === undefined) throw new Error(`The graph ${name} is missing`);
  return graph;
}
