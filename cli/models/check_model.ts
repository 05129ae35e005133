import { writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { Decoder } from "../../embedded/model/decoder.ts";
import { findExport, type OnnxFiles, type OnnxSource } from "../../ml/hub/onnx_files.ts";
import {
  CHECK_FILE,
  CHECK_TEXTS,
  type CheckedModel,
  checkNumbers,
  FLOAT_FILES,
  recordNumbers,
  wrongNumbers,
} from "../../ml/onnx/check_numbers.ts";
import { PRODUCTS_TEXTS } from "../../ml/onnx/products.ts";
import { loadOnnxRuntime, type OnnxRuntime } from "../../ml/onnx/runtime.ts";
import { loadTokenizer } from "../../ml/tokenizers/hf_tokenizer.ts";
import { EmbeddingTokenizer } from "../../scorer/embedders/embedding_tokenizer.ts";
import { EmbeddingModel } from "../../scorer/onnx/embedding_model.ts";
import type { Io } from "../kit/io.ts";

/** Outcome of `checkModel`. */
export interface CheckedExport {
  readonly ok: boolean;
  /** The file, its arithmetic and what its numbers were compared with, or what is wrong. */
  readonly text: string;
}

/** Loads an export and compares its numbers with recorded ones, or with those of floats that lie beside it. */
export async function checkModel(source: OnnxSource, io: Io): Promise<CheckedExport> {
  const files = await found(source, io);
  const runtime = await loadOnnxRuntime();
  const model = await open(runtime, files.path);
  try {
    const file = basename(files.path);
    const check = await checkNumbers({
      folder: files.folder,
      path: files.path,
      model,
      texts: await textsFor(model, files, io),
      open: (path) => open(runtime, path),
    });
    const { products, cpu } = model.arithmetic;
    const head = `${file}: ${PRODUCTS_TEXTS[products]}, on ${cpu}`;
    if (check === undefined) {
      const text = `${head}; there is nothing to compare its numbers with: run canopy models record ` +
        `${source.model} where its file of floats is`;
      return { ok: products !== "saturating", text };
    }
    const wrong = wrongNumbers(file, check, "onnx.file or scorer.file");
    if (wrong !== undefined) return { ok: false, text: `${head}; ${wrong}` };
    return { ok: true, text: `${head}; correlation ${check.agreement.toFixed(3)} with ${check.against}` };
  } finally {
    await model.close();
  }
}

/**
 * Writes the numbers of an export into its model's folder: of `source.file`, else of the model's floats. Gives the path
 * of what was written. Throws 500 `weights_unavailable` where there are no floats.
 */
export async function recordModel(source: OnnxSource, io: Io): Promise<string> {
  const files = source.file === undefined ? await foundFloats(source, io) : await found(source, io);
  const model = await open(await loadOnnxRuntime(), files.path);
  try {
    const recorded = await recordNumbers(basename(files.path), model, await textsFor(model, files, io));
    const path = join(files.folder, CHECK_FILE);
    await writeFile(path, `${JSON.stringify(recorded)}\n`).catch((cause: unknown) => {
      throw new CanopyError(`Cannot write ${path}: ${messageOf(cause)}`, {
        code: "cannot_write",
        status: 500,
        cause,
      });
    });
    return path;
  } finally {
    await model.close();
  }
}

async function found(source: OnnxSource, { env }: Io): Promise<OnnxFiles> {
  const files = await findExport(source, env, { verb: "generate", setting: "--file" });
  if (files !== undefined) return files;
  throw new CanopyError(
    `The weights of ${source.model} are not on this machine: run canopy models pull ${source.model}, or give a folder`,
    { code: "weights_unavailable", status: 500 },
  );
}

async function foundFloats(source: OnnxSource, io: Io): Promise<OnnxFiles> {
  const first = await found(source, io);
  for (const name of FLOAT_FILES) {
    const inside = dirname(first.path).endsWith("onnx") ? `onnx/${name}` : name;
    const files = await found({ ...source, file: inside }, io).catch(() => undefined);
    if (files !== undefined) return files;
  }
  throw new CanopyError(
    `${source.model} has no file of floats on this machine (${FLOAT_FILES.join(", ")}): fetch it with ` +
      `canopy models pull ${source.model} --file onnx/${FLOAT_FILES[0]}, or name another one with --file`,
    { code: "weights_unavailable", status: 500 },
  );
}

/** A decoder, or else an embedding model. */
async function open(runtime: OnnxRuntime, path: string): Promise<CheckedModel> {
  try {
    return await Decoder.open(runtime, path, 1);
  } catch (error) {
    if (!CanopyError.is(error) || error.code !== "unsupported_export") throw error;
    return await EmbeddingModel.open(runtime, path, 1);
  }
}

async function textsFor(
  model: CheckedModel,
  { folder }: OnnxFiles,
  { transport, stop, env }: Io,
): Promise<number[][]> {
  if (model instanceof Decoder) {
    const tokenizer = await loadTokenizer(folder, { transport, signal: stop, env });
    return CHECK_TEXTS.map((text) => [...tokenizer.encode(text)]);
  }
  const tokenizer = await EmbeddingTokenizer.load(folder);
  return CHECK_TEXTS.map((text) => tokenizer.encodeWhole(text));
}
