import assert from "node:assert/strict";
import { test } from "node:test";
import { chromeTrace } from "../../../cli/runs/chrome_trace.ts";
import { readShownRun } from "../../../cli/runs/shown_run.ts";

const counts = { calls: 1, prompt_tokens: 10, completion_tokens: 5, cached_tokens: null, wasted_tokens: 0 };
const agent = (id: string, state: string, times: readonly (number | null)[], more: object = {}) => ({
  id,
  model: "4b",
  state,
  reads: [],
  text: `what ${id} said`,
  prompt: { kind: "text", text: "what was asked" },
  error: null,
  started_at_ms: times[0] ?? null,
  first_token_at_ms: times[1] ?? null,
  ended_at_ms: times[2] ?? null,
  hedge: null,
  ...more,
});
const [A1, A2, ROOT] = ["l1.c1.a1", "l1.c1.a2", "l2.c1.a1"];
const note = (at_ms: number, type: string, agent: string, data?: object) => ({ at_ms, type, agent, data });

/** Two precursors, of which one is cut off by an exit, and a root whose prompt is read ahead. */
const RECORD = {
  id: "run_1",
  object: "run",
  graph: "moa",
  state: "done",
  created: 1_700_000_000,
  duration_ms: 1000.5,
  error: null,
  usage: { ...counts, agents: [] },
  agents: [
    agent(A1, "done", [0.25, 100.0005, 500]),
    agent(A2, "cancelled", [0.25, null, 500]),
    agent(ROOT, "done", [500, 600, 1000], { reads: [A1, A2] }),
  ],
  exits: [],
  events: [
    { at_ms: 0, type: "run_started" },
    // The record's own times are a little earlier than those of the events.
    note(0.3, "agent_queued", A1),
    note(0.3, "agent_queued", A2),
    note(10, "agent_placed", A1, { worker: "4b.w1", request: "r1" }),
    note(12, "agent_placed", A2, { worker: "4b.w2", request: "r2" }),
    note(50, "agent_retried", A2, { worker: "4b.w2", error: "it broke off" }),
    note(55, "agent_fell_back", A2, { from: "4b", to: "8b", reason: "unreachable" }),
    note(60, "agent_placed", A2, { worker: "4b.w1", request: "r3" }),
    note(100.1, "agent_first_token", A1),
    note(200, "warm_sent", ROOT, { tokens: 64, from: 0 }),
    note(250, "warm_done", ROOT, { tokens: 64, ms: 50 }),
    note(490, "warm_sent", ROOT, { tokens: 128, from: 64 }),
    note(500.1, "agent_done", A1, { tokens: 5 }),
    {
      at_ms: 500.2,
      type: "exit_decided",
      cluster: "l1.c1",
      data: { exit: true, answers: [{ kind: "number", text: "forty-two", value: "42" }] },
    },
    note(500.3, "agent_cancelled", A2, { tokens: 0, error: "not needed" }),
    note(500.4, "agent_queued", ROOT),
    note(510, "warm_done", ROOT, { tokens: 128, ms: 20 }),
    note(520, "agent_placed", ROOT, { worker: "4b.w1", request: "r4" }),
    note(600.1, "agent_first_token", ROOT),
    note(1000.1, "agent_done", ROOT, { tokens: 9 }),
    { at_ms: 1000.5, type: "run_done", data: {} },
  ],
};

type TraceRow = {
  name: string;
  ph: string;
  ts: number;
  dur?: number;
  tid: number;
  id?: number;
  bp?: string;
  args: Record<string, unknown>;
};

function traced(record: object = RECORD) {
  const body = JSON.parse(JSON.stringify(record));
  const trace = JSON.parse(JSON.stringify(chromeTrace(readShownRun(body))));
  const rows: TraceRow[] = trace.traceEvents;
  const tracks = new Map(
    rows.flatMap(({ name, tid, args }) => name === "thread_name" ? [[tid, args["name"]] as const] : []),
  );
  return { trace, rows, trackOf: ({ tid }: TraceRow) => tracks.get(tid) };
}

