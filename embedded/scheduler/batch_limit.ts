import { readdir, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Decoder } from "../model/decoder.ts";

/**
 * Bytes of keys and values that a sequence may have for each byte of weights, to be computed together with others whose
 * cache is copied in each step: beyond that less is gained than the way in and out costs. docs/decisions.md has figures.
 */
const CACHE_PER_WEIGHT = 0.15;

/** Tokens of the longest sequence that is computed together with others; 0: each is computed by itself. */
export function longestBatched(
  { batches, growth, bytesPerToken }: Pick<Decoder, "batches" | "growth" | "bytesPerToken">,
  weightBytes: number,
): number {
  if (!batches) return 0;
  return growth === "appends" ? Infinity : Math.floor(CACHE_PER_WEIGHT * weightBytes / bytesPerToken);
}

/** Bytes of a model: of its `.onnx` file and of those beside it that have its weights (`model.onnx_data`, …). */
export async function weightBytes(path: string): Promise<number> {
  const [folder, name] = [dirname(path), basename(path)];
  const files = (await readdir(folder)).filter((file) => file.startsWith(name));
  const sizes = await Promise.all(files.map(async (file) => (await stat(join(folder, file))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}
