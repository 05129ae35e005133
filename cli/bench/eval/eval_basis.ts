import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { messageOf } from "../../../base/errors.ts";
import type { EvalMode } from "../../../bench/evaluation/modes/eval_mode.ts";
import { type PriceTable, readPriceTable } from "../../../bench/evaluation/price_table.ts";
import type { SpendingBasis } from "../../../bench/evaluation/spending.ts";
import { UsageError } from "../../kit/args.ts";
import type { Io } from "../../kit/io.ts";
import type { EvalTarget, EvalTargets } from "./eval_targets.ts";

/** Options that say what figures are counted and divided by; answers do not depend on them. */
export const BASIS_OPTIONS = {
  prices: {
    type: "text",
    value: "FILE",
    help: "Count costs by this price table (JSONC): of tokens by model, and of a GPU's hour",
  },
  baseline: {
    type: "text",
    value: "MODE",
    help:
      "Divide figures by those of this mode; by default the one that is #2, a tree without incremental prefill and exits",
  },
  embedder: {
    type: "text",
    value: "NAME",
    choices: ["lexical", "onnx"],
    help:
      "What tells how far answers to open-ended prompts are apart: their words (the default), or the scorer's model, " +
      "which canopy models pull fetches",
  },
} as const;

/** The name that the preset faster-moa-modes, and the paper's count, give #2. */
const TREE_NAME = "2-tree";

/** What spending is counted by. Throws `UsageError` for a table that is not there, `ConfigError` for one that is none. */
export function spendingBasis(
  prices: string | undefined,
  targets: Pick<EvalTargets, "gpusOf">,
  io: Pick<Io, "cwd">,
): SpendingBasis {
  const table = prices === undefined ? undefined : priceTableAt(prices, io);
  return {
    prices: table,
    gpusOf: (model) => table?.models[model]?.gpus ?? targets.gpusOf(model) ?? 1,
  };
}

/** How many GPUs a server is taken to have. */
export function gpuRemark(
  { prices }: SpendingBasis,
  { content }: Pick<EvalTargets, "content">,
): string {
  const table = Object.values(prices?.models ?? {}).some(({ gpus }) => gpus !== undefined);
  const named = table ? ", where --prices does not say another number" : "; --prices says another number";
  return content["url"] === undefined
    ? `GPUs of a server: one, or as many as tensor_parallel in its launch says, twice that of a pair, none of a model in this process${named}`
    : `GPUs of a server: one, since servers do not say how many they have, or whether they are pairs${named}`;
}

function priceTableAt(path: string, { cwd }: Pick<Io, "cwd">): PriceTable {
  let text: string;
  try {
    text = readFileSync(resolve(cwd, path), "utf8");
  } catch (cause) {
    throw new UsageError(`Option --prices ${path}: this file cannot be read: ${messageOf(cause)}`);
  }
  return readPriceTable(text, path);
}

/** The mode that figures are divided by; undefined where none is #2. Throws `UsageError` for one that is not asked. */
export function baselineMode(
  given: string | undefined,
  { modes, asked }: {
    readonly modes: readonly EvalMode[];
    readonly asked: ReadonlyMap<string, EvalTarget>;
  },
): string | undefined {
  const names = modes.map(({ name }) => name);
  if (given !== undefined && !names.includes(given)) {
    throw new UsageError(
      `Option --baseline ${given} is no mode that is asked: there are ${names.join(", ")}`,
    );
  }
  const tree = modes.find(({ kind, model }) => {
    const target = asked.get(model);
    // What a server's graph looks like is not listed: its name may say it.
    return kind === "once" && (target?.isTree ?? target?.model === TREE_NAME);
  });
  return given ?? tree?.name;
}
