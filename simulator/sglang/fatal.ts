import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import type { Backend } from "../server/backend.ts";

/** True for prompts with ids outside the vocabulary: whoever computes them, dies. */
export function killsScheduler(prompts: readonly (readonly number[])[], backend: Backend): boolean {
  const { vocabSize } = backend.tokenizer;
  return backend.pd?.role !== "decode" &&
    prompts.some((prompt) => prompt.some((id) => id < 0 || id >= vocabSize));
}

/** True for prefill servers from 0.5.10 until mid-2026 that break when they tell alternatives of their one token. */
export function breaksOnTopLogprobs(backend: Backend): boolean {
  const version = versionNumber(backend.version);
  return backend.pd?.role === "prefill" && version >= SGLANG.errorEvents && version < SGLANG.legsNotify;
}
