import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import { type Config, configSchema } from "../../cfgs/schema/config.ts";

/** The laboratory's models, from the smallest to the largest: keys of the preset's `models`. */
export const LABORATORY_SIZES: readonly string[] = ["s", "m", "l"];

/** The model that was trained to aggregate. */
const READER = LABORATORY_SIZES.at(-1);
/** Prompt of agents that read others' answers, as in the preset. */
const READING = "laboratory";
/** Of agents whose answers others read; the last one, and models that are asked alone, give their likeliest tokens. */
const TEMPERATURE = 0.7;
/** The longest solution has some 100 tokens. */
const MAX_TOKENS = 160;

/** Settings of a graph of agents. */
export interface LaboratoryGraphOptions {
  /** The agents' seeds are this number and those after it. */
  readonly seed: number;
  readonly maxTokens?: number | undefined;
  readonly prefill?: boolean | undefined;
  readonly earlyExit?: Readonly<Record<string, unknown>> | undefined;
}

/** One model alone, with its likeliest tokens. */
export function singleGraph(model: string, maxTokens = MAX_TOKENS): Record<string, unknown> {
  return {
    sampling: { temperature: 0, max_tokens: maxTokens },
    layers: [{ agents: [{ model }], prompt: "propose" }],
  };
}

/** Mode #2, 9-3-1: three clusters of one model of each size; the largest model aggregates, and is the root. */
export function treeGraph(
  { seed, maxTokens, prefill, earlyExit }: LaboratoryGraphOptions,
): Record<string, unknown> {
  return {
    sampling: samplingOf(maxTokens),
    layers: [
      { clusters: [0, 3, 6].map((first) => ({ agents: agents(3, seed + first) })), prompt: "propose" },
      { agents: readers(3, seed + 9), prompt: READING },
      ROOT,
    ],
    incremental_prefill: { mode: prefill === true ? "auto" : "off" },
    early_exit: earlyExit,
  };
}

/** Mode #1, 9-9-1: every aggregator reads all nine. */
export function denseGraph({ seed, maxTokens }: LaboratoryGraphOptions): Record<string, unknown> {
  return {
    sampling: samplingOf(maxTokens),
    layers: [
      { agents: agents(9, seed), prompt: "propose" },
      { agents: readers(9, seed + 9), prompt: READING },
      ROOT,
    ],
    incremental_prefill: { mode: "off" },
  };
}

const ROOT = {
  agents: [{ model: READER, sampling: { temperature: 0 } }],
  prompt: READING,
};

function samplingOf(maxTokens = MAX_TOKENS) {
  return { temperature: TEMPERATURE, max_tokens: maxTokens };
}

function readers(count: number, seed: number) {
  return Array.from({ length: count }, (_, index) => ({ model: READER, sampling: { seed: seed + index } }));
}

function agents(count: number, seed: number) {
  return Array.from({ length: count }, (_, index) => ({
    model: LABORATORY_SIZES[index % LABORATORY_SIZES.length],
    sampling: { seed: seed + index },
  }));
}

/** The preset `laboratory` with other graphs, and with models of its `models` on other servers. */
export function laboratoryConfig(
  graphs: Readonly<Record<string, unknown>>,
  { server, models, cacheBytes }: {
    readonly server: Readonly<Record<string, unknown>>;
    readonly models?: Readonly<Record<string, unknown>> | undefined;
    /** Of each model in this process. */
    readonly cacheBytes?: number | undefined;
  },
): Config {
  const { config } = loadCheckedConfig({ path: "laboratory", env: {} });
  return configSchema.parse({
    prompts: config.prompts,
    scorer: config.scorer,
    models: models ?? Object.fromEntries(
      Object.entries(config.models).map(([name, model]) => [name, {
        ...model,
        onnx: { ...model.onnx, ...(cacheBytes === undefined ? {} : { cache_bytes: cacheBytes }) },
      }]),
    ),
    server,
    graphs,
  });
}
