import { fieldOf, listField, numberAt, textField, textsField } from "./json_fields.ts";

/**
 * Where an agent is: `waiting` for its precursors, `reading` what they have written so far (its prompt is prefilled
 * ahead), `queued` for a place, `prefill` from its place to its first token, `writing`; then how it ended.
 */
export type AgentPhase =
  | "waiting"
  | "reading"
  | "queued"
  | "prefill"
  | "writing"
  | "done"
  | "failed"
  | "cancelled";

/** A time in a run, in ms from its start. */
export interface TimeSpan {
  readonly fromMs: number;
  readonly toMs: number;
}

/** The model that was asked in place of an agent's own. */
export interface FallbackView {
  readonly model: string;
  /** `no_worker`, `full` or `failed`. */
  readonly reason: string;
  /** What its own model's workers said last; empty where the trace does not have it. */
  readonly error: string;
}

/** A second attempt at an agent's answer, beside the first. */
export interface HedgeView {
  readonly worker: string;
  readonly startedMs: number | undefined;
  readonly endedMs: number | undefined;
  /** `won`, `lost` or `failed`; empty while it works. */
  readonly outcome: string;
  /** Tokens that it wrote. */
  readonly tokens: number | undefined;
}

/** An agent as the page shows it. */
export interface AgentView {
  readonly id: string;
  readonly model: string;
  /** Ids of its precursors. */
  readonly reads: readonly string[];
  readonly phase: AgentPhase;
  readonly worker: string;
  readonly text: string;
  readonly reasoning: string;
  /** The prompt as it was sent; undefined before that, and while nobody has asked for the record. */
  readonly prompt: unknown;
  /** Its error, or why it was cancelled; empty otherwise. */
  readonly reason: string;
  readonly finishReason: string;
  /** Completion tokens, once it has ended. */
  readonly tokens: number | undefined;
  readonly queuedMs: number | undefined;
  readonly placedMs: number | undefined;
  readonly firstTokenMs: number | undefined;
  readonly endedMs: number | undefined;
  /** Parts of its prompt that were prefilled ahead. */
  readonly warms: readonly TimeSpan[];
  /** Attempts that failed and were made again, answers that went on elsewhere or were begun anew. */
  readonly retries: number;
  /** Undefined where only its own model was asked. */
  readonly fallback: FallbackView | undefined;
  /** Undefined where it was not started a second time. */
  readonly hedge: HedgeView | undefined;
}

/** One decision on whether to go on without the agents that still write. */
export interface DecisionView {
  readonly atMs: number;
  /** Undefined for a decision on the whole run. */
  readonly cluster: string | undefined;
  readonly exit: boolean;
  /** All figures that it rests on. */
  readonly data: unknown;
}

/** Something in a run that has no place in its tree, its times or its decisions: a retry, what was left off, and why. */
export interface NoteView {
  readonly atMs: number;
  readonly type: string;
  /** Empty for what concerns the whole run. */
  readonly agent: string;
  readonly data: unknown;
}

/** A run as the page shows it. */
export interface RunView {
  readonly id: string;
  readonly graph: string;
  readonly requestId: string;
  readonly state: string;
  readonly error: string;
  /** Unix time in seconds. */
  readonly created: number | undefined;
  readonly durationMs: number | undefined;
  /** Time of the last event. */
  readonly lastMs: number;
  readonly agents: readonly AgentView[];
  readonly decisions: readonly DecisionView[];
  readonly notes: readonly NoteView[];
  /** As the record has it; undefined while the run goes on. */
  readonly usage: unknown;
  /** False where the record was kept without prompts and answers. */
  readonly textsKept: boolean;
}

/** The run of a record (GET /v1/runs/ID) before anything has happened: its agents, and who reads whom. */
export function plannedRun(record: unknown): RunView {
  return {
    id: textField(record, "id"),
    graph: textField(record, "graph"),
    requestId: textField(record, "request_id"),
    state: "running",
    error: "",
    created: numberAt(record, "created"),
    durationMs: undefined,
    lastMs: 0,
    agents: listField(record, "agents").map(plannedAgent),
    decisions: [],
    notes: [],
    usage: undefined,
    textsKept: fieldOf(record, "texts_kept") !== false,
  };
}

function plannedAgent(record: unknown): AgentView {
  return {
    id: textField(record, "id"),
    model: textField(record, "model"),
    reads: textsField(record, "reads"),
    phase: "waiting",
    worker: "",
    text: "",
    reasoning: "",
    prompt: fieldOf(record, "prompt") ?? undefined,
    reason: "",
    finishReason: "",
    tokens: undefined,
    queuedMs: undefined,
    placedMs: undefined,
    firstTokenMs: undefined,
    endedMs: undefined,
    warms: [],
    retries: 0,
    fallback: undefined,
    hedge: undefined,
  };
}

/** The run of a record as far as it has come. */
export function recordedRun(record: unknown): RunView {
  const run = listField(record, "events").reduce<RunView>(withEvent, plannedRun(record));
  const records = new Map(listField(record, "agents").map((agent) => [textField(agent, "id"), agent]));
  return {
    ...run,
    usage: fieldOf(record, "usage"),
    state: textField(record, "state") || run.state,
    error: textField(record, "error", "message"),
    durationMs: numberAt(record, "duration_ms"),
    agents: run.agents.map((agent) => withAgentRecord(agent, records.get(agent.id))),
  };
}

