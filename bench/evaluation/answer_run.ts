import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";

/** An agent of the run behind an answer; times in ms from the run's start, null for what never came. */
export interface RunAgent {
  readonly id: string;
  /** The model that answered. */
  readonly model: string;
  /** `done`: its text was used. */
  readonly state: string;
  readonly worker: string | null;
  /** Ids of those that it reads. */
  readonly reads: readonly string[];
  /** When it got its place on a worker. */
  readonly placedMs: number | null;
  readonly firstTokenMs: number | null;
  readonly endedMs: number | null;
  readonly completionTokens: number;
  readonly text: string;
}

/** Something that a run decided, or that befell it; in ms from its start. */
export interface RunNote {
  readonly atMs: number;
  /** As the run's trace calls it, such as `exit_decided`. */
  readonly type: string;
  /** Agent or cluster. */
  readonly of?: string | undefined;
  readonly data?: Json | undefined;
}

/** Time in which a prompt was read ahead; in ms from the run's start. */
export interface RunWarm {
  readonly model: string;
  readonly worker: string | null;
  readonly fromMs: number;
  readonly toMs: number;
}

/** How a graph came to an answer. */
export interface AnswerRun {
  readonly id: string;
  readonly agents: readonly RunAgent[];
  readonly decisions: readonly RunNote[];
  /** As far as the trace has them. */
  readonly warms: readonly RunWarm[];
}

/** Events that say when agents work: the agents' own figures say it, too. */
const ROUTINE = new Set([
  "run_started",
  "run_done",
  "agent_queued",
  "agent_placed",
  "agent_first_token",
  "agent_step",
  "agent_done",
]);

/** The run that a router's record tells of; undefined for what is none. */
export function answerRunOf(record: Json): AnswerRun | undefined {
  if (!isJsonObject(record) || typeof record["id"] !== "string") return undefined;
  const events = objectsIn(record["events"]);
  const agents = objectsIn(record["agents"]);
  const rewrite = isJsonObject(record["rewrite"]) ? record["rewrite"]["agent"] : undefined;
  const known = agents.map((agent) => agentOf(agent, record, events));
  const all = isJsonObject(rewrite)
    ? [...known, { ...agentOf(rewrite, record, events), reads: known.filter(isDone).map(({ id }) => id) }]
    : known;
  return { id: record["id"], agents: all, decisions: decisionsIn(events), warms: warmsIn(events, all) };
}

/** True for an agent whose text was used. */
export function isDone({ state }: RunAgent): boolean {
  return state === "done";
}

function agentOf(agent: JsonObject, record: JsonObject, events: readonly JsonObject[]): RunAgent {
  const id = textIn(agent["id"]) ?? "";
  const placed = events.find((event) => event["type"] === "agent_placed" && event["agent"] === id);
  const usage = isJsonObject(record["usage"]) ? objectsIn(record["usage"]["agents"]) : [];
  const tokens = usage.find((one) => one["agent"] === id)?.["completion_tokens"];
  const fallback = isJsonObject(agent["fallback"]) ? textIn(agent["fallback"]["model"]) : undefined;
  return {
    id,
    model: fallback ?? textIn(agent["model"]) ?? "",
    state: textIn(agent["state"]) ?? "",
    worker: textIn(agent["worker"]) ?? null,
    reads: Array.isArray(agent["reads"]) ? agent["reads"].map(String) : [],
    placedMs: numberIn(placed?.["at_ms"]) ?? numberIn(agent["started_at_ms"]) ?? null,
    firstTokenMs: numberIn(agent["first_token_at_ms"]) ?? null,
    endedMs: numberIn(agent["ended_at_ms"]) ?? null,
    completionTokens: numberIn(tokens) ?? 0,
    text: textIn(agent["text"]) ?? "",
  };
}

function decisionsIn(events: readonly JsonObject[]): RunNote[] {
  return events.flatMap((event) => {
    const type = textIn(event["type"]) ?? "";
    if (ROUTINE.has(type) || type.startsWith("warm_")) return [];
    const of = textIn(event["agent"]) ?? textIn(event["cluster"]);
    const { data } = event;
    return [{ atMs: numberIn(event["at_ms"]) ?? 0, type, of, ...data === undefined ? {} : { data } }];
  });
}

/** A warm ends with the next event of its agent's warming. */
function warmsIn(events: readonly JsonObject[], agents: readonly RunAgent[]): RunWarm[] {
  const sent = new Map<string, JsonObject>();
  return events.flatMap((event) => {
    const [type, id] = [textIn(event["type"]) ?? "", textIn(event["agent"]) ?? ""];
    const begun = sent.get(id);
    const agent = agents.find((one) => one.id === id);
    if (type === "warm_sent") sent.set(id, event);
    if (begun === undefined || agent === undefined || !/^warm_(?:done|failed|stopped)$/.test(type)) return [];
    sent.delete(id);
    const [fromMs = 0, toMs = 0] = [numberIn(begun["at_ms"]), numberIn(event["at_ms"])];
    // Of a pair the prefill server is warmed, and the agent's worker is the other one.
    return [{ model: agent.model, worker: agent.worker, fromMs, toMs }];
  });
}

function objectsIn(value: Json | undefined): JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function textIn(value: Json | undefined): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function numberIn(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}
