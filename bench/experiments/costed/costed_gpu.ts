import { type CostModel, costModel } from "../../../simulator/engine/cost.ts";

/** One answer on its way through the GPUs of its model. Lengths in tokens. */
export interface CostedSequence {
  /** Prompts that are the same to the last token have the same key, and are computed once. */
  readonly promptKey: string;
  readonly promptTokens: number;
  /** Prompt tokens that were read ahead. */
  readonly cachedTokens: number;
  readonly answerTokens: number;
  readonly onEnd: (atMs: number) => void;
}

interface Prompt {
  readonly sequence: CostedSequence;
  /** Tokens that are computed or cached; undefined before its first step. */
  computed: number | undefined;
}

interface Decode {
  readonly sequence: CostedSequence;
  remaining: number;
  context: number;
}

/** Token budget of a prefill step: the engines' default. */
const STEP_TOKENS = 8_192;
/** Two times that differ by less are one. */
const EPSILON = 1e-6;

/**
 * The GPUs of one model: a pair, or one that reads prompts before it goes on with answers, as SGLang does. Between two
 * events the decode steps are summed up by a formula instead of being played.
 */
export class CostedGpu {
  readonly #cost: CostModel;
  readonly #pair: boolean;
  #prompts: Prompt[] = [];
  /** The prefill step under way. */
  #step: { readonly endsMs: number; readonly parts: readonly (readonly [Prompt, number])[] } | undefined;
  /** Prompts that are on their way to the decode GPU. */
  #travelling: { readonly atMs: number; readonly sequence: CostedSequence }[] = [];
  /** Sequences for which the KV memory has no room yet. */
  #waiting: CostedSequence[] = [];
  #running: Decode[] = [];
  readonly #known = new Set<string>();

  constructor(cost: Parameters<typeof costModel>[0], { pair }: { readonly pair: boolean }) {
    this.#cost = costModel(cost);
    this.#pair = pair;
  }

  submit(sequence: CostedSequence, nowMs: number): void {
    this.#prompts.push({ sequence, computed: undefined });
    this.#begin(nowMs);
  }

  /** Ends a sequence without an answer; gives the tokens that it has written. */
  abort(sequence: CostedSequence, nowMs: number): number {
    const others = (one: { readonly sequence: CostedSequence }) => one.sequence !== sequence;
    const left = this.#running.find((one) => !others(one))?.remaining ?? sequence.answerTokens;
    this.#prompts = this.#prompts.filter(others);
    this.#travelling = this.#travelling.filter(others);
    this.#waiting = this.#waiting.filter((one) => one !== sequence);
    this.#running = this.#running.filter(others);
    this.#admit();
    this.#begin(nowMs);
    return Math.floor(sequence.answerTokens - left);
  }

