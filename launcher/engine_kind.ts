/** Program that an engine runs; `sim`: a simulated one, which stands for the engine that the configuration names. */
export type EngineFamily = "sglang" | "vllm" | "sim";

/** Part that an engine has in serving: `whole` serves alone, the others are the halves of a pair. */
export type EngineRole = "whole" | "prefill" | "decode";
