import type { JsonObject } from "../../base/json.ts";
import { dataWithoutTexts } from "../../router/http/runs/without_texts.ts";
import type { ShownRun } from "./shown_run.ts";

type Agent = ShownRun["agents"][number];
type Event = ShownRun["events"][number];

/** A part of an agent's time, in ms from the run's start. */
interface Slice {
  readonly name: "queue" | "wait" | "warm" | "prefill" | "decode" | "second attempt";
  readonly fromMs: number;
  readonly toMs: number;
  readonly args: JsonObject;
}

/** One agent with its events, which its record's own times have been laid over. */
interface Track {
  readonly id: string;
  readonly model: string;
  readonly agent: Agent | undefined;
  readonly events: readonly Event[];
  /** Thread id in the trace; that of what goes on beside it is the next one. */
  readonly tid: number;
}

/** Process id of the only process in a trace. */
const PID = 1;
/** Thread id of the run's own track. */
const RUN_TID = 1;
/** Events of an agent that are shown as moments. */
const MOMENTS =
  /^(?:agent_(?:retried|resumed|restarted|fell_back|step|looped|cut)|hedge_refused|warm_(?:off|held|failed|stopped)|answers_cut|max_tokens_lowered|staircase_off)$/;
/** Events of the whole run that are shown as moments: its decisions, and what was left off. */
const RUN_MOMENTS =
  /^(?:exit_decided|audit_raised|consensus_(?:decided|audited|off)|cluster_closed|root_decided|stage_started|rewrite_(?:started|ended)|budget_(?:refused|spent)|staircase_off|trace_full)$/;

/**
 * A run in the Trace Event Format, which chrome://tracing and ui.perfetto.dev open: times in µs from the run's start,
 * a thread for each agent, flow arrows from the end of a precursor to the prefill of who reads it. Without texts.
 */
export function chromeTrace(run: ShownRun): JsonObject {
  const tracks = tracksOf(run);
  const slices = new Map(tracks.map((track) => [track.id, slicesOf(track)]));
  const endMs = run.duration_ms ?? Math.max(0, ...run.events.map((event) => event.at_ms));
  return {
    traceEvents: [
      { name: "process_name", ph: "M", pid: PID, tid: RUN_TID, args: { name: `${run.graph} ${run.id}` } },
      ...threadNamed("run", RUN_TID),
      sliceEvent({ name: run.state, fromMs: 0, toMs: endMs, args: { run: run.id } }, {
        cat: "run",
        tid: RUN_TID,
      }),
      ...run.events.flatMap((event) => RUN_MOMENTS.test(event.type) ? [moment(event, RUN_TID)] : []),
      ...tracks.flatMap((track) => trackEvents(track, slices.get(track.id) ?? [])),
      ...flowEvents(tracks, slices),
    ],
    displayTimeUnit: "ms",
    otherData: {
      run: run.id,
      graph: run.graph,
      state: run.state,
      created_unix_s: run.created,
      prompt_tokens: run.usage.prompt_tokens,
      completion_tokens: run.usage.completion_tokens,
    },
  };
}

/** A track for each agent of the record, then for whoever else has worked for the run, such as a judge. */
function tracksOf(run: ShownRun): Track[] {
  const agents = new Map(run.agents.map((agent) => [agent.id, agent]));
  const others = run.events.flatMap(({ agent }) => agent === undefined || agents.has(agent) ? [] : [agent]);
  return [...new Set([...agents.keys(), ...others])].map((id, index) => {
    const agent = agents.get(id);
    const own = run.events.filter((event) => event.agent === id);
    return {
      id,
      model: agent?.model ?? "",
      agent,
      events: agent === undefined ? own : withRecordedTimes(own, agent, run.duration_ms),
      tid: RUN_TID + 1 + 2 * index,
    };
  });
}

/** Events at the times that the record says; those that the trace has no more room for are made from it. */
function withRecordedTimes(events: readonly Event[], agent: Agent, durationMs: number | undefined): Event[] {
  const isEnd = ({ type }: Event) => /^agent_(?:done|failed|cancelled)$/.test(type);
  const endedMs = agent.ended_at_ms ?? (agent.started_at_ms === undefined ? undefined : durationMs);
  const times = [
    { is: ({ type }: Event) => type === "agent_queued", type: "agent_queued", atMs: agent.started_at_ms },
    {
      is: ({ type }: Event) => type === "agent_first_token",
      type: "agent_first_token",
      atMs: agent.first_token_at_ms,
    },
    { is: isEnd, type: `agent_${agent.state}`, atMs: endedMs },
  ];
  const timed = [...events];
  for (const { is, type, atMs } of times) {
    if (atMs === undefined) continue;
    const at = timed.findLastIndex(is);
    if (at >= 0) timed[at] = { ...timed[at]!, at_ms: atMs };
    else timed.push({ at_ms: atMs, type, agent: agent.id });
  }
  // Sorting is stable: of the same time, what happened first comes first.
  return timed.sort((a, b) => a.at_ms - b.at_ms);
}