  /** Time of the next event; Infinity when idle. */
  nextMs(nowMs: number): number {
    const travel = Math.min(Infinity, ...this.#travelling.map(({ atMs }) => atMs));
    const first = Math.min(Infinity, ...this.#running.map(({ remaining }) => remaining));
    const decode = this.#decodes() && first < Infinity ? nowMs + this.#decodeMs(first) : Infinity;
    return Math.min(this.#step?.endsMs ?? Infinity, travel, decode);
  }

  /** Lets time pass, in which nothing ends before its end; gives the ends of the answers that end there. */
  advance(fromMs: number, toMs: number): ((atMs: number) => void)[] {
    if (this.#decodes() && this.#running.length > 0) {
      const steps = this.#stepsIn(toMs - fromMs);
      for (const one of this.#running) {
        one.remaining -= steps;
        one.context += steps;
      }
    }
    const step = this.#step;
    if (step !== undefined && step.endsMs <= toMs + EPSILON) {
      this.#step = undefined;
      this.#endStep(step.parts, toMs);
    }
    const arrived = this.#travelling.filter(({ atMs }) => atMs <= toMs + EPSILON);
    this.#travelling = this.#travelling.filter((one) => !arrived.includes(one));
    this.#waiting.push(...arrived.map(({ sequence }) => sequence));
    const ended = this.#running.filter(({ remaining }) => remaining <= EPSILON);
    this.#running = this.#running.filter((one) => !ended.includes(one));
    this.#admit();
    this.#begin(toMs);
    return ended.map(({ sequence }) => sequence.onEnd);
  }

  #decodes(): boolean {
    return this.#pair || this.#step === undefined;
  }

  #endStep(parts: readonly (readonly [Prompt, number])[], nowMs: number): void {
    for (const [prompt, tokens] of parts) {
      prompt.computed = (prompt.computed ?? 0) + tokens;
      const { sequence } = prompt;
      if (prompt.computed < sequence.promptTokens || !this.#prompts.includes(prompt)) continue;
      this.#known.add(sequence.promptKey);
      this.#prompts = this.#prompts.filter((one) => one !== prompt);
      const { transferLatencyMs, transferMsPerToken } = this.#cost;
      const travelMs = this.#pair ? transferLatencyMs + transferMsPerToken * sequence.promptTokens : 0;
      this.#travelling.push({ atMs: nowMs + travelMs, sequence });
    }
  }

  /** Begins a prefill step where there are prompts, the oldest first. */
  #begin(nowMs: number): void {
    if (this.#step !== undefined || this.#prompts.length === 0) return;
    const parts: [Prompt, number][] = [];
    let budget = STEP_TOKENS;
    let attention = 0;
    for (const prompt of this.#prompts) {
      const { promptKey, promptTokens, cachedTokens } = prompt.sequence;
      // The last token is always computed: it gives the answer's first one.
      prompt.computed ??= this.#known.has(promptKey)
        ? promptTokens - 1
        : Math.min(cachedTokens, promptTokens - 1);
      const tokens = Math.min(budget, promptTokens - prompt.computed);
      if (tokens <= 0) break;
      parts.push([prompt, tokens]);
      attention += tokens * (prompt.computed + tokens / 2);
      budget -= tokens;
    }
    const prefillTokens = STEP_TOKENS - budget;
    const sequences = parts.length;
    const load = { prefillTokens, prefillAttention: attention, decodes: 0, decodeContext: 0, sequences };
    this.#step = { endsMs: nowMs + this.#cost.stepMs(load), parts };
  }

  /** Takes answers into the batch as long as their whole KV fits; a decode GPU of a pair shares no prompts. */
  #admit(): void {
    while (true) {
      const [first] = this.#waiting;
      if (first === undefined) return;
      const held = new Set<string>();
      const needed = [...this.#running.map(({ sequence }) => sequence), first].reduce((sum, one) => {
        const shared = !this.#pair && held.has(one.promptKey);
        held.add(one.promptKey);
        return sum + one.answerTokens + (shared ? 0 : one.promptTokens);
      }, 0);
      if (needed > this.#cost.kvTokens && this.#running.length > 0) return;
      this.#waiting.shift();
      this.#running.push({
        sequence: first,
        remaining: first.answerTokens - 1,
        context: first.promptTokens + 1,
      });
    }
  }

  /** Duration of so many decode steps of the batch. */
  #decodeMs(steps: number): number {
    const { first, growth } = this.#stepCost();
    return steps * first + growth * steps * (steps - 1) / 2;
  }

  /** Decode steps in so many ms: whole ones and a part. */
  #stepsIn(ms: number): number {
    const { first, growth } = this.#stepCost();
    const linear = first - growth / 2;
    return growth === 0 ? ms / first : 2 * ms / (linear + Math.sqrt(linear * linear + 2 * growth * ms));
  }

  #stepCost(): { readonly first: number; readonly growth: number } {
    const sequences = this.#running.length;
    const context = this.#running.reduce((sum, one) => sum + one.context, 0);
    const stepMs = (decodeContext: number) =>
      this.#cost.stepMs({
        prefillTokens: 0,
        prefillAttention: 0,
        decodes: sequences,
        decodeContext,
        sequences,
      });
    const first = stepMs(context);
    return { first, growth: stepMs(context + sequences) - first };
  }
}
