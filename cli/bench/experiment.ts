import { sweepChunks } from "../../bench/experiments/chunk.ts";
import { compareModes, type ExperimentOptions } from "../../bench/experiments/modes.ts";
import { measurePrefill } from "../../bench/experiments/prefill.ts";
import type { BenchWorkload } from "../../bench/experiments/workloads/workload_file.ts";
import { gpusOf, type Serving } from "../../bench/experiments/world.ts";
import { chunkReport } from "../../bench/report/chunk_report.ts";
import { modesReport } from "../../bench/report/modes_report.ts";
import { prefillReport } from "../../bench/report/prefill_report.ts";
import type { Report } from "../../bench/report/report.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand, type OptionValues } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";
import { type CostSettings, costSettings, hardwareText, SIZE_COST_OPTION } from "./model_costs.ts";
import { WORKLOAD_HELP, workloadOption, workloadsOf } from "./workloads.ts";

/** Questions of each workload where nothing else is said: with them every experiment takes less than half a minute. */
export const DEFAULT_QUESTIONS = { run: 8, prefill: 6, chunk: 2 };

export const worldOptions = {
  questions: { type: "number", value: "N", min: 1, max: 10_000, help: "Questions of each workload" },
  seed: { type: "text", value: "TEXT", help: "The same seed gives the same figures; canopy by default" },
  serving: {
    type: "text",
    value: "KIND",
    choices: ["sglang-pd", "sglang", "vllm"],
    help: "One prefill and one decode GPU per model, or one GPU that does both; sglang-pd by default",
  },
  slots: {
    type: "text",
    value: "ORDER",
    choices: ["declared", "completion"],
    help: "Order of the answers in a prompt; completion by default",
  },
  "engine-version": { type: "text", value: "VERSION", help: "Emulated version of the engines" },
  ...REPORT_OPTIONS,
} as const;

/** `canopy bench run`: the modes of the method side by side. */
export const benchRunCommand = defineCommand({
  name: "bench run",
  summary: "Compare dense 9-9-1, tree 9-3-1 and the tree with incremental prefill; simulated",
  maxArguments: 0,
  options: {
    ...workloadOption,
    concurrency: {
      type: "list",
      value: "N",
      help: "Questions at the same time; by default as the workload says: one",
    },
    ...worldOptions,
    cost: SIZE_COST_OPTION,
  },
  details: `${WORKLOAD_HELP}

Examples:
  canopy bench run
  canopy bench run --workload documents --concurrency 1 --concurrency 16 --json run.json --svg run.svg`,
  run: async (values, _, io) => {
    const settings = {
      ...worldSettings(values),
      ...costSettings(values.cost, io),
      workloads: workloadsOf(values.workload, io),
      questions: values.questions ?? DEFAULT_QUESTIONS.run,
      concurrency: values.concurrency.length === 0 ? undefined : values.concurrency.map(concurrencyOf),
    };
    const report = await runReport(settings, io);
    return await writeReport(report, values, io);
  },
});

/** `canopy bench prefill`: the micro-benchmark of the second layer. */
export const benchPrefillCommand = defineCommand({
  name: "bench prefill",
  summary: "Latency of the second layer: incremental prefill, chunked, at once, lower bound; simulated",
  maxArguments: 0,
  options: {
    "max-tokens": {
      type: "number",
      value: "N",
      min: 1,
      max: 8192,
      help: "Longest answer of a proposer: lengths are equally likely from 1 on; 2048 by default",
    },
    "output-tokens": {
      type: "number",
      value: "N",
      min: 2,
      max: 8192,
      help: "Length of an aggregator's answer; 64 by default",
    },
    "chunk-tokens": {
      type: "number",
      value: "N",
      min: 16,
      max: 8192,
      help: "Tokens of a step under chunked prefill; 512 by default",
    },
    ...worldOptions,
    cost: SIZE_COST_OPTION,
  },
  details: `Proposers write random words. What is measured is the time from a cluster's last token to its
aggregator's last one.

Example:
  canopy bench prefill --questions 4 --json prefill.json`,
  run: async (values, _, io) => {
    const report = await prefillOf({
      ...worldSettings(values),
      ...costSettings(values.cost, io),
      questions: values.questions ?? DEFAULT_QUESTIONS.prefill,
      maxTokens: values["max-tokens"] ?? PREFILL_DEFAULTS.maxTokens,
      outputTokens: values["output-tokens"] ?? PREFILL_DEFAULTS.outputTokens,
      chunkTokens: values["chunk-tokens"] ?? PREFILL_DEFAULTS.chunkTokens,
    }, io);
    return await writeReport(report, values, io);
  },
});

