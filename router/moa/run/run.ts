import type { FinishReason, GenerateEvent } from "../../engines/engine.ts";
import type { AgentEvent } from "../agent/agent_events.ts";
import type { RunRecord } from "../record/run_record.ts";
import type { TraceEvent } from "../record/trace.ts";
import type { RunUsage } from "../record/usage.ts";

/** The root's output as it comes, for choice `index`; when the last choice is done the iteration ends. */
export type RunEvent =
  | {
    readonly type: "delta";
    readonly index: number;
    readonly delta: Extract<GenerateEvent, { type: "delta" }>;
  }
  | {
    readonly type: "end";
    readonly index: number;
    readonly finishReason: FinishReason;
    readonly stopReason?: string | number | undefined;
  };

/** A run in progress. */
export interface Run {
  readonly id: string;
  /** The root's output (of a graph without a root, nothing); to be read once. Not reading it pauses the root's stream. Throws the run's error. */
  readonly output: AsyncIterable<RunEvent>;
  /** Sums so far; final once `output` has ended. */
  usage(): RunUsage;
  /** The record so far. Texts and prompts are included. */
  record(): RunRecord;
  /** Past events, then new ones until the run ends. */
  events(signal: AbortSignal): AsyncIterable<TraceEvent>;
  /**
   * Every agent's output: all so far, then what is new, each agent's end, until all have ended. Reading it slowly
   * slows no agent. Throws the signal's reason.
   */
  agentEvents(signal: AbortSignal): AsyncIterable<AgentEvent>;
  /**
   * Choice `index` has said enough for its reader: its engine is told to stop, and it is `done` with finish reason
   * `stop`, without an `end` event. Does nothing while the choice has said nothing, and after its end.
   */
  satisfy(index: number): void;
  /** Calls `onTokens` with the number of new tokens of the root's choice `index`, right when they have come. */
  onRootTokens(onTokens: (index: number, tokens: number) => void): void;
  /** Ends the run: every engine is told. Resolves when no engine works for it any more. Harmless after the end. */
  cancel(reason: unknown): Promise<void>;
  /** Settles (never rejects) when the run has ended and nothing of it is left running. */
  readonly ended: Promise<void>;
}
