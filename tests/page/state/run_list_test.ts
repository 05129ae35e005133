import assert from "node:assert/strict";
import { test } from "node:test";
import { filteredRuns, listedRuns, RUN_FILTERS, stateOfFilter } from "../../../page/state/run_list.ts";

const runs = listedRuns({
  data: [
    { id: "run_a", graph: "moa", state: "running", usage: { calls: 3 } },
    { id: "run_b", graph: "moa", state: "done", early_exits: 2, usage: { prompt_tokens: 7, cost: 0.002 } },
    { id: "run_c", graph: "dense", state: "failed", error: { message: "No worker", code: "no_worker" } },
    {
      id: "run_d",
      graph: "moa",
      state: "done",
      usage: { degraded: { agents: 3, failed: [{ agent: "x" }], more: 2 } },
    },
  ],
});

test("each filter leaves the runs that it names, and a search those with all of its words", () => {
  const ids = (filter: (typeof RUN_FILTERS)[number], search = "") =>
    filteredRuns(runs, { filter, search }).map(({ id }) => id.slice(-1)).join("");
  assert.equal(RUN_FILTERS.map((filter) => ids(filter)).join(" "), "abcd a c  d b");
  assert.equal(ids("all", "moa DONE"), "bd");
  assert.equal(ids("all", "no worker"), "c");
  assert.equal(ids("failed", "moa"), "");
  assert.equal(runs[3]?.failedAgents, 3);
  assert.deepEqual(RUN_FILTERS.map(stateOfFilter), ["", "running", "failed", "cancelled", "", ""]);
});

test("a run has a cost where its models have prices", () => {
  assert.deepEqual(runs.map(({ cost }) => cost), [undefined, 0.002, undefined, undefined]);
});

test("an answer that is no list has no runs", () => {
  for (const answer of [undefined, null, {}, { data: 3 }, "x"]) assert.deepEqual(listedRuns(answer), []);
});
