import type { Clock } from "../../../base/clock.ts";
import { badRequest, CanopyError } from "../../../base/errors.ts";
import { turnByTurn } from "../../../base/turns.ts";
import { tokenEnds } from "../../../ml/tokenizers/tokenise.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { AgentAnswer } from "./answer.ts";
import { type CutAnswer, cutAnswers } from "./cut_answers.ts";
import { contextTokensOf, type PromptTarget, type RunPrompts } from "./run_prompts.ts";

/** Tokens that a chat template may add around the messages, generously. */
const TEMPLATE_TOKENS = 2048;
/** A UTF-16 code unit is at most three bytes of UTF-8, and a token at least one. */
const MAX_TOKENS_PER_CHARACTER = 3;
/** Part of a context that answers leave to the agent that reads them, unless its own answer is shorter. */
const OWN_SHARE = 1 / 4;
/** Attempts to cut answers to size: tokens of a text change a little with what stands beside it. */
const MAX_CUTS = 8;

/** A prompt that fits the context of its agent, with what had to be done for that. */
export interface FittedPrompt {
  readonly prompt: Prompt;
  /** With `max_tokens` lowered to what the prompt leaves. */
  readonly sampling: Sampling;
  /** Answers that were cut. */
  readonly cuts: readonly CutAnswer[];
  /** Undefined where the engine tokenises, and for prompts so short that nobody counted. */
  readonly promptTokens: number | undefined;
}

/** Options of `fitContext`. */
export interface FitOptions {
  readonly prompts: RunPrompts;
  /** In slot order. */
  readonly answers: readonly AgentAnswer[];
  readonly onOverflow: AgentGraph["onOverflow"];
  readonly clock: Clock;
}

/** Most tokens of an agent's prompt that leave room for its own answer; Infinity where its context is unknown. */
export function promptLimit({ served, sampling }: Omit<PromptTarget, "node">): number {
  const contextTokens = contextTokensOf(served);
  return contextTokens === undefined ? Infinity : contextTokens - ownTokens(contextTokens, sampling);
}

/**
 * Refuses a request that cannot fit an agent's context whatever its precursors write: its prompt without their answers
 * leaves no room for one token. Only agents whose model's tokenizer and context are known can be checked. A promise where
 * the prompt is so long that a thread counts. Throws 400 `context_length_exceeded`.
 */
export function checkContext(target: PromptTarget, prompts: RunPrompts): Promise<void> | undefined {
  const { node, served } = target;
  const contextTokens = contextTokensOf(served);
  if (contextTokens === undefined || served.tokenizer === undefined) return undefined;
  // Most requests are so short that nothing need be tokenised to know that they fit.
  if (prompts.length(node) * MAX_TOKENS_PER_CHARACTER + TEMPLATE_TOKENS < contextTokens) return undefined;
  const field = prompts.fieldOf(node);
  const check = (promptTokens: number | undefined): void => {
    if (promptTokens === undefined || promptTokens < contextTokens) return;
    throw badRequest(
      field,
      `Cannot answer: agent ${node.id} (model ${node.model}) has a context of ${contextTokens} tokens, and ${field} ` +
        `and its own instructions take ${promptTokens} of them: shorten ${field}`,
      "context_length_exceeded",
    );
  };
  const prompt = prompts.wire(target, []);
  if (prompt instanceof Promise) {
    return prompt.then(async (known) => check(await prompts.countTokens(known, target)));
  }
  const promptTokens = prompts.countTokens(prompt, target);
  if (promptTokens instanceof Promise) return promptTokens.then(check);
  check(promptTokens);
  return undefined;
}

/**
 * An agent's prompt and parameters, fitted to its model's context by what its precursors have really written: answers
 * that are too long together are cut from their middle, the longest first, and `max_tokens` is lowered to what is left.
 * A promise where a thread tokenises. Throws 400 `context_length_exceeded` where nothing may be cut or nothing helps,
 * `invalid_messages` as `wire` does.
 */
export function fitContext(target: PromptTarget, options: FitOptions): FittedPrompt | Promise<FittedPrompt> {
  const { prompts, answers, clock } = options;
  const prompt = prompts.isLong(target.node, answers)
    ? turnByTurn(clock, prompts.wireInTurns(target, answers))
    : prompts.wire(target, answers);
  return prompt instanceof Promise
    ? prompt.then((known) => fitPrompt(known, target, options))
    : fitPrompt(prompt, target, options);
}

