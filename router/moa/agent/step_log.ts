import type { EngineUsage } from "../../engines/engine.ts";
import type { StepRecord } from "../record/run_record.ts";
import type { AnswerStep } from "./answer_steps.ts";

/** Tokens of the steps that have ended. */
interface StepTokens {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number | undefined;
}

/** Step by step, what an answer that is written in steps has cost: each step reads the prompt and the answer so far again. */
export class StepLog {
  readonly #records: StepRecord[] = [];
  #sums: StepTokens = { promptTokens: 0, completionTokens: 0, cachedTokens: undefined };
  #before = 0;

  get records(): readonly StepRecord[] {
    return this.#records;
  }

  /** Sums over the steps that have ended. */
  get sums(): StepTokens {
    return this.#sums;
  }

  /** Tokens of the answer before the step that is under way: it reads them as a part of its prompt. */
  get before(): number {
    return this.#before;
  }

  begin({ isLast, reads }: AnswerStep, { tokens, atMs }: { tokens: number; atMs: number }): void {
    this.#before = tokens;
    this.#records.push({
      startedAtMs: atMs,
      endedAtMs: undefined,
      isLast,
      reads,
      before: tokens,
      promptTokens: undefined,
      cachedTokens: undefined,
      completionTokens: undefined,
    });
  }

  /** The step has ended; `usage` is that of the whole answer, as `ResumedAnswer` counts it. Returns its record. */
  end(usage: EngineUsage, atMs: number): StepRecord {
    const begun = this.#records.pop();
    if (begun === undefined) throw new Error("No step is under way");
    const { cachedTokens } = usage;
    const ended = {
      ...begun,
      endedAtMs: atMs,
      promptTokens: usage.promptTokens + this.#before,
      cachedTokens,
      completionTokens: Math.max(0, usage.completionTokens - this.#before),
    };
    this.#records.push(ended);
    return ended;
  }

  /** Counts a step that has ended, behind which another one comes; `tokens`: those of the answer by now. */
  keep({ promptTokens = 0, completionTokens = 0, cachedTokens }: StepRecord, tokens: number): void {
    const { cachedTokens: before } = this.#sums;
    this.#sums = {
      promptTokens: this.#sums.promptTokens + promptTokens,
      completionTokens: this.#sums.completionTokens + completionTokens,
      cachedTokens: cachedTokens === undefined ? before : cachedTokens + (before ?? 0),
    };
    this.#before = tokens;
  }
}
