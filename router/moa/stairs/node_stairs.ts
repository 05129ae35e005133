import { Notify } from "../../../base/notify.ts";
import { unlessAborted } from "../../../base/unless_aborted.ts";
import type { StaircaseConfig } from "../../../cfgs/schema/staircase.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import type { Asked } from "../agent/agent_call.ts";
import type { AnswerSoFar, AnswerStep, AnswerSteps } from "../agent/answer_steps.ts";
import { samplingOfChoice } from "../graph/sampling.ts";
import type { AgentAnswer } from "../prompt/answer.ts";
import { type FirstWords, firstWords, type WritingPrecursor } from "./first_words.ts";

/** New tokens of its precursors, together, after which an agent looks again whether they are enough. */
const LOOK_TOKENS = 8;

/** Options of a `NodeStairs`. */
export interface NodeStairsOptions {
  readonly settings: StaircaseConfig;
  readonly slots: "declared" | "completion";
  /** Its words go to nobody but other agents: how many it writes ahead is not limited. */
  readonly isInner: boolean;
  readonly precursors: () => readonly WritingPrecursor[];
  /** The prompt with such answers. */
  readonly promptOf: (answers: readonly AgentAnswer[]) => Promise<Prompt>;
  readonly sampling: Sampling;
  /** Longest prompt plus answer; Infinity where nobody knows. */
  readonly contextTokens: number;
}

/** The staircase of one agent: when it may go up a step, and what it reads there. */
export class NodeStairs {
  readonly #options: NodeStairsOptions;
  readonly #changed = new Notify();
  #whole: Asked | Promise<Asked> | undefined;
  #hasBegun = false;
  /** Tokens of all precursors that have been seen, and at how many it is looked again. */
  #seen = 0;
  #lookAt = 0;

  constructor(options: NodeStairsOptions) {
    this.#options = options;
    this.#lookAt = options.settings.first_tokens;
  }

  /** True once it has begun. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Its precursors have written so many tokens more. True when the first step can be taken, which it says once. */
  grew(tokens: number): boolean {
    this.#seen += tokens;
    if (this.#whole !== undefined || this.#seen < this.#lookAt) return false;
    this.#lookAt = this.#seen + LOOK_TOKENS;
    this.#changed.wakeAll();
    if (this.#hasBegun) return false;
    return this.#hasBegun = this.#words(undefined) !== undefined;
  }

  /** The whole prompt is known. */
  finish(asked: Asked | Promise<Asked>): void {
    this.#whole = asked;
    if (asked instanceof Promise) asked.catch(() => {});
    this.#changed.wakeAll();
  }

  /** The steps of one choice of its answer. */
  steps(choice: number): AnswerSteps {
    const { settings, sampling } = this.#options;
    let last: readonly FirstWords[] | undefined;
    let taken = 0;
    return {
      next: async (written: AnswerSoFar, signal: AbortSignal): Promise<AnswerStep> => {
        while (true) {
          if (this.#whole !== undefined) return await this.#lastStep(choice, this.#whole, signal);
          const most = this.#tokensOf(written, taken);
          const words = taken < settings.steps && most > 0 ? this.#words(last) : undefined;
          if (words !== undefined) {
            const prompt = await unlessAborted(
              this.#options.promptOf(words.filter(({ text }) => text !== "")),
              signal,
            );
            if (this.#whole !== undefined) continue;
            if (prompt.kind === "tokens" && this.#fits(prompt.ids.length + written.tokens + most)) {
              last = words;
              taken++;
              return {
                prompt,
                sampling: { ...samplingOfChoice(sampling, choice), max_tokens: written.tokens + most },
                isLast: false,
                reads: readsOf(words),
              };
            }
            taken = Infinity;
          }
          await this.#changed.wait(signal);
        }
      },
    };
  }

  /** Most tokens of a next step before the last one, which has at least one token left. */
  #tokensOf({ tokens, hasEnded }: AnswerSoFar, taken: number): number {
    const { settings, sampling: { max_tokens = Infinity }, isInner } = this.#options;
    const { first_tokens, chunk_tokens, write_tokens, ahead_tokens } = settings;
    if (hasEnded) return 0;
    // Its readers begin on as much of it as it has begun on, and a last word that may not be whole.
    const inner = taken === 0 ? first_tokens + chunk_tokens : chunk_tokens;
    return Math.min(isInner ? inner : Math.min(write_tokens, ahead_tokens - tokens), max_tokens - 1 - tokens);
  }

  /** What a step reads; undefined while its precursors have not written enough since the one before. */
  #words(last: readonly FirstWords[] | undefined): readonly FirstWords[] | undefined {
    const { settings: { first_tokens, chunk_tokens }, slots, precursors } = this.#options;
    const words = firstWords(precursors(), slots);
    const before = new Map(last?.map(({ agent, tokens }) => [agent, tokens]));
    const least = (agent: string) =>
      last === undefined ? first_tokens : (before.get(agent) ?? 0) + chunk_tokens;
    const open = words.filter(({ isOpen }) => isOpen);
    const isEnough = open.length > 0 && open.every(({ agent, tokens }) => tokens >= least(agent));
    return isEnough ? words : undefined;
  }

  async #lastStep(choice: number, whole: Asked | Promise<Asked>, signal: AbortSignal): Promise<AnswerStep> {
    const { prompt, sampling } = whole instanceof Promise ? await unlessAborted(whole, signal) : whole;
    const { precursors, slots } = this.#options;
    return {
      prompt,
      sampling: samplingOfChoice(sampling, choice),
      isLast: true,
      reads: readsOf(firstWords(precursors(), slots)),
    };
  }

  #fits(tokens: number): boolean {
    return tokens < this.#options.contextTokens;
  }
}

function readsOf(words: readonly FirstWords[]): Record<string, number> {
  return Object.fromEntries(words.map(({ agent, tokens }) => [agent, tokens]));
}
