import type { StepLoad } from "./cost.ts";
import type { EngineSequence } from "./sequence.ts";

/** The scheduler's batch, as the planning of a step sees it. */
export interface StepBatch {
  running(): readonly EngineSequence[];
  /** Sequences that wait. */
  waiting(): number;
  /** Tokens that a step may compute. */
  readonly budget: number;
  /** Makes room for the KV of a sequence's first `length` tokens; false when there is none. */
  reserve(sequence: EngineSequence, length: number): boolean;
  /** Throws the newest running sequence out. */
  preempt(): void;
  /** Takes the first waiting sequence in, if it fits. */
  admit(): EngineSequence | undefined;
  /** Lets a sequence compute `n` tokens in this step. */
  add(load: StepLoad, sequence: EngineSequence, n: number): void;
}

/** vLLM's step: every running sequence computes what it can, and new ones join while there is room. */
export function planMixed(batch: StepBatch): StepLoad {
  const load = emptyLoad();
  const running = batch.running();
  let budget = batch.budget;
  let preempted = false;
  for (let i = 0; i < running.length; i++) {
    const sequence = running[i]!;
    const want = sequence.tokens.length - sequence.computed;
    const n = Math.min(want, budget);
    sequence.chunk = 0;
    if (n === 0) continue;
    let fits = batch.reserve(sequence, sequence.computed + n);
    while (!fits && running.length - 1 > i) {
      batch.preempt();
      preempted = true;
      fits = batch.reserve(sequence, sequence.computed + n);
    }
    if (!fits) {
      if (running.length > 1) batch.preempt();
      preempted = true;
      break;
    }
    batch.add(load, sequence, n);
    budget -= n;
  }
  while (!preempted && budget > 0 && batch.waiting() > 0) {
    const sequence = batch.admit();
    if (sequence === undefined) break;
    const n = Math.min(sequence.tokens.length - sequence.computed, budget);
    batch.reserve(sequence, sequence.computed + n);
    batch.add(load, sequence, n);
    budget -= n;
  }
  return load;
}

/** SGLang's step: prompts alone as long as there are any, then one token of every sequence. */
export function planPrefillFirst(batch: StepBatch): StepLoad {
  const load = emptyLoad();
  const running = batch.running();
  let budget = batch.budget;
  for (const sequence of running) {
    sequence.chunk = 0;
    const want = sequence.tokens.length - sequence.computed;
    if (sequence.prefilledMs !== undefined && want <= 1) continue;
    const n = Math.min(want, budget);
    if (n === 0 || !batch.reserve(sequence, sequence.computed + n)) continue;
    batch.add(load, sequence, n);
    budget -= n;
  }
  while (budget > 0 && batch.waiting() > 0) {
    const sequence = batch.admit();
    if (sequence === undefined) break;
    const n = Math.min(sequence.tokens.length - sequence.computed, budget);
    batch.reserve(sequence, sequence.computed + n);
    batch.add(load, sequence, n);
    budget -= n;
  }
  if (load.prefillTokens > 0) return load;
  for (let i = 0; i < running.length; i++) {
    const sequence = running[i]!;
    if (sequence.chunk > 0 || sequence.tokens.length - sequence.computed !== 1) continue;
    let fits = batch.reserve(sequence, sequence.computed + 1);
    while (!fits && running.length - 1 > i) {
      batch.preempt();
      fits = batch.reserve(sequence, sequence.computed + 1);
    }
    if (fits) batch.add(load, sequence, 1);
  }
  return load;
}

function emptyLoad(): StepLoad {
  return { prefillTokens: 0, prefillAttention: 0, decodes: 0, decodeContext: 0, sequences: 0 };
}
