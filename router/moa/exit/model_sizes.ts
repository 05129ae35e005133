import type { ModelConfig } from "../../../cfgs/schema/config.ts";

/**
 * Parameters of a model in billions, read from its name: 4 of `Qwen/Qwen3-VL-4B-Instruct`, 0.27 of `gemma-3-270m`, 56
 * of `Mixtral-8x7B`, 235 of `Qwen3-235B-A22B`. Undefined where the name does not tell.
 */
export function billionParameters(name: string): number | undefined {
  const match = /(?<![a-z0-9.])(?:(\d+)x)?(\d+(?:\.\d+)?)([bm])(?![a-z0-9])/i.exec(name.slice(0, 512));
  if (match === null) return undefined;
  const [, experts = "1", size = "", unit] = match;
  return Number(experts) * Number(size) / (unit?.toLowerCase() === "m" ? 1000 : 1);
}

/** The smallest of some models by their names, the first of them where no name tells; undefined of none. */
export function smallestModel<Model extends { readonly name: string; readonly config: ModelConfig }>(
  models: readonly Model[],
): Model | undefined {
  let smallest: { readonly model: Model; readonly billions: number } | undefined;
  for (const model of models) {
    const billions = billionParameters(model.config.model) ?? billionParameters(model.name);
    if (billions !== undefined && (smallest === undefined || billions < smallest.billions)) {
      smallest = { model, billions };
    }
  }
  return smallest?.model ?? models[0];
}

/** Keys of models by their names' parameters, the largest first; those whose names do not tell are last. */
export function modelsBySize(
  models: readonly { readonly name: string; readonly config: ModelConfig }[],
): string[] {
  const billions = ({ name, config }: (typeof models)[number]) =>
    billionParameters(config.model) ?? billionParameters(name) ?? 0;
  return [...models].sort((a, b) => billions(b) - billions(a)).map(({ name }) => name);
}
