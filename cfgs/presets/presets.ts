import embedded31 from "./embedded-3-1.jsonc" with { type: "text" };
import embedded931 from "./embedded-9-3-1.jsonc" with { type: "text" };
import laboratory from "./laboratory.jsonc" with { type: "text" };
import fasterMoa from "./faster-moa.jsonc" with { type: "text" };
import fasterMoaModes from "./faster-moa-modes.jsonc" with { type: "text" };
import launch1Gpu from "./launch-1-gpu.jsonc" with { type: "text" };
import launch2GpusPd from "./launch-2-gpus-pd.jsonc" with { type: "text" };
import launch2GpusVllm from "./launch-2-gpus-vllm.jsonc" with { type: "text" };
import launch6GpusPd from "./launch-6-gpus-pd.jsonc" with { type: "text" };
import moa931 from "./moa-9-3-1.jsonc" with { type: "text" };
import moa931Consensus from "./moa-9-3-1-consensus.jsonc" with { type: "text" };
import moa991Dense from "./moa-9-9-1-dense.jsonc" with { type: "text" };
import moaVllmExample from "./moa-vllm-example.jsonc" with { type: "text" };
import ollama31 from "./ollama-3-1.jsonc" with { type: "text" };
import singleModel931 from "./single-model-9-3-1.jsonc" with { type: "text" };

// Text imports put the files into the binaries of both runtimes.
const presets: Readonly<Record<string, string>> = {
  "moa-9-3-1": moa931,
  "moa-9-3-1-consensus": moa931Consensus,
  "moa-9-9-1-dense": moa991Dense,
  "single-model-9-3-1": singleModel931,
  "moa-vllm-example": moaVllmExample,
  "ollama-3-1": ollama31,
  "embedded-3-1": embedded31,
  "embedded-9-3-1": embedded931,
  "laboratory": laboratory,
  "faster-moa": fasterMoa,
  "faster-moa-modes": fasterMoaModes,
  "launch-1-gpu": launch1Gpu,
  "launch-2-gpus-vllm": launch2GpusVllm,
  "launch-2-gpus-pd": launch2GpusPd,
  "launch-6-gpus-pd": launch6GpusPd,
};

/** The configurations that come with Canopy. */
export const presetNames: readonly string[] = Object.keys(presets);

/** The text of a preset; undefined when there is none of this name. */
export function presetText(name: string): string | undefined {
  return Object.hasOwn(presets, name) ? presets[name] : undefined;
}
