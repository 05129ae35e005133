import type { Sampling } from "../../engines/engine.ts";
import type { RunInput } from "../graph/run_input.ts";
import type { PanelAnswer } from "./panel.ts";

/**
 * A reason why the root must be asked whatever the others agree on: the request wants what only a call of its own can
 * give (choices, log-probabilities, tools, a response format, …). What only says how tokens are drawn (temperature,
 * seed, …) is no reason.
 */
export function rootNeededFor(input: RunInput, { extra = {} }: Sampling): string | undefined {
  if (input.choices > 1) return `the request asks for ${input.choices} choices`;
  if (input.rootLogprobs !== undefined) return "the request asks for log-probabilities";
  const [field] = Object.keys(extra);
  return field === undefined ? undefined : `the root has a parameter ${field.slice(0, 60)}`;
}

/** A reason why an agent's answer cannot be given in place of the root's; undefined when it can. */
export function whyNotGiven(
  { agent, text, cut, tokens }: Pick<PanelAnswer, "agent" | "text" | "cut" | "tokens">,
  { max_tokens = Infinity, stop = [] }: Sampling,
): string | undefined {
  if (text === "") return `agent ${agent} has no answer`;
  if (cut) return `the answer of ${agent} was cut`;
  if (tokens > max_tokens) return `the answer has ${tokens} tokens, more than max_tokens`;
  if (stop.some((one) => text.includes(one))) return "the answer holds a stop string";
  return undefined;
}
