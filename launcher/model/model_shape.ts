import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { knownModelConfig } from "./known_models.ts";
import { type ModelFacts, parseModelConfig } from "./model_config.ts";
import { kvBytesPerTokenOf, weightBytesOf } from "./model_weights.ts";
import { HubError } from "../../ml/hub/client.ts";
import { type ModelFiles, type ModelFilesOptions, openModelFiles } from "../../ml/hub/model_files.ts";

/** Sizes of a model, computed from its config and weight files. */
export interface ModelShape {
  /** Hub id or folder. */
  readonly model: string;
  readonly weightBytes: number;
  /** Bytes of keys and values of one token, over all layers, in the cache's type. */
  readonly kvBytesPerToken: number;
  readonly layers: number;
  readonly hiddenSize: number;
  readonly attentionHeads: number;
  readonly kvHeads: number;
  readonly vocabSize: number;
  /** Such as bf16, fp8, awq. */
  readonly weightType: string;
  /** Longest context that the model was made for. */
  readonly maxContextTokens: number;
  /** Place where this was read, for people. */
  readonly source: string;
}

/** Way to a model's files. */
export type ModelShapeOptions = ModelFilesOptions & {
  /** Type of keys and values in the cache. */
  readonly kvCacheType?: "auto" | "fp8";
};

/**
 * Reads what a model needs: from a folder, from the Hub's cache on this machine, from the Hub, or, for the models of
 * the presets where the Hub does not answer, from what Canopy knows of them.
 * Throws 400 `model_not_found`, `model_gated` or `model_unknown_shape`, and 502 `hub_unreachable`.
 */
export async function modelShape(model: string, options: ModelShapeOptions): Promise<ModelShape> {
  let files: ModelFiles;
  let config: JsonObject | undefined;
  try {
    files = await openModelFiles(model, options);
    config = await readJson(files, "config.json");
  } catch (error) {
    const known = isAbsence(error) ? undefined : knownModelConfig(model);
    if (known === undefined) throw explained(model, error);
    return shapeOf(model, { config: known, source: "known to Canopy", kvCacheType: options.kvCacheType });
  }
  if (config === undefined) {
    throw failure(
      "model_not_found",
      `Cannot plan "${model}": ${files.place} has no config.json for it: give the Hub id or the folder of a model ` +
        `with safetensors weights`,
    );
  }
  const storedBytes = await bytesOfWeights(files).catch((error: unknown) => {
    throw explained(model, error);
  });
  return shapeOf(model, { config, storedBytes, source: files.place, kvCacheType: options.kvCacheType });
}

/** Facts that a model's shape is computed from. */
export interface ShapeFacts {
  /** Content of its config.json. */
  readonly config: JsonObject;
  /** Bytes of its weight files; undefined: counted from the config. */
  readonly storedBytes?: number | undefined;
  /** Place where this was read, for people. */
  readonly source: string;
  readonly kvCacheType?: "auto" | "fp8" | undefined;
}

/** The shape of a model. Throws 400 `model_unknown_shape` when its config lacks the sizes of a language model. */
export function shapeOf(
  model: string,
  { config, storedBytes, source, kvCacheType = "auto" }: ShapeFacts,
): ModelShape {
  const facts = parseModelConfig(config);
  if (facts === undefined) {
    throw failure(
      "model_unknown_shape",
      `Cannot plan "${model}": its config.json (${source}) does not have the sizes of a language model, such as ` +
        `num_hidden_layers: start this engine yourself and name it under \`workers\``,
    );
  }
  return {
    model,
    weightBytes: storedBytes === undefined ? weightBytesOf(facts) : loadedBytes(facts, storedBytes),
    kvBytesPerToken: kvBytesPerTokenOf(facts, kvCacheType),
    layers: facts.layers,
    hiddenSize: facts.hiddenSize,
    attentionHeads: facts.attentionHeads,
    kvHeads: facts.kvHeads,
    vocabSize: facts.vocabSize,
    weightType: facts.weightType,
    maxContextTokens: facts.maxContextTokens,
    source,
  };
}

/** Engines load 32-bit weights as 16-bit ones. */
function loadedBytes(facts: ModelFacts, storedBytes: number): number {
  return Math.round(storedBytes * 16 / facts.storedBits);
}

/** Bytes of the safetensors files; undefined when they cannot be told without fetching them. */
async function bytesOfWeights(files: ModelFiles): Promise<number | undefined> {
  const index = await readJson(files, "model.safetensors.index.json");
  const metadata = index?.["metadata"];
  if (isJsonObject(metadata) && typeof metadata["total_size"] === "number") return metadata["total_size"];
  return await files.size("model.safetensors");
}

async function readJson(files: ModelFiles, name: string): Promise<JsonObject | undefined> {
  const text = await files.read(name);
  if (text === undefined) return undefined;
  const value: unknown = JSON.parse(text);
  if (!isJsonObject(value)) throw new Error(`its ${name} is not a JSON object`);
  return value;
}

/** True for answers of the Hub that say that there is no such model, or not for everybody. */
function isAbsence(error: unknown): boolean {
  return error instanceof HubError && [401, 403, 404].includes(error.status);
}

function explained(model: string, error: unknown): CanopyError {
  if (error instanceof HubError && isAbsence(error)) {
    if (error.hubCode === "GatedRepo" || error.status === 403) {
      const why = error.hasToken ? "the token in HF_TOKEN has no access to it" : "HF_TOKEN is not set";
      return failure(
        "model_gated",
        `Cannot plan "${model}": its authors give access on request, and ${why}: ask for access on ` +
          `${error.endpoint}/${model.split("@")[0]}, and set HF_TOKEN to a token of your account`,
      );
    }
    return failure(
      "model_not_found",
      `Cannot plan "${model}": ${error.endpoint} has no such model${
        error.hasToken ? "" : " that can be seen without HF_TOKEN"
      }: check its name, or give the folder of its weights as launch.weights`,
    );
  }
  return new CanopyError(
    `Cannot plan "${model}": ${
      messageOf(error)
    }; give the folder of its weights as launch.weights, or fetch them first`,
    { code: "hub_unreachable", status: 502, cause: error },
  );
}

function failure(code: string, message: string): CanopyError {
  return new CanopyError(message, { code, status: 400 });
}
