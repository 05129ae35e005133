import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Decoder } from "./decoder.ts";

/**
 * Bytes of keys and values that a step of several sequences may read for each byte of weights, which it reads once for
 * all of them. Beyond that it gains nothing, or loses: docs/decisions.md has the measurements.
 */
const CACHE_PER_WEIGHT = { copies: 0.5, appends: 2 };

/** Tokens whose keys and values a step of several sequences may read; 0: it computes one sequence at a time. */
export function batchTokens(
  { batches, growth, bytesPerToken }: Pick<Decoder, "batches" | "growth" | "bytesPerToken">,
  weightBytes: number,
): number {
  return batches ? Math.floor(CACHE_PER_WEIGHT[growth] * weightBytes / bytesPerToken) : 0;
}

/** Bytes of a model: of its `.onnx` file and of those beside it that have its weights (`model.onnx_data`, …). */
export async function weightBytes(path: string): Promise<number> {
  const [folder, name] = [dirname(path), basename(path)];
  const files = (await readdir(folder)).filter((file) => file.startsWith(name));
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
