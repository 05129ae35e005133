import type { Int64 } from "../../../base/int64.ts";
import type { Effort } from "../../../cfgs/schema/early_exit.ts";
import type { AuditDoubt } from "../../../scorer/audit/exit_audit.ts";
import type { FinishReason, Prompt } from "../../engines/engine.ts";
import type { FallbackReason } from "../../served/fallbacks.ts";
import type { AskedRequest } from "../graph/run_input.ts";
import type { TraceEvent } from "./trace.ts";
import type { AgentUsage, RunUsage } from "./usage.ts";

/**
 * `waiting` for its precursors, `queued` from its start to its first token, `running`; then `done` (its text is used),
 * `failed` (an error or its deadline) or `cancelled` (dropped by its cluster, or its run ended).
 */
export type AgentState = "waiting" | "queued" | "running" | "done" | "failed" | "cancelled";

/** One step as the record of a run shows it; times count from the run's start. */
export interface StepRecord {
  readonly startedAtMs: number;
  readonly endedAtMs: number | undefined;
  readonly isLast: boolean;
  readonly reads: Readonly<Record<string, number>>;
  /** Tokens of the answer before it. */
  readonly before: number;
  /** With the answer's tokens before it, which are read again; undefined until the step has ended. */
  readonly promptTokens: number | undefined;
  readonly cachedTokens: number | undefined;
  readonly completionTokens: number | undefined;
}

/** A second attempt at an agent's answer as the record of a run shows it; times count from the run's start. */
export interface HedgeRecord {
  readonly worker: string;
  readonly startedAtMs: number;
  readonly endedAtMs: number | undefined;
  /** `won`: its answer is the agent's. `lost`: the first attempt was faster, or the agent was ended. Undefined while it works. */
  readonly outcome: "won" | "lost" | "failed" | undefined;
  /** Tokens that it wrote. */
  readonly tokens: number;
}

/** The model that was asked last in place of an agent's own. */
export interface FallbackRecord {
  readonly model: string;
  readonly reason: FallbackReason;
}

/** Parameters that decide whether an agent's answer can come out the same again. */
export interface DrawnBy {
  /** Undefined: the engine's default. */
  readonly temperature: number | undefined;
  readonly seed: Int64 | undefined;
}

/** The request of a run, to be sent again. */
export interface RecordedRequest extends AskedRequest {
  readonly seed: Int64 | undefined;
}

/** An agent as the run record shows it. */
export interface AgentRecord {
  readonly id: string;
  readonly model: string;
  readonly state: AgentState;
  readonly sampling?: DrawnBy | undefined;
  /** Ids of its precursors. */
  readonly reads?: readonly string[] | undefined;
  readonly worker: string | undefined;
  /** The final prompt as sent, undefined until it was. */
  readonly prompt: Prompt | undefined;
  readonly text: string;
  readonly reasoning: string;
  /** Of all its tokens, where somebody asked for them: a policy of early exit, or of the root its client. */
  readonly logprobs?: readonly number[] | undefined;
  readonly finishReason: FinishReason | undefined;
  readonly error: string | undefined;
  /** The reason why the router ended it, though it had not ended by itself and was not limited; its text is used. */
  readonly endedFor?: string | undefined;
  readonly startedAtMs: number | undefined;
  readonly firstTokenAtMs: number | undefined;
  readonly endedAtMs: number | undefined;
  /** How often its answer broke off and was gone on with on another worker. */
  readonly resumes: number;
  /** How often its answer broke off and was begun anew. */
  readonly restarts: number;
  /** Absent: only its own model was asked. */
  readonly fallback?: FallbackRecord | undefined;
  /** Of an agent that was started a second time; absent: it was not. */
  readonly hedge?: HedgeRecord | undefined;
  /** Of an answer that was begun before its prompt was whole; absent: it was not. */
  readonly steps?: readonly StepRecord[] | undefined;
  readonly usage: AgentUsage | undefined;
}

/** One decision on whether a cluster waits for its other members; with all its figures it is in the trace. */
export interface ExitRecord {
  readonly cluster: string;
  readonly metric: string;
  readonly atMs: number;
  /** Members that had answered. */
  readonly completions: number;
  readonly exit: boolean;
  /** Something that it needed was not there in time. */
  readonly late: boolean;
  /** Time from the completion to the decision. */
  readonly ms: number;
}

/** An agent that was ended because its vote could not matter any more. */
export interface CutRecord {
  readonly agent: string;
  /** The cluster that was decided without it. */
  readonly cluster: string;
  readonly atMs: number;
  /** Estimate of the completion tokens that it was spared. */
  readonly savedTokens: number;
}

/** What the audit of early exit knows of a run. */
export interface AuditRecord {
  /** Of a run that would have ended early: whether the whole one has answered the same; undefined for others. */
  readonly found: "same" | "other" | undefined;
  /** True where too many have answered otherwise: exits are switched off. */
  readonly off: boolean;
  /** Share of the exits that is audited, as it was at the run's end. */
  readonly share: number;
  /** Why that is all of them. */
  readonly doubt: AuditDoubt | undefined;
}

/** How the answer that a run's agents agree on was written up. */
export interface RewriteRecord {
  /** What the client was given: what the model wrote, or the text of one that agrees (alone, or behind what was written). */
  readonly given: "rewrite" | "text";
  /** Why the text was given, as a sentence. */
  readonly reason: string | undefined;
  readonly agent: AgentRecord;
}

/** Everything about one run, live or ended. */
export interface RunRecord {
  readonly id: string;
  /** As in its `RunInput`. */
  readonly owner?: string | undefined;
  /** Id of the client's request (`x-request-id`). */
  readonly requestId?: string | undefined;
  readonly graph: string;
  /** Equal ones have the same agents, prompts and parameters; undefined of a graph that its request has brought. */
  readonly graphHash?: string | undefined;
  /** Undefined of a request with a graph of its own. */
  readonly request?: RecordedRequest | undefined;
  /** The level of effort that the request has chosen. */
  readonly effort?: Effort | undefined;
  readonly state: "running" | "done" | "failed" | "cancelled";
  readonly startedAtUnixMs: number;
  readonly durationMs: number | undefined;
  readonly error: { readonly message: string; readonly code: string } | undefined;
  readonly usage: RunUsage;
  readonly agents: readonly AgentRecord[];
  /** Seed of what was drawn for early exit: the request's `seed`, or one of the run's own. */
  readonly drawSeed: string;
  readonly exits: readonly ExitRecord[];
  /** Undefined where nobody was. */
  readonly cuts?: readonly CutRecord[] | undefined;
  /** Undefined where exits are not audited. */
  readonly audit?: AuditRecord | undefined;
  /** Undefined where nothing was written up. */
  readonly rewrite?: RewriteRecord | undefined;
  /** True when the answer is one of the last cluster's, and the root was not asked. */
  readonly rootSkipped: boolean;
  readonly events: readonly TraceEvent[];
}
