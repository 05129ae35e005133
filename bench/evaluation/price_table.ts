import { z } from "zod";
import { ConfigError, problemOf } from "../../cfgs/load/problems.ts";
import { readConfig } from "../../cfgs/load/read_config.ts";
import { modelSchema } from "../../cfgs/schema/config.ts";
import { explain } from "../../cfgs/schema/explain.ts";
import { costOfTokens } from "../../router/moa/record/cost.ts";
import type { AnswerWork } from "./answer_work.ts";

const PRICE_TABLE = z.strictObject({
  gpu_hour: z.number().min(0).optional().describe("Rent of one GPU for an hour"),
  models: z.record(
    z.string().min(1),
    z.strictObject({
      gpus: z.int().min(0).optional().describe("GPUs of one server of the model, or of one pair"),
      price: modelSchema.shape.price.describe("Of a million tokens, as in a configuration"),
    }),
  ).default({}).describe("By the names that servers and graphs give their models"),
});

/** What tokens and GPUs cost, in one currency, whichever it is. */
export type PriceTable = z.infer<typeof PRICE_TABLE>;

/** Reads a price table (JSONC). Throws `ConfigError` naming line and column of each problem. */
export function readPriceTable(text: string, path: string): PriceTable {
  const { value, format, locate } = readConfig({ text, path, syntax: "jsonc" });
  if (format !== "canopy") throw ConfigError.of(path, "this is a configuration of MoA-vllm, no price table");
  const found = explain(PRICE_TABLE, value);
  if (found.length > 0) {
    throw new ConfigError(found.map((one) => problemOf(one, path, locate(one.path, one.atKey))));
  }
  return PRICE_TABLE.parse(value);
}

/** Cost of an answer's tokens by the table; by the server's own prices without one. Null where a model has no price. */
export function tokenCost(work: AnswerWork, table: PriceTable | undefined): number | null {
  if (table === undefined) return work.cost;
  const costs = Object.entries(work.models).map(([model, { cachedTokens, ...tokens }]) => {
    const price = table.models[model]?.price;
    return price === undefined
      ? NaN
      : costOfTokens(price, { ...tokens, cachedTokens: cachedTokens ?? undefined });
  });
  const cost = costs.reduce((sum, one) => sum + one, 0);
  return Number.isNaN(cost) ? null : cost;
}
