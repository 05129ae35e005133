import type { Json, JsonObject } from "../../../base/json.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import type { FinishReason, GenerateEvent, Prompt, Sampling } from "../../engines/engine.ts";

/** What one request asks of a graph. */
export interface RunInput {
  /** A conversation (chat), or a raw prompt (completions). */
  readonly question:
    | { readonly kind: "chat"; readonly messages: readonly ChatMessage[] }
    | { readonly kind: "text"; readonly text: string };
  /** The client's parameters; they go to the root, over the root's own. */
  readonly rootSampling: Sampling;
  /** Log-probabilities of the root's tokens, with this many alternatives. */
  readonly rootLogprobs?: number;
  /** Answers wanted (`n`): the root is called this many times. */
  readonly choices: number;
  /** Headers to pass on to the engines. */
  readonly headers?: Readonly<Record<string, string>>;
}

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
    readonly stopReason?: string | number;
  };

/** Tokens of one agent's calls, all attempts together. */
export interface AgentUsage {
  readonly agent: string;
  readonly model: string;
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Undefined when no engine reported it. */
  readonly cachedTokens: number | undefined;
  readonly reasoningTokens: number;
  /** Completion tokens that nobody read: of agents that failed, were cancelled, or whose answers an exit dropped. */
  readonly wastedTokens: number;
  /** Prompt tokens that were computed ahead, by warms; in none of the other counts. */
  readonly warmTokens?: number;
  /** Estimate of the completion tokens that an early exit spared; in none of the other counts. */
  readonly savedTokens?: number;
}

/** Tokens of a whole run: the sums over its agents. */
export interface RunUsage {
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number | undefined;
  readonly reasoningTokens: number;
  readonly wastedTokens: number;
  readonly warmTokens?: number;
  readonly savedTokens?: number;
  readonly calls: number;
  readonly agents: readonly AgentUsage[];
}

/**
 * `waiting` for its precursors, `queued` from its start to its first token, `running`; then `done` (its text is used),
 * `failed` (an error or its deadline) or `cancelled` (dropped by its cluster, or its run ended).
 */
export type AgentState = "waiting" | "queued" | "running" | "done" | "failed" | "cancelled";

/** One thing that happened in a run. `atMs` counts from the run's start. */
export interface TraceEvent {
  readonly atMs: number;
  /**
   * `run_started`, then `agent_queued`, `agent_placed`, `agent_first_token`, `agent_retried`, `agent_done`,
   * `agent_failed`, `agent_cancelled`, `warm_off` or `warm_sent`, `warm_done`, `warm_failed`, `warm_stopped`,
   * `exit_decided`, `cluster_closed`, `root_decided` (and `trace_full` where no more are kept),
   * last `run_done`, `run_failed` or `run_cancelled`.
   */
  readonly type: string;
  readonly agent?: string;
  readonly cluster?: string;
  readonly data?: JsonObject;
}

/** An agent as the run record shows it. */
export interface AgentRecord {
  readonly id: string;
  readonly model: string;
  readonly state: AgentState;
  readonly worker: string | undefined;
  /** The final prompt as sent, undefined until it was. */
  readonly prompt: Prompt | undefined;
  readonly text: string;
  readonly reasoning: string;
  readonly finishReason: FinishReason | undefined;
  readonly error: string | undefined;
  readonly startedAtMs: number | undefined;
  readonly firstTokenAtMs: number | undefined;
  readonly endedAtMs: number | undefined;
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

/** Everything about one run, live or ended. */
export interface RunRecord {
  readonly id: string;
  readonly graph: string;
  readonly state: "running" | "done" | "failed" | "cancelled";
  readonly startedAtUnixMs: number;
  readonly durationMs: number | undefined;
  readonly error: { readonly message: string; readonly code: string } | undefined;
  readonly usage: RunUsage;
  readonly agents: readonly AgentRecord[];
  readonly exits: readonly ExitRecord[];
  /** True when the answer is one of the last cluster's, and the root was not asked. */
  readonly rootSkipped: boolean;
  readonly events: readonly TraceEvent[];
}

/** What one agent says, as it comes; then, once, how it ended. */
export type AgentEvent =
  | { readonly type: "delta"; readonly agent: string; readonly text: string; readonly reasoning: string }
  | { readonly type: "end"; readonly agent: string; readonly record: AgentRecord };

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
   * What every agent says: all so far, then what is new, each agent's end, until all have ended. Reading it slowly
   * slows no agent. Throws the signal's reason.
   */
  agentEvents(signal: AbortSignal): AsyncIterable<AgentEvent>;
  /**
   * Choice `index` has said enough for its reader: its engine is told to stop, and it is `done` with finish reason
   * `stop`, without an `end` event. Does nothing while the choice has said nothing, and after its end.
   */
  satisfy(index: number): void;
  /** Ends the run: every engine is told. Resolves when no engine works for it any more. Harmless after the end. */
  cancel(reason: unknown): Promise<void>;
  /** Settles (never rejects) when the run has ended and nothing of it is left running. */
  readonly ended: Promise<void>;
}

/** Extra response fields a client may ask for with `"canopy": {"include": [...]}`. */
export type Include = "usage" | "panel" | "trace";

export type { Json };
