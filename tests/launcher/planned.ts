import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import type { HostGpus } from "../../launcher/host/gpu.ts";
import { recordedGpus } from "../../launcher/host/gpus_described.ts";
import { nothingKnown } from "../../launcher/host/installed.ts";
import { allPortsFree } from "../../launcher/host/ports.ts";
import { knownModelConfig } from "../../launcher/model/known_models.ts";
import { type ModelShape, shapeOf } from "../../launcher/model/model_shape.ts";
import type { LaunchPlan } from "../../launcher/plan/launch_plan.ts";
import { makePlan } from "../../launcher/plan/make_plan.ts";
import type { PlanOptions } from "../../launcher/plan/plan_options.ts";

const folder = fileURLToPath(new URL("../fixtures/launcher/", import.meta.url));

/** The text of a fixture. */
export function fixture(name: string): string {
  return readFileSync(folder + name, "utf8");
}

/** A recorded host. */
export function recorded(name: string): HostGpus {
  return recordedGpus(fixture(name), name);
}

/** A config.json of the fixtures. */
export function modelConfig(model: string): JsonObject {
  const all: unknown = JSON.parse(fixture("model_configs.json"));
  const found = isJsonObject(all) ? all[model] : undefined;
  if (!isJsonObject(found)) throw new Error(`No fixture has the config of ${model}`);
  return found;
}

/** What a model of the fixtures, or one that Canopy knows, needs. */
export function fixtureShape(model: string, kvCacheType: "auto" | "fp8" = "auto"): ModelShape {
  const config = knownModelConfig(model) ?? modelConfig(model);
  return shapeOf(model, { config, source: "fixture", kvCacheType });
}

/** A configuration from its text, or a preset by its name. */
export function configOf(preset: string | JsonObject, env: Readonly<Record<string, string>> = {}): Config {
  const source = typeof preset === "string" ? { path: preset } : { value: preset, path: "test.json" };
  return loadCheckedConfig({ ...source, env }).config;
}

/** A plan on a recorded host, where all ports are free and nothing is installed. */
export async function planned(
  config: Config,
  host: HostGpus,
  options: Partial<PlanOptions> = {},
): Promise<LaunchPlan> {
  return await makePlan(config, {
    host,
    engine: undefined,
    basePort: undefined,
    dtype: undefined,
    contextTokens: undefined,
    canopy: ["canopy"],
    shapeOf: (model, kvCacheType) => Promise.resolve(fixtureShape(model, kvCacheType)),
    installedFor: () => Promise.resolve(nothingKnown),
    probe: allPortsFree,
    env: { HF_HOME: "/cache" },
    isolated: false,
    severalHosts: false,
    ...options,
  });
}