/** Waiting for a place, prefill and decode of each attempt, without gaps; what was read ahead lies before and beside. */
function slicesOf({ events, agent }: Track): Slice[] {
  const slices: Slice[] = [];
  let open: Omit<Slice, "toMs"> | undefined;
  let hasBegun = false;
  const close = (toMs: number, args: JsonObject = {}) => {
    if (open !== undefined && toMs > open.fromMs) {
      slices.push({ ...open, toMs, args: { ...open.args, ...args } });
    }
    open = undefined;
  };
  const turn = (name: Slice["name"], { at_ms: fromMs, data = {} }: Event, ended: JsonObject = {}) => {
    close(fromMs, ended);
    open = { name, fromMs, args: name === "queue" || name === "wait" ? {} : data };
  };
  for (const event of events) {
    const { type, data = {} } = event;
    if (type === "agent_queued") turn("queue", event);
    else if (type === "agent_placed") turn(hasBegun ? "decode" : "prefill", event);
    else if (type === "agent_first_token") {
      hasBegun = true;
      turn("decode", { ...event, data: open?.args ?? {} });
    } else if (type === "agent_retried" || type === "agent_fell_back") turn("queue", event, data);
    else if (type === "agent_restarted") hasBegun = false;
    else if (type === "agent_step" && data["last"] !== true) turn("wait", event, data);
    else if (/^agent_(?:done|failed|cancelled)$/.test(type)) close(event.at_ms, data);
  }
  if (agent?.hedge !== null && agent?.hedge !== undefined) slices.push(...secondAttempt(agent.hedge, agent));
  return [...slices, ...warmsOf(events)];
}

function secondAttempt(hedge: NonNullable<Agent["hedge"]>, agent: Agent): Slice[] {
  const { worker, outcome, started_at_ms: fromMs } = hedge;
  const toMs = hedge.ended_at_ms ?? agent.ended_at_ms;
  const args = { worker, outcome: outcome ?? null };
  return toMs === undefined ? [] : [{ name: "second attempt", fromMs, toMs, args }];
}

/** Warms that have ended by themselves: of one that was broken off, the trace has no end. */
function warmsOf(events: readonly Event[]): Slice[] {
  let sent: Event | undefined;
  return events.flatMap((event): Slice[] => {
    if (event.type === "warm_sent") sent = event;
    else if (event.type === "warm_done" || event.type === "warm_failed") {
      const begun = sent;
      sent = undefined;
      const args = { ...begun?.data, ...event.data };
      if (begun !== undefined) return [{ name: "warm", fromMs: begun.at_ms, toMs: event.at_ms, args }];
    }
    return [];
  });
}

/** An agent's track; slices that would lie across others of it go to one more, right below. */
function trackEvents(track: Track, slices: readonly Slice[]): JsonObject[] {
  const { id, model, tid, events } = track;
  const own = slices.filter((slice) => !isBeside(slice, slices));
  const beside = slices.filter((slice) => isBeside(slice, slices));
  const cat = "agent";
  return [
    ...threadNamed(model === "" ? id : `${id} (${model})`, tid),
    ...own.map((slice) => sliceEvent(slice, { cat, tid })),
    ...(beside.length === 0 ? [] : threadNamed(`${id}, beside`, tid + 1)),
    ...beside.map((slice) => sliceEvent(slice, { cat, tid: tid + 1 })),
    ...events.flatMap((event) => MOMENTS.test(event.type) ? [moment(event, tid)] : []),
  ];
}

/** True for a second attempt, and for a warm that went on while the call itself waited or read. */
function isBeside(slice: Slice, all: readonly Slice[]): boolean {
  if (slice.name !== "warm") return slice.name === "second attempt";
  return all.some(({ name, fromMs, toMs }) => name !== "warm" && fromMs < slice.toMs && slice.fromMs < toMs);
}

/** Arrows from the end of each precursor whose answer was read to the prefill of its reader. */
function flowEvents(tracks: readonly Track[], slices: ReadonlyMap<string, readonly Slice[]>): JsonObject[] {
  const byId = new Map(tracks.map((track) => [track.id, track]));
  let id = 0;
  return tracks.flatMap(({ agent, tid, id: reader }) => {
    const parts = slices.get(reader) ?? [];
    const target = parts.find(({ name }) => name === "prefill") ??
      parts.find(({ name }) => name === "decode");
    if (target === undefined) return [];
    return (agent?.reads ?? []).flatMap((precursor): JsonObject[] => {
      const from = byId.get(precursor);
      const endedMs = from?.agent?.ended_at_ms;
      if (from?.agent?.state !== "done" || endedMs === undefined || endedMs > target.fromMs) return [];
      const arrow = { name: "reads", cat: "reads", id: ++id, pid: PID };
      return [
        { ...arrow, ph: "s", ts: micros(endedMs), tid: from.tid },
        { ...arrow, ph: "f", bp: "e", ts: micros(target.fromMs), tid },
      ];
    });
  });
}

function sliceEvent(
  { name, fromMs, toMs, args }: Omit<Slice, "name"> & { readonly name: string },
  { cat, tid }: { readonly cat: string; readonly tid: number },
): JsonObject {
  const ts = micros(fromMs);
  return {
    name,
    cat,
    ph: "X",
    ts,
    dur: nanos(micros(toMs) - ts),
    pid: PID,
    tid,
    args: dataWithoutTexts(args),
  };
}

function moment({ type, at_ms: atMs, cluster, data = {} }: Event, tid: number): JsonObject {
  const exits = type === "exit_decided" || type === "consensus_decided";
  const verb = exits && data["exit"] === true ? "exit" : type;
  const name = cluster === undefined ? verb : `${verb} ${cluster}`;
  return {
    name,
    cat: exits ? "exit" : "event",
    ph: "i",
    s: "t",
    ts: micros(atMs),
    pid: PID,
    tid,
    args: dataWithoutTexts(data),
  };
}

/** A name of a thread, which stands where its id says. */
function threadNamed(name: string, tid: number): JsonObject[] {
  const event = { ph: "M", pid: PID, tid };
  return [
    { ...event, name: "thread_name", args: { name } },
    { ...event, name: "thread_sort_index", args: { sort_index: tid } },
  ];
}

/** Milliseconds as µs, to the nanosecond. */
function micros(ms: number): number {
  return nanos(ms * 1000);
}

function nanos(us: number): number {
  return Math.round(us * 1000) / 1000;
}
