import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../base/clock.ts";
import type { OnnxAnswer } from "../../../scorer/embedders/onnx_answer.ts";
import { OnnxEmbedder } from "../../../scorer/embedders/onnx_embedder.ts";
import type { OnnxFeatures } from "../../../scorer/embedders/onnx_features.ts";

/** A tiny model in the form of Qwen3-Embedding, with numbers computed by torch; both made by the scripts in there. */
export const modelFolder = fileURLToPath(new URL("../../fixtures/tiny-qwen3-embedding", import.meta.url));

export interface ReferenceText {
  readonly id: string;
  readonly text: string;
  readonly ids: readonly number[];
  readonly ids_plain: readonly number[];
  readonly embedding: readonly number[];
}

export interface ReferencePair {
  readonly a: string;
  readonly b: string;
  readonly fcs: number;
  /** Without the end token's row; null when nothing is left. */
  readonly fcs_text: number | null;
  readonly fcs_u: number;
  readonly fcs_u_text: number | null;
  readonly pooled_cosine: number;
}

export interface Reference {
  readonly texts: readonly ReferenceText[];
  readonly pairs: readonly ReferencePair[];
  readonly truncated: readonly {
    readonly text: string;
    readonly max_tokens: number;
    readonly keep: "first" | "last";
    readonly ids_head: readonly number[];
    readonly ids_tail: readonly number[];
    readonly length: number;
    readonly embedding: readonly number[];
  }[];
}

export const reference: Reference = JSON.parse(readFileSync(`${modelFolder}/reference.json`, "utf8"));

export function referenceText(id: string): string {
  const found = reference.texts.find((text) => text.id === id);
  if (found === undefined) throw new Error(`No text ${id}`);
  return found.text;
}

/** Largest differences from the reference, as its generator states them. */
export interface Tolerances {
  readonly vector: number;
  readonly fcs: number;
  readonly cosine: number;
}

const exact: Tolerances = { vector: 1e-5, fcs: 1e-6, cosine: 1e-5 };

/** The model's files. */
export const exports: readonly { file: string; streams: boolean; tolerances: Tolerances }[] = [
  { file: "model.onnx", streams: false, tolerances: exact },
  { file: "model_kv.onnx", streams: true, tolerances: exact },
  { file: "model_kv_fp16.onnx", streams: true, tolerances: { vector: 2e-2, fcs: 1e-3, cosine: 2e-2 } },
  { file: "model_kv_int8.onnx", streams: true, tolerances: { vector: 0.2, fcs: 2e-2, cosine: 0.12 } },
];

export function openEmbedder(
  file: string,
  options: { span?: "all" | "tail"; maxTokens?: number; maxCachedTokens?: number; folder?: string } = {},
): Promise<OnnxEmbedder> {
  const folder = options.folder ?? modelFolder;
  return OnnxEmbedder.open({
    clock: new SystemClock(),
    files: { folder, path: `${folder}/${file}` },
    model: folder,
    threads: 1,
    span: options.span ?? "all",
    maxTokens: options.maxTokens ?? 4096,
    maxCachedTokens: options.maxCachedTokens ?? 1_000_000,
  });
}

/** Takes the steps that are left. */
export async function finish(answer: OnnxAnswer): Promise<OnnxFeatures> {
  while (true) {
    const features = await answer.finish();
    if (features !== undefined) return features;
  }
}

/** Embeds a text that comes in the given pieces. */
export async function embed(embedder: OnnxEmbedder, pieces: readonly string[]): Promise<OnnxFeatures> {
  const answer = embedder.open();
  for (const piece of pieces) await answer.append(piece);
  const features = await finish(answer);
  answer.close();
  return features;
}

/** The vector divided by its length. */
export function normalised(vector: Float32Array): number[] {
  const norm = Math.hypot(...vector);
  return Array.from(vector, (value) => value / norm);
}

/** Largest difference of two vectors of one length. */
export function distance(a: readonly number[], b: readonly number[]): number {
  return a.length !== b.length ? Infinity : Math.max(...a.map((value, at) => Math.abs(value - b[at]!)));
}
