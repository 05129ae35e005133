import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { criticalAgents } from "../../../page/state/gantt.ts";
import { fieldOf, listField, numberAt, textField } from "../../../page/state/json_fields.ts";
import { recordedRun } from "../../../page/state/run_view.ts";
import { timeFigures } from "../../../page/state/time_figures.ts";

/** An agent of a record: [id, state, model, first token, end, reads]. */
type Row = readonly [string, string, string, number | undefined, number, readonly string[]];

const done = (
  rows: readonly Row[],
  more: Readonly<Record<string, readonly [tokens: number, saved: number]>>,
) =>
  recordedRun({
    state: "done",
    duration_ms: 900,
    agents: rows.map(([id, state, model, first, end, reads]) => ({
      id,
      state,
      model,
      reads,
      started_at_ms: 0,
      first_token_at_ms: first,
      ended_at_ms: end,
    })),
    usage: {
      agents: rows.map(([agent, , model]) => ({
        agent,
        model,
        completion_tokens: more[agent]?.[0] ?? 11,
        saved_tokens_estimate: more[agent]?.[1] ?? 0,
      })),
    },
    events: [
      { at_ms: 150, type: "warm_done", agent: "root", data: { ms: 100 } },
      { at_ms: 180, type: "warm_done", agent: "root", data: { ms: 100 } },
      { at_ms: 330, type: "warm_done", agent: "root", data: { ms: 60 } },
      ...rows.map(([agent, , , , at_ms]) => ({
        at_ms,
        type: rows.find(([id]) => id === agent)?.[1] === "cancelled" ? "agent_cancelled" : "agent_done",
        agent,
        data: { tokens: more[agent]?.[0] ?? 11 },
      })),
    ],
  });

test("from answers to first tokens and reading ahead are what the record has measured, on the path alone", () => {
  const run = done([
    ["a", "done", "m", 20, 300, []],
    ["b", "done", "m", 20, 100, []],
    ["root", "done", "m", 340, 500, ["a", "b"]],
  ], {});
  assert.deepEqual(criticalAgents(run), ["a", "root"]);
  // Read ahead from 50 to 180 and from 270 on, until the last of what it reads was there at 300.
  assert.deepEqual(timeFigures(run), { handOverMs: 40, aheadMs: 160, sparedMs: undefined });
});

test("what an exit spared is the time for the tokens that were lacking, at the pace of who was cut off", () => {
  const rows: readonly Row[] = [
    ["a", "done", "m", 20, 300, []],
    ["slow", "cancelled", "m", 100, 310, []],
    ["late", "cancelled", "n", undefined, 310, []],
    ["other", "done", "n", 100, 300, []],
    ["root", "done", "m", 340, 500, ["a", "slow", "late", "other"]],
  ];
  // 22 tokens in 210 ms; its fellow of the model n wrote 11 in 200 ms.
  const cut = { slow: [22, 30], late: [0, 5] } as const;
  assert.equal(timeFigures(done(rows, cut)).sparedMs, 300);
  assert.equal(timeFigures(done(rows, { ...cut, late: [0, 20] })).sparedMs, 400);
  const alone = rows.map((row) => row[0] === "other" ? ["other", "done", "m", 100, 300, []] as const : row);
  assert.equal(timeFigures(done(alone, cut)).sparedMs, undefined, "nobody's pace is known for n");
  assert.equal(timeFigures(done(alone, { ...cut, late: [0, 0] })).sparedMs, 300);
});

test("an agent that is later makes its readers later, by no more than it was the last that they waited for", () => {
  const rows: readonly Row[] = [
    ["a", "done", "m", 0, 100, []],
    ["cut", "cancelled", "m", 0, 100, []],
    ["left", "done", "m", 100, 200, ["a", "cut"]],
    ["right", "done", "m", 0, 260, []],
    ["root", "done", "m", 300, 400, ["left", "right"]],
  ];
  // 10 ms for each token.
  assert.equal(timeFigures(done(rows, { cut: [11, 10] })).sparedMs, 40);
  assert.equal(timeFigures(done(rows, { cut: [11, 5] })).sparedMs, 0);
});

test("a run without its last agent, and one that has failed, tell of no spared time", () => {
  const rows: readonly Row[] = [["a", "done", "m", 0, 100, []], ["root", "cancelled", "m", undefined, 100, [
    "a",
  ]]];
  assert.equal(timeFigures(done(rows, {})).sparedMs, undefined);
});

test("figures of a recorded run are within its length, and need its exits", () => {
  const fixture: unknown = JSON.parse(
    readFileSync(new URL("../../fixtures/page/run.json", import.meta.url), "utf8"),
  );
  const record = fieldOf(fixture, "record");
  const { handOverMs = -1, aheadMs = -1, sparedMs = -1 } = timeFigures(recordedRun(record));
  const duration = numberAt(record, "duration_ms") ?? 0;
  for (const ms of [handOverMs, aheadMs, sparedMs]) assert.ok(ms > 0 && ms < duration, `${ms}`);
  const cut = listField(record, "agents").filter((agent) => textField(agent, "state") === "cancelled");
  assert.equal(cut.length, 3);
});
