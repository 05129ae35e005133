import { isJsonObject } from "../../../base/json.ts";
import type { AskedRequest, RunInput } from "../../moa/graph/run_input.ts";

/** Members that say how an answer is delivered; the seed is in a run's sampling. */
const OTHERS = new Set(["stream", "stream_options", "seed", "user", "metadata", "store", "canopy"]);

/** Runs' inputs with the request behind them, in chat's or completions' words: of several prompts each has its own. */
export function withAsked(inputs: readonly RunInput[], { path, body }: AskedRequest): RunInput[] {
  const kept = Object.fromEntries(
    Object.entries(body).filter(([name, value]) => !OTHERS.has(name) && value !== null),
  );
  if (isJsonObject(body["canopy"])) {
    const { include: _, ...canopy } = body["canopy"];
    if (Object.keys(canopy).length > 0) kept["canopy"] = canopy;
  }
  return inputs.map((input) => {
    const { question } = input;
    const asked = question.kind === "text" ? { ...kept, prompt: question.text } : kept;
    return { ...input, asked: { path, body: asked } };
  });
}
