import type { AgentFigures } from "./figures.ts";
import { type IncrementalPrefill, tree931 } from "./graphs.ts";
import type { ExperimentOptions } from "./modes.ts";
import { runTrial } from "./trial.ts";
import { uniformQuestions } from "./workload.ts";
import { SIZES } from "./world.ts";
import { type Summary, summaryOf } from "../statistics/statistics.ts";

/** Options of `measurePrefill`. */
export interface PrefillOptions extends ExperimentOptions {
  readonly questions: number;
  /** The proposers' answers are random words, their lengths equally likely from 1 to so many tokens. */
  readonly maxTokens: number;
  /** Exact length of the aggregators' answers. */
  readonly outputTokens: number;
  /** Tokens of one prefill step under chunked prefill. */
  readonly chunkTokens: number;
}

/** The ways to get an aggregator's prompt read. */
export const PREFILL_VARIANTS = [
  { variant: "naive", name: "whole prompt at once" },
  { variant: "chunked", name: "chunked prefill" },
  { variant: "incremental", name: "incremental prefill" },
  { variant: "bound", name: "lower bound" },
] as const;

export type PrefillVariant = (typeof PREFILL_VARIANTS)[number]["variant"];

/** The aggregators of one model under one variant; durations in ms. */
export interface PrefillFigures {
  readonly model: string;
  readonly variant: PrefillVariant;
  /** From the last precursor's last token to the aggregator's last token. */
  readonly layerMs: Summary;
  /** From the last precursor's last token to the aggregator's first token. */
  readonly handOverMs: Summary;
  /** Share of the naive variant's mean `layerMs` that is saved, 0 to 1; and the largest share saved of one question's. */
  readonly saved: number;
  readonly mostSaved: number;
}

/**
 * The paper's micro-benchmark of the second layer: how long an aggregator takes after its precursors, with an answer of
 * fixed length. The lower bound is its decode alone, as if its prompt had been read and handed over in no time.
 */
export async function measurePrefill(options: PrefillOptions): Promise<PrefillFigures[]> {
  const { outputTokens, maxTokens, seed } = options;
  const questions = uniformQuestions({
    count: options.questions,
    questionTokens: 64,
    maxTokens,
    outputTokens,
    seed,
  });
  const run = async (variant: PrefillVariant, prefill: IncrementalPrefill, stepTokens?: number) => {
    options.onPart?.(PREFILL_VARIANTS.find((known) => known.variant === variant)?.name ?? variant);
    const graph = tree931(prefill, options.slots);
    const trial = await runTrial({ ...options, stepTokens, graph, questions, concurrency: 1 });
    return trial.runs.map((figures) => figures.agents.filter((agent) => agent.id.startsWith("l2.")));
  };
  const naive = await run("naive", { mode: "off" });
  const chunked = await run("chunked", { mode: "off" }, options.chunkTokens);
  const incremental = await run("incremental", { mode: "on" });
  const decodes = naive.map((agents) =>
    agents.map((agent) => ({ ...agent, readyAtMs: agent.firstTokenAtMs }))
  );
  const variants = { naive, chunked, incremental, bound: decodes };
  return SIZES.flatMap((model) =>
    PREFILL_VARIANTS.map(({ variant }) =>
      figuresOf(model, variant, of(variants[variant], model), of(naive, model))
    )
  );
}

/** The aggregator of a model in each question. */
function of(runs: readonly (readonly AgentFigures[])[], model: string): AgentFigures[] {
  return runs.flatMap((agents) => agents.filter((agent) => agent.model === model));
}

function figuresOf(
  model: string,
  variant: PrefillVariant,
  agents: readonly AgentFigures[],
  naive: readonly AgentFigures[],
): PrefillFigures {
  const layerMs = (agent: AgentFigures) => agent.endedAtMs - agent.readyAtMs;
  const layer = summaryOf(agents.map(layerMs));
  const saved = agents.map((agent, index) => 1 - layerMs(agent) / layerMs(naive[index] ?? agent));
  return {
    model,
    variant,
    layerMs: layer,
    handOverMs: summaryOf(agents.map((agent) => agent.firstTokenAtMs - agent.readyAtMs)),
    saved: 1 - layer.mean / summaryOf(naive.map(layerMs)).mean,
    mostSaved: Math.max(...saved),
  };
}
