import { z } from "zod";
import type { CostParameters } from "./cost.ts";

const ms = z.number().nonnegative();

/** A cost file: parameters of an engine's cost with where they are from. Durations in ms. */
const costFileSchema = z.strictObject({
  format: z.literal("canopy-cost/1"),
  prefill: z.strictObject({
    fixed_ms: ms,
    ms_per_token: ms,
    ms_per_pair_of_tokens: ms,
    bend: z.number().min(1),
  }),
  decode: z.strictObject({ fixed_ms: ms, ms_per_sequence: ms, ms_per_context_token: ms }),
  request_ms: ms,
  step_ms: ms,
  sequence_ms: ms,
  kv_tokens: z.int().positive(),
  kv_bytes_per_token: z.number().nonnegative(),
  provenance: z.looseObject({}).optional(),
});

/** Contents of a cost file. */
export type CostFile = z.input<typeof costFileSchema>;

/** Reads a cost file. Throws an `Error` that says in one sentence what is wrong with it. */
export function readCostFile(text: string): CostParameters {
  const { data, error } = costFileSchema.safeParse(JSON.parse(text));
  if (data === undefined) {
    const [issue] = error?.issues ?? [];
    const place = issue === undefined || issue.path.length === 0 ? "it" : issue.path.join(".");
    throw new Error(
      `${place} is not as canopy bench calibrate writes it: ${issue?.message ?? "no cost file"}`,
    );
  }
  const { prefill, decode } = data;
  return {
    f: prefill.fixed_ms,
    b: prefill.ms_per_token,
    d: prefill.ms_per_pair_of_tokens,
    q: prefill.bend,
    d0: decode.fixed_ms,
    d1: decode.ms_per_sequence,
    d2: decode.ms_per_context_token,
    requestMs: data.request_ms,
    stepMs: data.step_ms,
    sequenceMs: data.sequence_ms,
    kvTokens: data.kv_tokens,
    kvBytes: data.kv_bytes_per_token,
  };
}

/** Parameters as a cost file has them. */
export function costFileOf(cost: CostParameters, provenance: Readonly<Record<string, unknown>>): CostFile {
  return {
    format: "canopy-cost/1",
    prefill: {
      fixed_ms: cost.f,
      ms_per_token: cost.b,
      ms_per_pair_of_tokens: cost.d,
      bend: cost.q,
    },
    decode: { fixed_ms: cost.d0, ms_per_sequence: cost.d1, ms_per_context_token: cost.d2 },
    request_ms: cost.requestMs,
    step_ms: cost.stepMs,
    sequence_ms: cost.sequenceMs,
    kv_tokens: cost.kvTokens,
    kv_bytes_per_token: cost.kvBytes,
    provenance,
  };
}
