import type { Config, PromptConfig } from "../schema/config.ts";

/** The synthesis instruction of Mixture-of-Agents (togethercomputer/MoA, Apache-2.0). */
const SYNTHESIS =
  "You have been provided with a set of responses from various open-source models to the latest " +
  "user query. Your task is to synthesize these responses into a single, high-quality response. It is crucial to " +
  "critically evaluate the information provided in these responses, recognizing that some of it may be biased or " +
  "incorrect. Your response should not simply replicate the given answers but should offer a refined, accurate, " +
  "and comprehensive reply to the instruction. Ensure your response is well-structured, coherent, and adheres to " +
  "the highest standards of accuracy and reliability.";

/**
 * The prompts that every configuration knows; `prompts` in a config wins over them.
 *
 * The conversation and the fixed instruction stand first and the responses follow in slot order, so that everything
 * up to the first unfinished response is a stable prefix that an engine can prefill, and a conversation's earlier
 * turns stay in its cache. The conversation itself is never rewritten.
 */
export const builtinPrompts: Readonly<Record<string, PromptConfig>> = {
  /** The client's conversation as it is. */
  propose: { responses: { item: "[index]. [answer]", separator: "\n\n" } },
  /** The reference implementation's words and numbering, behind the question instead of before it. */
  aggregate: {
    append: `${SYNTHESIS}\n\nResponses from models:\n[responses]`,
    responses: { item: "[index]. [answer]", separator: "\n" },
  },
  /** The same for the last agent, whose text is what the user reads. */
  synthesize: {
    append:
      `${SYNTHESIS} Answer the user directly and in the form that the user asked for: do not mention the ` +
      `responses, their number, or that they exist.\n\nResponses from models:\n[responses]`,
    responses: { item: "[index]. [answer]", separator: "\n" },
  },
  /** For the model that writes up what others agree on: the answer is settled, only its words are not. */
  rewrite: {
    append:
      "Other models have solved this, and agree on the answer. Write their solution up for the user: clear, complete, " +
      "in the form that the user asked for, without mentioning the solutions or that they exist. Do not solve it " +
      "anew: keep their final answer exactly, and announce it at the end in the words in which they announce it." +
      "\n\nSolutions:\n[responses]",
    responses: { item: "[index]. [answer]", separator: "\n\n" },
  },
};

/** A prompt by name; undefined when neither the config nor Canopy has it. */
export function promptNamed(config: Pick<Config, "prompts">, name: string): PromptConfig | undefined {
  if (Object.hasOwn(config.prompts, name)) return config.prompts[name];
  return Object.hasOwn(builtinPrompts, name) ? builtinPrompts[name] : undefined;
}