/** `canopy bench chunk`: fixed steps of incremental prefill beside the pace that sets itself. */
export const benchChunkCommand = defineCommand({
  name: "bench chunk",
  summary:
    "End-to-end latency over the step of incremental prefill, beside the pace that sets itself; simulated",
  maxArguments: 0,
  options: {
    ...workloadOption,
    step: { type: "list", value: "TOKENS", help: "Fixed step to try; 64, 128, 256, 512 and 1024 by default" },
    ...worldOptions,
    cost: SIZE_COST_OPTION,
  },
  details: `${WORKLOAD_HELP}

Example:
  canopy bench chunk --workload chat --questions 4 --svg chunk.svg`,
  run: async (values, _, io) => {
    const report = await chunkOf({
      ...worldSettings(values),
      ...costSettings(values.cost, io),
      workloads: workloadsOf(values.workload, io),
      questions: values.questions ?? DEFAULT_QUESTIONS.chunk,
      chunkTokens: values.step.length === 0 ? DEFAULT_STEPS : values.step.map(stepOf),
    }, io);
    return await writeReport(report, values, io);
  },
});

export const PREFILL_DEFAULTS = { maxTokens: 2048, outputTokens: 64, chunkTokens: 512 };
export const DEFAULT_STEPS: readonly number[] = [64, 128, 256, 512, 1024];

export type WorldSettings =
  & Pick<ExperimentOptions, "serving" | "version" | "seed" | "slots">
  & Partial<CostSettings>;

type WorkloadSettings = WorldSettings & {
  readonly workloads: readonly BenchWorkload[];
  readonly questions: number;
};

type RunSettings = WorkloadSettings & { readonly concurrency: readonly number[] | undefined };

export function runReport(settings: RunSettings, io: Io): Promise<Report> {
  return experiment(settings, io, compareModes, modesReport);
}

type PrefillSettings = WorldSettings & typeof PREFILL_DEFAULTS & { readonly questions: number };

export function prefillOf(settings: PrefillSettings, io: Io): Promise<Report> {
  return experiment(settings, io, measurePrefill, prefillReport);
}

type ChunkSettings = WorkloadSettings & { readonly chunkTokens: readonly number[] };

export function chunkOf(settings: ChunkSettings, io: Io): Promise<Report> {
  return experiment(settings, io, sweepChunks, chunkReport);
}

/** Measures with progress on the terminal until somebody stops it, and reports what came out. */
export async function experiment<Settings extends WorldSettings, Result>(
  settings: Settings,
  io: Io,
  measure: (options: Settings & ExperimentOptions) => Promise<Result>,
  report: (result: Result, origin: string, settings: Settings) => Report,
): Promise<Report> {
  const progress = new Progress(io);
  const onPart = (part: string) => progress.show(part);
  try {
    return report(await measure({ ...settings, signal: io.stop, onPart }), originOf(settings), settings);
  } finally {
    progress.end();
  }
}

export function worldSettings(
  values: Pick<
    OptionValues<typeof worldOptions>,
    "serving" | "seed" | "slots" | "engine-version"
  >,
): WorldSettings {
  return {
    serving: values.serving ?? "sglang-pd",
    seed: values.seed ?? "canopy",
    slots: values.slots ?? "completion",
    version: values["engine-version"],
  };
}

/** A sentence on what was simulated. `hardware`: what the cost model is of. */
export function originOf(
  { serving, version, seed, slots, ...costs }: WorldSettings,
  hardware = hardwareText(costs, `${gpusOf(serving)} H200 GPUs`),
): string {
  const engine: Record<Serving, string> = {
    "sglang-pd": "SGLang, one prefill and one decode GPU per model",
    sglang: "SGLang, one GPU per model",
    vllm: "vLLM, one GPU per model",
  };
  const of = version === undefined ? "" : ` (version ${version})`;
  const order = slots === "declared" ? "; answers in declared order" : "; answers in order of completion";
  return `Simulated, not measured: cost model of ${hardware}; ` +
    `${engine[serving]}${of}${order}; seed ${seed}`;
}

function concurrencyOf(text: string): number {
  return wholeNumberOf("concurrency", text, 1, 10_000);
}

function stepOf(text: string): number {
  return wholeNumberOf("step", text, 1, 65_536);
}

/** The number of an option. Throws `UsageError` for what is none, or out of bounds. */
export function wholeNumberOf(option: string, text: string, min: number, max: number): number {
  const number = Number(text);
  if (Number.isSafeInteger(number) && number >= min && number <= max) return number;
  throw new UsageError(
    `Option --${option} must be a whole number from ${min} to ${max}: current value is "${text}"`,
  );
}
