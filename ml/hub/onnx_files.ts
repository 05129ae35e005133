import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CanopyError } from "../../base/errors.ts";
import { isFolder, isHubId, snapshotFolder } from "./cache.ts";
import { type Environment, hubCache } from "./environment.ts";
import { shippedFolder } from "./shipped_models.ts";

/** An exported model on this machine. */
export interface OnnxFiles {
  /** With `tokenizer.json`. */
  readonly folder: string;
  /** The `.onnx` file; weights outside of it lie beside it. */
  readonly path: string;
}

/** Name of an export. */
export interface OnnxSource {
  /** Folder, Hub id, or a model that comes with the program. */
  readonly model: string;
  readonly revision: string;
  /** Inside the folder. */
  readonly file?: string | undefined;
}

/** Use of a model: texts are embedded in one go each, answers are generated token by token. */
export type OnnxUse = "embed" | "generate";

/**
 * Names under which exports are published, the one that a CPU runs fastest first (`deno task bench:embedded-exports`);
 * of 8 bits the unsigned ones, whose products are right on every CPU. 8 bits are ahead in both. For one go each 4 bits save memory and no time, and 16 bits gain nothing; what is generated
 * needs all weights for each token, so that fewer bits come out ahead. NF4 (bnb4) is slow in both.
 */
export const ONNX_FILE_NAMES: Readonly<Record<OnnxUse, readonly string[]>> = {
  embed: [
    "model_uint8.onnx",
    "model_quantized.onnx",
    "model_int8.onnx",
    "model.onnx",
    "model_q4.onnx",
    "model_bnb4.onnx",
    "model_q4f16.onnx",
    "model_fp16.onnx",
  ],
  generate: [
    "model_uint8.onnx",
    "model_quantized.onnx",
    "model_int8.onnx",
    "model_q4.onnx",
    "model_q4f16.onnx",
    "model.onnx",
    "model_fp16.onnx",
    "model_bnb4.onnx",
  ],
};

/** Use of an export, and the setting of its file, for error messages. */
export interface OnnxPurpose {
  readonly verb: OnnxUse;
  /** Such as `scorer.file`. */
  readonly setting: string;
}

/**
 * Finds a model's files in its folder, in the program, or in the Hub's cache (`HF_HUB_CACHE`, `HF_HOME`); undefined when
 * they are not there. Throws 500 `weights_unavailable` when the folder or snapshot is there, but not the file.
 */
export async function findExport(
  source: OnnxSource,
  env: Environment,
  purpose: OnnxPurpose,
): Promise<OnnxFiles | undefined> {
  const folder = await folderOf(source, env);
  if (folder === undefined) return undefined;
  const names = source.file === undefined ? await candidates(folder, purpose.verb) : [source.file];
  for (const name of names) {
    const path = join(folder, name);
    if (await isFile(path)) return { folder: await tokenizerFolder(folder, path), path };
  }
  throw new CanopyError(
    `Cannot ${purpose.verb} with ${source.model}: ${folder} has no ${source.file ?? "ONNX file"}; ` +
      `run \`canopy models pull\`, or set ${purpose.setting} to a file that is there`,
    { code: "weights_unavailable", status: 500 },
  );
}

/** The model's folder, the one that comes with the program, or its snapshot in the cache. */
async function folderOf({ model, revision }: OnnxSource, env: Environment): Promise<string | undefined> {
  if (await isFolder(model)) return model;
  const shipped = await shippedFolder(model);
  if (shipped !== undefined) return shipped;
  return isHubId(model) ? await snapshotFolder(hubCache(env), model, revision) : undefined;
}

/** Known names, in `onnx/` and in the folder itself; then what else there is, if it is one. */
async function candidates(folder: string, use: OnnxUse): Promise<string[]> {
  const known = ONNX_FILE_NAMES[use].flatMap((name) => [join("onnx", name), name]);
  const inside = await readdir(join(folder, "onnx")).catch(() => []);
  const all = [...await readdir(folder), ...inside.map((name) => join("onnx", name))];
  const others = all.filter((name) => name.endsWith(".onnx"));
  return others.length === 1 ? [...known, ...others] : known;
}

/** The tokenizer lies beside the file, or at the top. */
async function tokenizerFolder(folder: string, path: string): Promise<string> {
  return await isFile(join(dirname(path), "tokenizer.json")) ? dirname(path) : folder;
}

async function isFile(path: string): Promise<boolean> {
  return await stat(path).then((found) => found.isFile(), () => false);
}

/** Description of a model for traces: its file, and the type of its weights as far as the name tells. */
export function describeFile(path: string): { file: string; weights: string } {
  const file = basename(path);
  const type = /_(int8|uint8|q4f16|q4|bnb4|fp16|quantized)\b/.exec(file)?.[1];
  return { file, weights: type === "quantized" ? "int8" : type ?? "as exported" };
}
