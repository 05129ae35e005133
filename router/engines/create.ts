import type { Engine } from "./engine.ts";
import type { EngineOptions } from "./protocol/engine_options.ts";
import { OpenAiEngine } from "./openai/openai.ts";
import { SglangEngine } from "./sglang/sglang.ts";
import { SglangPdEngine } from "./sglang/sglang_pd.ts";
import { VllmEngine } from "./vllm/vllm.ts";
import { VllmPdEngine } from "./vllm/vllm_pd.ts";

/** The engine of a model's protocol family. */
export function createEngine(options: EngineOptions): Engine {
  switch (options.config.engine) {
    case "openai":
      return new OpenAiEngine(options);
    case "vllm":
    // Embedded models speak it, too.
    case "onnx":
      return new VllmEngine(options);
    case "vllm-pd":
      return new VllmPdEngine(options);
    case "sglang":
      return new SglangEngine(options);
    case "sglang-pd":
      return new SglangPdEngine(options);
  }
}
