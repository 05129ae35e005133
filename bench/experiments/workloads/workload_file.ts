import { z } from "zod";
import type { JsonObject } from "../../../base/json.ts";
import { ConfigError, problemOf } from "../../../cfgs/load/problems.ts";
import { readConfig } from "../../../cfgs/load/read_config.ts";
import { type ConfigFinding, explain, findingAt } from "../../../cfgs/schema/explain.ts";
import { SIZES } from "../world.ts";

const SOURCE = z.string().min(1).describe(
  'Where the figures are from, with an address; begins with "assumption" where nobody has measured them',
);

const LENGTHS = {
  median: z.number().positive().optional().describe("Median in tokens of a log-normal distribution"),
  sigma: z.number().min(0).max(5).optional().describe("Standard deviation of the logarithm of the length"),
  quantiles: z.array(z.tuple([z.number().gt(0).lt(1), z.number().positive()])).min(2).optional().describe(
    "In place of median and sigma: shares and the lengths below which they lie, such as [0.5, 900]; log-normal between two",
  ),
  max_tokens: z.int().min(1).max(1_000_000).describe("Limit: a longer length is cut to it"),
  source: SOURCE,
};

const ANSWER = z.strictObject({
  models: z.array(z.enum(SIZES)).min(1).optional().describe(
    "Sizes of the models whose answers these are; all by default",
  ),
  layers: z.array(z.int().min(1).max(16)).min(1).optional().describe(
    "Layers of these answers, from 1; all by default",
  ),
  ...LENGTHS,
});

const WORKLOAD = z.strictObject({
  $schema: z.string().optional().describe("For editors"),
  summary: z.string().min(1).max(200).describe("One line for lists"),
  source: SOURCE,
  samples: z.int().min(1).max(10_000).optional().describe(
    "Questions of the source; canopy bench sensitivity asks as many where --questions does not say another number",
  ),
  question: z.strictObject(LENGTHS).describe("Lengths of questions"),
  answers: z.array(ANSWER).min(1).describe(
    "Lengths of answers: of an agent's the first entry that fits it counts",
  ),
  correlation: z.strictObject({
    agents: z.number().min(0).max(1).describe(
      "Between the logarithms of the lengths of two agents' answers to one question: 1 where all answer a hard question at length",
    ),
    source: SOURCE,
  }),
  arrivals: z.strictObject({
    process: z.enum(["one_at_a_time", "all_at_once", "poisson"]),
    per_second: z.number().positive().optional().describe("Mean rate of poisson"),
    source: SOURCE,
  }).describe("When questions come, where --concurrency says nothing"),
});

/** A workload as its file describes it. */
export type WorkloadShape = z.infer<typeof WORKLOAD>;

/** A described workload under its name. */
export interface BenchWorkload extends WorkloadShape {
  readonly name: string;
}

/**
 * Reads the text of a workload file. Throws `ConfigError` naming line and column of each problem, and the nearest known
 * member.
 */
export function readWorkload(
  text: string,
  { name, path }: { readonly name: string; readonly path: string },
): BenchWorkload {
  const { value, format, locate } = readConfig({ text, path, syntax: "jsonc" });
  if (format !== "canopy") throw ConfigError.of(path, "this is a configuration of MoA-vllm, and no workload");
  const found = explain(WORKLOAD, value);
  const parsed = WORKLOAD.safeParse(value);
  if (parsed.success) found.push(...rulesBroken(parsed.data));
  if (!parsed.success || found.length > 0) {
    throw new ConfigError(found.map((one) => problemOf(one, path, locate(one.path, one.atKey))));
  }
  return { ...parsed.data, name };
}

/** The JSON Schema (draft 2020-12) of a workload file, for editors. */
export function workloadJsonSchema(): JsonObject {
  const { $schema, ...schema } = z.toJSONSchema(WORKLOAD, { io: "input" });
  const json: JsonObject = JSON.parse(JSON.stringify({ $schema, title: "Canopy workload", ...schema }));
  return json;
}

/** What a schema cannot say. */
function rulesBroken({ question, answers, arrivals }: WorkloadShape): ConfigFinding[] {
  const found = lengthRules(question, ["question"]);
  for (const [at, answer] of answers.entries()) found.push(...lengthRules(answer, ["answers", at]));
  const last = answers.length - 1;
  for (const member of ["models", "layers"] as const) {
    if (answers[last]?.[member] === undefined) continue;
    found.push(findingAt(
      ["answers", last, member],
      "restricts the last entry, which is that of all other agents: expected an entry without models and layers at the end",
    ));
  }
  if (arrivals.process === "poisson" && arrivals.per_second === undefined) {
    found.push(
      findingAt(
        ["arrivals", "per_second"],
        "is missing: poisson needs the mean number of questions a second",
      ),
    );
  }
  if (arrivals.process !== "poisson" && arrivals.per_second !== undefined) {
    found.push(
      findingAt(["arrivals", "per_second"], `is of poisson alone, and the process is "${arrivals.process}"`),
    );
  }
  return found;
}

function lengthRules(
  { median, sigma, quantiles }: WorkloadShape["question"],
  path: readonly (string | number)[],
): ConfigFinding[] {
  if (quantiles === undefined) {
    return ([["median", median], ["sigma", sigma]] as const).filter(([, value]) => value === undefined).map((
      [name],
    ) => findingAt([...path, name], "is missing: expected median and sigma, or quantiles"));
  }
  const given = median !== undefined ? "median" : sigma !== undefined ? "sigma" : undefined;
  if (given !== undefined) {
    return [findingAt([...path, given], "stands beside quantiles: expected median and sigma, or quantiles")];
  }
  const unordered = quantiles.findIndex(([share, tokens], at) => {
    const [lower, shorter] = quantiles[at - 1] ?? [0, 0];
    return share <= lower || tokens < shorter;
  });
  return unordered < 0 ? [] : [
    findingAt(
      [...path, "quantiles", unordered],
      "is not above the one before it: expected rising shares and lengths",
    ),
  ];
}