/** What only the record knows: texts, and how an agent is whose events are not kept any more. */
function withAgentRecord(agent: AgentView, record: unknown): AgentView {
  const state = textField(record, "state");
  return {
    ...agent,
    phase: isEnd(state) ? state : agent.phase,
    worker: textField(record, "worker"),
    text: textField(record, "text"),
    reasoning: textField(record, "reasoning"),
    reason: textField(record, "error"),
    finishReason: textField(record, "finish_reason"),
    queuedMs: agent.queuedMs ?? numberAt(record, "started_at_ms"),
    firstTokenMs: agent.firstTokenMs ?? numberAt(record, "first_token_at_ms"),
    endedMs: agent.endedMs ?? numberAt(record, "ended_at_ms"),
    fallback: recordedFallback(fieldOf(record, "fallback"), agent.fallback),
    hedge: recordedHedge(fieldOf(record, "hedge")) ?? agent.hedge,
  };
}

/** A record names the model and the reason, the trace before it also what had gone wrong. */
function recordedFallback(record: unknown, told: FallbackView | undefined): FallbackView | undefined {
  const model = textField(record, "model");
  if (model === "") return told;
  return {
    model,
    reason: textField(record, "reason"),
    error: told?.model === model ? told.error : "",
  };
}

function recordedHedge(record: unknown): HedgeView | undefined {
  const startedMs = numberAt(record, "started_at_ms");
  if (startedMs === undefined) return undefined;
  return {
    worker: textField(record, "worker"),
    startedMs,
    endedMs: numberAt(record, "ended_at_ms"),
    outcome: textField(record, "outcome"),
    tokens: numberAt(record, "tokens"),
  };
}

function isEnd(state: string): state is "done" | "failed" | "cancelled" {
  return state === "done" || state === "failed" || state === "cancelled";
}

/** Events that the tree, the times and the decisions show, as far as they show them at all. */
const PLACED =
  /^$|^(?:agent_(?:delta|queued|placed|first_token|step|done|failed|cancelled)|warm_(?:held|sent|done|stopped)|cluster_closed|(?:exit|consensus)_decided|run_\w+)$/;

/** The run after one event of GET /v1/runs/ID/events; what is not known changes nothing. */
export function withEvent(run: RunView, event: unknown): RunView {
  const type = textField(event, "type");
  const id = textField(event, "agent");
  const atMs = numberAt(event, "at_ms");
  const data = fieldOf(event, "data");
  const seen = atMs === undefined ? run : {
    ...run,
    lastMs: Math.max(run.lastMs, atMs),
    notes: PLACED.test(type) ? run.notes : [...run.notes, { atMs, type, agent: id, data }],
  };
  if (type === "exit_decided" || type === "consensus_decided") {
    const cluster = type === "exit_decided" ? textField(event, "cluster") : undefined;
    const decision = { atMs: atMs ?? 0, cluster, exit: fieldOf(data, "exit") === true, data };
    return { ...seen, decisions: [...seen.decisions, decision] };
  }
  const end = /^run_(done|failed|cancelled)$/.exec(type)?.[1];
  if (end !== undefined) return { ...seen, state: end, error: textField(data, "error") };
  if (id === "") return seen;
  return {
    ...seen,
    agents: seen.agents.map((agent) =>
      agent.id === id ? withAgentEvent(agent, { type, atMs, event }) : agent
    ),
  };
}

/** An agent after one of its events. */
function withAgentEvent(
  agent: AgentView,
  { type, atMs, event }: { type: string; atMs: number | undefined; event: unknown },
): AgentView {
  const data = fieldOf(event, "data");
  if (type === "agent_delta") {
    const { text, reasoning } = agent;
    return {
      ...agent,
      text: text + textField(event, "text"),
      reasoning: reasoning + textField(event, "reasoning"),
    };
  }
  // Of an attempt that was slower, the end may come after the agent's own.
  if (type === "hedge_started") {
    const worker = textField(data, "worker");
    return {
      ...agent,
      hedge: { worker, startedMs: atMs, endedMs: undefined, outcome: "", tokens: undefined },
    };
  }
  if (type === "hedge_ended" && agent.hedge !== undefined) {
    const end = { endedMs: atMs, outcome: textField(data, "outcome"), tokens: numberAt(data, "tokens") };
    return { ...agent, hedge: { ...agent.hedge, ...end } };
  }
  // What is over stays so, whatever still comes of it.
  if (isEnd(agent.phase)) return agent;
  switch (type) {
    case "warm_sent":
      return agent.phase === "waiting" ? { ...agent, phase: "reading" } : agent;
    case "warm_done": {
      if (atMs === undefined) return agent;
      const span = { fromMs: Math.max(0, atMs - (numberAt(data, "ms") ?? 0)), toMs: atMs };
      return { ...agent, warms: [...agent.warms, span] };
    }
    case "agent_queued":
      return { ...agent, phase: "queued", queuedMs: atMs };
    case "agent_placed":
      return { ...agent, phase: "prefill", placedMs: atMs, worker: textField(data, "worker") };
    case "agent_first_token":
      return { ...agent, phase: "writing", firstTokenMs: agent.firstTokenMs ?? atMs };
    case "agent_retried":
    case "agent_resumed":
    case "agent_restarted":
      return { ...agent, retries: agent.retries + 1 };
    case "agent_fell_back":
      return {
        ...agent,
        fallback: {
          model: textField(data, "to"),
          reason: textField(data, "reason"),
          error: textField(data, "error"),
        },
      };
    case "agent_done":
    case "agent_failed":
    case "agent_cancelled":
      return {
        ...agent,
        phase: type === "agent_done" ? "done" : type === "agent_failed" ? "failed" : "cancelled",
        endedMs: atMs,
        tokens: numberAt(data, "tokens"),
        reason: textField(data, "error"),
        finishReason: textField(data, "finish_reason"),
      };
    default:
      return agent;
  }
}
