import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { Environment } from "../../ml/hub/environment.ts";
import { findExport, type OnnxSource } from "../../ml/hub/onnx_files.ts";

/** Context of a model whose configuration names none. */
const USUAL_CONTEXT_TOKENS = 2048;

/** Sampling parameters that a model names in `generation_config.json`, for requests that say nothing of them. */
export interface SamplingDefaults {
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly minP?: number | undefined;
  readonly repetitionPenalty?: number | undefined;
}

/** A decoder's files on this machine, and what they say of it. */
export interface EmbeddedFiles {
  /** The folder of `tokenizer.json`. */
  readonly folder: string;
  /** The `.onnx` file. */
  readonly path: string;
  /** The model's own limit. */
  readonly contextTokens: number;
  /** Ids that end an answer, the first one being the usual end. */
  readonly endIds: readonly number[];
  readonly defaults: SamplingDefaults;
}

/**
 * Finds a decoder in its folder or in the Hub's cache, and reads `config.json` and `generation_config.json`.
 * Throws 500 `weights_unavailable`, saying how to get it.
 */
export async function findModel(source: OnnxSource, env: Environment): Promise<EmbeddedFiles> {
  const { model } = source;
  const files = await findExport(source, env, { verb: "generate", setting: "its onnx.file" });
  if (files === undefined) {
    throw new CanopyError(
      `The weights of ${model} are not on this machine: run \`canopy models pull ${model}\`, or give a folder with them`,
      { code: "weights_unavailable", status: 500 },
    );
  }
  const beside = [files.folder, dirname(files.path), dirname(dirname(files.path))];
  const config = await readFirst(beside, "config.json");
  const generation = await readFirst(beside, "generation_config.json");
  return {
    ...files,
    contextTokens: contextOf(config) ?? USUAL_CONTEXT_TOKENS,
    endIds: endIdsOf(config, generation),
    defaults: defaultsOf(generation),
  };
}

function contextOf(config: JsonObject): number | undefined {
  const value = config["max_position_embeddings"] ?? config["n_positions"];
  return typeof value === "number" && value > 0 ? value : undefined;
}

/** `config.json` has the usual end, `generation_config.json` perhaps others. */
function endIdsOf(config: JsonObject, generation: JsonObject): number[] {
  const ids = [config["eos_token_id"], generation["eos_token_id"]].flat();
  return [...new Set(ids.filter((id) => typeof id === "number"))];
}

function defaultsOf(generation: JsonObject): SamplingDefaults {
  const number = (name: string): number | undefined => {
    const value = generation[name];
    return typeof value === "number" ? value : undefined;
  };
  return {
    temperature: number("temperature"),
    topP: number("top_p"),
    topK: number("top_k"),
    minP: number("min_p"),
    repetitionPenalty: number("repetition_penalty"),
  };
}

function jsonOf(text: string, path: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new CanopyError(
      `Cannot read ${path}: ${messageOf(cause)}; pull the model again, or write it anew`,
      {
        code: "weights_unavailable",
        status: 500,
        cause,
      },
    );
  }
}

async function readFirst(folders: readonly string[], name: string): Promise<JsonObject> {
  for (const folder of folders) {
    const path = join(folder, name);
    let text: string;
    try {
      text = await readFile(path, "utf8");
    } catch {
      continue;
    }
    const value = jsonOf(text, path);
    if (isJsonObject(value)) return value;
  }
  return {};
}