test("each agent has a track with its queue, prefill, decode and warms, at the very times of its record", () => {
  const { rows, trackOf } = traced();
  const slices = rows.flatMap((row) =>
    row.ph === "X" ? [`${trackOf(row)}: ${row.name} ${row.ts} +${row.dur}`] : []
  );
  assert.deepEqual(slices, [
    "run: done 0 +1000500",
    `${A1} (4b): queue 250 +9750`,
    `${A1} (4b): prefill 10000 +90000.5`,
    `${A1} (4b): decode 100000.5 +399999.5`,
    `${A2} (4b): queue 250 +11750`,
    `${A2} (4b): prefill 12000 +38000`,
    `${A2} (4b): queue 50000 +5000`,
    `${A2} (4b): queue 55000 +5000`,
    `${A2} (4b): prefill 60000 +440000`,
    `${ROOT} (4b): queue 500000 +20000`,
    `${ROOT} (4b): prefill 520000 +80000`,
    `${ROOT} (4b): decode 600000 +400000`,
    `${ROOT} (4b): warm 200000 +50000`,
    `${ROOT}, beside: warm 490000 +20000`,
  ]);
  const decode = rows.find((row) => row.name === "decode");
  assert.deepEqual(decode?.args, { worker: "4b.w1", request: "r1", tokens: 5 });
});

test("an arrow goes from the end of each answer that was read to the prefill of its reader", () => {
  const { rows, trackOf } = traced();
  const arrows = rows.filter(({ ph }) => ph === "s" || ph === "f");
  assert.deepEqual(arrows.map((row) => [row.ph, trackOf(row), row.ts, row.id, row.bp]), [
    ["s", `${A1} (4b)`, 500_000, 1, undefined],
    ["f", `${ROOT} (4b)`, 520_000, 1, "e"],
  ]);
});

test("exits and retries are moments with the figures behind them, and nothing that was asked or said is in a trace", () => {
  const { trace, rows, trackOf } = traced();
  const moments = rows.filter(({ ph }) => ph === "i");
  assert.deepEqual(moments.map((row) => [trackOf(row), row.name, row.ts]), [
    ["run", "exit l1.c1", 500_200],
    [`${A2} (4b)`, "agent_retried", 50_000],
    [`${A2} (4b)`, "agent_fell_back", 55_000],
  ]);
  assert.deepEqual(moments[0]?.args, { exit: true, answers: [{ kind: "number" }] });
  assert.doesNotMatch(JSON.stringify(trace), /what was asked|what l1|forty-two|"42"/);
});

test("every event has the members that the Trace Event Format requires of its phase", () => {
  const { trace, rows } = traced();
  assert.equal(trace.displayTimeUnit, "ms");
  const required: Record<string, readonly string[]> = {
    X: ["name", "cat", "ts", "dur", "args"],
    i: ["name", "cat", "ts", "s"],
    s: ["name", "cat", "ts", "id"],
    f: ["name", "cat", "ts", "id"],
    M: ["name", "args"],
  };
  for (const row of rows) {
    const names = ["ph", "pid", "tid", ...required[row.ph] ?? assert.fail(`phase ${row.ph}`)];
    for (const name of names) assert.ok(Object.hasOwn(row, name), `${name} in ${JSON.stringify(row)}`);
    assert.ok(row.ph === "M" || Number.isFinite(row.ts));
  }
  // Slices of one track lie one after the other, as both viewers want them.
  for (const tid of new Set(rows.map((row) => row.tid))) {
    const slices = rows.filter((row) => row.ph === "X" && row.tid === tid).sort((a, b) => a.ts - b.ts);
    slices.reduce((endUs, { ts, dur = 0 }) => (assert.ok(ts >= endUs, `track ${tid} at ${ts}`), ts + dur), 0);
  }
});

test("a run whose trace was full, or still goes on, has what its record tells", () => {
  const { rows, trackOf } = traced({ ...RECORD, events: RECORD.events.slice(0, 3) });
  const slices = rows.flatMap((row) => row.ph === "X" ? [`${trackOf(row)}: ${row.name} ${row.ts}`] : []);
  assert.deepEqual(slices, [
    "run: done 0",
    `${A1} (4b): queue 250`,
    `${A1} (4b): decode 100000.5`,
    `${A2} (4b): queue 250`,
    `${ROOT} (4b): queue 500000`,
    `${ROOT} (4b): decode 600000`,
  ]);
  const live = {
    ...RECORD,
    state: "running",
    duration_ms: null,
    agents: [agent(A1, "running", [0, 5]), agent(A2, "waiting", [])],
    events: [{ at_ms: 0, type: "run_started" }],
  };
  assert.deepEqual(traced(live).rows.filter(({ ph }) => ph === "X").map(({ name }) => name), [
    "running",
    "queue",
  ]);
});
