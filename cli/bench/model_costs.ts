import { type ModelCosts, SIZES } from "../../bench/experiments/world.ts";
import type { SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { UsageError } from "../kit/args.ts";
import { costNamed } from "../kit/cost_file.ts";
import type { Io } from "../kit/io.ts";

/** Option that says what recorded models take. */
export const COST_OPTION = {
  type: "list",
  value: "[MODEL=]SIZE|FILE",
  help: `What a model, or each one, takes: ${SIZES.join(", ")} on an H200, or a file of bench calibrate; ` +
    "by default what its name says",
} as const;

/** The same option of experiments on models of the paper's three sizes. */
export const SIZE_COST_OPTION = {
  ...COST_OPTION,
  help:
    `What models of a size (${
      SIZES.join(", ")
    }), or all, take: another size, or a file of bench calibrate; ` +
    "by default what theirs takes on an H200",
} as const;

/** Costs that are not those of a size on an H200. */
export interface CostSettings {
  readonly costs: ModelCosts | undefined;
  /** As they were named, by size. */
  readonly costNames: Readonly<Record<string, string>> | undefined;
}

/** The costs that `SIZE_COST_OPTION` names. Throws `UsageError` for what is no size, and no file. */
export function costSettings(given: readonly string[], io: Pick<Io, "cwd">): CostSettings {
  const named = [...modelCosts(given, SIZES, io)].filter(([size, { text }]) => text !== size);
  if (named.length === 0) return { costs: undefined, costNames: undefined };
  return {
    costs: Object.fromEntries(named.map(([size, { cost }]) => [size, cost])),
    costNames: Object.fromEntries(named.map(([size, { text }]) => [size, text])),
  };
}

/** What a cost model is of: `6 H200 GPUs`, and what stands in the place of some. */
export function hardwareText({ costNames }: Partial<CostSettings>, gpus: string): string {
  const others = Object.entries(costNames ?? {}).map(([size, name]) => `${size} as ${name}`);
  return others.length === 0 ? gpus : `${gpus}, but ${others.join(", ")} (--cost)`;
}

/** Costs as they were given, by model; "" is all others. Throws `UsageError` for what is no size, no file and no model. */
export function givenCosts(
  given: readonly string[],
  models: readonly string[],
  io: Pick<Io, "cwd">,
): Map<string, NamedCost> {
  return new Map(given.map((text): [string, NamedCost] => {
    const [, model = "", name = ""] = /^(?:(.*)=)?([^=]*)$/.exec(text) ?? [];
    if (model !== "" && !models.includes(model)) {
      throw new UsageError(
        `Option --cost names "${model}", which is no model here; there are ${models.join(", ")}`,
      );
    }
    return [model, { text: name, cost: costNamed(name, SIZES, io) }];
  }));
}

/** Costs by the models that there are. Throws `UsageError` for a model of which nothing is known. */
export function modelCosts(
  given: readonly string[],
  models: readonly string[],
  io: Pick<Io, "cwd">,
): Map<string, NamedCost> {
  const written = givenCosts(given, models, io);
  const all = models.map((model) => ({
    model,
    cost: written.get(model) ?? written.get("") ?? sizeIn(model),
  }));
  const unknown = all.filter(({ cost }) => cost === undefined).map(({ model }) => model);
  if (unknown.length > 0) {
    throw new UsageError(
      `Nothing says what ${unknown.join(", ")} takes: add --cost ${
        unknown[0]
      }=SIZE, or --cost SIZE for all ` +
        `(${SIZES.join(", ")}, or a file of canopy bench calibrate)`,
    );
  }
  return new Map(all.flatMap(({ model, cost }) => cost === undefined ? [] : [[model, cost]]));
}

/** A cost and how it was named. */
export interface NamedCost {
  readonly text: string;
  readonly cost: SimulatorOptions["cost"];
}

/** The size that a name says, such as that of Qwen3-8B. */
export function sizeIn(model: string): NamedCost | undefined {
  const size = SIZES.find((one) => new RegExp(`(^|[^0-9.])${one}($|[^a-z0-9])`, "i").test(model));
  return size === undefined ? undefined : { text: size, cost: size };
}
