import type { Clock } from "../../../base/clock.ts";
import type { Random } from "../../../base/random.ts";
import type { GenerateEvent, Prompt, Sampling } from "../../engines/engine.ts";
import type { AgentCall } from "./agent_call.ts";
import type { Trace } from "../record/trace.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** What an agent's call needs from its run. */
export interface AgentContext {
  readonly model: ServedModel;
  /** Its run's, and thereby its turn in the queue for a place. */
  readonly arrival: number;
  readonly clock: Clock;
  readonly random: Random;
  readonly trace: Trace;
  /** The first token has come. */
  started(call: AgentCall): void;
  /** More tokens have come. */
  grew(call: AgentCall, tokens: number): void;
  /** A name for one attempt, unique among all engines' requests; none is the beginning of another. */
  nextRequestId(): string;
}

/** What an agent is to generate from. */
export interface AgentRequest {
  readonly prompt: Prompt;
  readonly sampling: Sampling;
  readonly logprobs?: number;
  /** An engine that refuses the request because of them is asked again without. */
  readonly logprobsOptional?: boolean;
  readonly headers?: Readonly<Record<string, string>>;
  /** Requests of the same key go to the same worker. */
  readonly stickyKey?: string;
  /** Gets each event, one at a time; while it waits, the engine's stream is not read. */
  forward?(event: GenerateEvent, signal: AbortSignal): Promise<void>;
}
