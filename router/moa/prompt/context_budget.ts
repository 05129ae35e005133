import { badRequest } from "../../../base/errors.ts";
import { contextTokensOf, type PromptTarget, type RunPrompts } from "./run_prompts.ts";

/** Tokens that a chat template may add around the messages, generously. */
const TEMPLATE_TOKENS = 2048;
/** A UTF-16 code unit is at most three bytes of UTF-8, and a token at least one. */
const MAX_TOKENS_PER_CHARACTER = 3;

/**
 * Refuses a request that cannot fit an agent's context: its prompt, the longest answers of its precursors and its own
 * longest answer together. Only agents whose model's tokenizer and context are known can be checked; an answer
 * without `max_tokens` counts as one token. A promise where the prompt is so long that a thread counts. Throws 400 `context_length_exceeded`.
 */
export function checkContext(
  { node, sampling, served }: PromptTarget,
  prompts: RunPrompts,
): Promise<void> | undefined {
  const contextTokens = contextTokensOf(served);
  if (contextTokens === undefined || served.tokenizer === undefined) return undefined;
  const own = sampling.max_tokens ?? 1;
  let precursors = 0;
  for (const cluster of node.reads) {
    for (const agent of cluster.agents) precursors += agent.sampling.max_tokens ?? 1;
  }
  // Most requests are so short that nothing need be tokenised to know that they fit.
  if (prompts.length(node) * MAX_TOKENS_PER_CHARACTER + TEMPLATE_TOKENS + precursors + own <= contextTokens) {
    return undefined;
  }
  const field = prompts.fieldOf(node);
  const check = (promptTokens: number): void => {
    const needed = promptTokens + precursors + own;
    if (needed <= contextTokens) return;
    throw badRequest(
      field,
      `Cannot answer: agent ${node.id} (model ${node.model}) has a context of ${contextTokens} tokens and would ` +
        `need ${needed}: ${promptTokens} for ${field} and its own instructions, ${precursors} for the answers that ` +
        `it reads and ${own} for its own; shorten ${field} or lower max_tokens`,
      "context_length_exceeded",
    );
  };
  const promptTokens = prompts.countTokens({ node, sampling, served });
  if (promptTokens instanceof Promise) return promptTokens.then(check);
  if (promptTokens !== undefined) check(promptTokens);
  return undefined;
}