function fitPrompt(
  prompt: Prompt,
  target: PromptTarget,
  options: FitOptions,
): FittedPrompt | Promise<FittedPrompt> {
  const { served, sampling } = target;
  const contextTokens = contextTokensOf(served);
  const { tokenizer } = served;
  const whole = { prompt, sampling, cuts: [], promptTokens: undefined };
  if (contextTokens === undefined || tokenizer === undefined || surelyFits(prompt, sampling, contextTokens)) {
    return whole;
  }
  const fit = (promptTokens: number | undefined): FittedPrompt | Promise<FittedPrompt> => {
    if (promptTokens === undefined) return whole;
    const own = ownTokens(contextTokens, sampling);
    return options.answers.length === 0 || promptTokens + own <= contextTokens
      ? { ...whole, sampling: lowered(sampling, contextTokens - promptTokens), promptTokens }
      : cutToFit(target, options, { contextTokens, tokenizer, promptTokens });
  };
  const promptTokens = options.prompts.countTokens(prompt, target);
  return promptTokens instanceof Promise ? promptTokens.then(fit) : fit(promptTokens);
}

async function cutToFit(
  target: PromptTarget,
  { prompts, answers, onOverflow, clock }: FitOptions,
  known: {
    readonly contextTokens: number;
    readonly tokenizer: ModelTokenizer;
    readonly promptTokens: number;
  },
): Promise<FittedPrompt> {
  const { node, sampling } = target;
  const { contextTokens, tokenizer } = known;
  const limit = contextTokens - ownTokens(contextTokens, sampling);
  const tooLong = new CanopyError(
    `Agent ${node.id} (model ${node.model}) cannot read its precursors' answers: its prompt has ${known.promptTokens} ` +
      `tokens, and ${limit} of its context of ${contextTokens} are for it; lower max_tokens of the agents that it ` +
      `reads${
        onOverflow === "refuse" ? ', or set on_overflow to "cut_middle"' : ", or shorten the question"
      }`,
    { code: "context_length_exceeded", status: 400 },
  );
  if (onOverflow === "refuse") throw tooLong;
  const ends = await Promise.all(
    answers.map(({ text }) => tokenEnds(text, tokenizer, { ends: contextTokens })),
  );
  let budget = ends.reduce((sum, { tokens }) => sum + tokens, 0) - (known.promptTokens - limit);
  for (let attempt = 0; attempt < MAX_CUTS && budget > 0; attempt++) {
    const cut = await cutAnswers(answers, ends, { budgetTokens: budget, tokenizer });
    const whole = await turnByTurn(clock, prompts.unspliced(target, cut.answers));
    const promptTokens = await prompts.countTokens(whole, target) ?? 0;
    if (promptTokens <= limit) {
      return {
        prompt: await turnByTurn(clock, prompts.wireInTurns(target, cut.answers)),
        sampling: lowered(sampling, contextTokens - promptTokens),
        cuts: cut.cuts,
        promptTokens,
      };
    }
    budget -= Math.max(promptTokens - limit, Math.ceil(budget / 64));
  }
  throw tooLong;
}

/** Tokens of a context that are kept for the agent's own answer. */
function ownTokens(contextTokens: number, { max_tokens = Infinity }: Sampling): number {
  return Math.max(1, Math.min(max_tokens, Math.floor(contextTokens * OWN_SHARE)));
}

function lowered(sampling: Sampling, leftTokens: number): Sampling {
  const { max_tokens } = sampling;
  // One is spared: engines differ in whether a context may be full to its last token.
  return max_tokens === undefined || max_tokens <= leftTokens
    ? sampling
    : { ...sampling, max_tokens: Math.max(1, leftTokens - 1) };
}

function surelyFits(prompt: Prompt, { max_tokens }: Sampling, contextTokens: number): boolean {
  if (prompt.kind !== "text" || max_tokens === undefined) return false;
  return prompt.text.length * MAX_TOKENS_PER_CHARACTER + 16 + max_tokens <= contextTokens;
}
