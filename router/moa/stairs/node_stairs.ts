import { Notify } from "../../../base/notify.ts";
import { unlessAborted } from "../../../base/stop_signal.ts";
import type { StaircaseConfig } from "../../../cfgs/schema/staircase.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import type { Asked } from "../agent/agent_call.ts";
import type { AnswerSoFar, AnswerStep, AnswerSteps } from "../agent/answer_steps.ts";
import { samplingOfChoice } from "../graph/sampling.ts";
import type { AgentAnswer } from "../prompt/answer.ts";
import { type Ahead, goingAhead } from "./ahead.ts";
import { type FirstWords, firstWords, type WritingPrecursor } from "./first_words.ts";

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
  /** Of its first step; absent where its engine orders nothing. */
  readonly ahead?: Ahead | undefined;
  /** Longest prompt plus answer; Infinity where nobody knows. */
  readonly contextTokens: number;
}

/** The staircase of one agent: when it may go up a step, and what it reads there. */
export class NodeStairs {
  readonly #options: NodeStairsOptions;
  readonly #changed = new Notify();
  #whole: Asked | Promise<Asked> | undefined;
  #hasBegun = false;
  /** What the last step read; undefined before the first one. */
  #last: readonly FirstWords[] | undefined;
  /** New tokens of its precursors, together, before which the next step cannot be due. */
  #missing = 0;

  constructor(options: NodeStairsOptions) {
    this.#options = options;
  }

  /** True once it has begun. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** Its precursors have written so many tokens more. True when the first step can be taken, which it says once. */
  grew(tokens: number): boolean {
    this.#missing -= tokens;
    return this.#missing <= 0 && this.look();
  }

  /** Looks whether the next step is due, as when a precursor has ended. True when that is the first one. */
  look(): boolean {
    if (this.#whole !== undefined) return false;
    const words = firstWords(this.#options.precursors(), this.#options.slots);
    const missing = this.#missingOf(words, this.#last);
    // One that is due and cannot be taken yet is looked at again with the next token.
    this.#missing = Math.max(1, missing);
    if (missing > 0 || words.every(({ isOpen }) => !isOpen)) return false;
    this.#changed.wakeAll();
    if (this.#hasBegun) return false;
    return this.#hasBegun = true;
  }

  /** The whole prompt is known. */
  finish(asked: Asked | Promise<Asked>): void {
    this.#whole = asked;
    if (asked instanceof Promise) asked.catch(() => {});
    this.#changed.wakeAll();
  }

  /** The steps of one choice of its answer. */
  steps(choice: number): AnswerSteps {
    const { settings } = this.#options;
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
              this.#last = last = words;
              this.#missing = this.#missingOf(words, words);
              taken++;
              return {
                prompt,
                sampling: this.#samplingOf(choice, written.tokens, most),
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

  #samplingOf(choice: number, before: number, most: number): Sampling {
    const { sampling, ahead } = this.#options;
    const own = { ...samplingOfChoice(sampling, choice), max_tokens: before + most };
    return before > 0 || ahead === undefined ? own : goingAhead(own, ahead);
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
    const words = firstWords(this.#options.precursors(), this.#options.slots);
    const isDue = words.some(({ isOpen }) => isOpen) && this.#missingOf(words, last) === 0;
    return isDue ? words : undefined;
  }

  /** Tokens that those who still write must have written before the next step, less those that they have. */
  #missingOf(words: readonly FirstWords[], last: readonly FirstWords[] | undefined): number {
    const { first_tokens, chunk_tokens } = this.#options.settings;
    const before = new Map(last?.map(({ agent, tokens }) => [agent, tokens]));
    const least = (agent: string) =>
      last === undefined ? first_tokens : (before.get(agent) ?? 0) + chunk_tokens;
    return words.reduce(
      (sum, { agent, tokens, isOpen }) => sum + (isOpen ? Math.max(0, least(agent) - tokens) : 0),
      0,
    );
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
