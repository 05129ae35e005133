import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fallbackWords, hedgeWords } from "../../../page/state/agent_words.ts";
import { criticalAgents, ganttRows } from "../../../page/state/gantt.ts";
import { fieldOf, listField, numberAt, textField } from "../../../page/state/json_fields.ts";
import { layersOf } from "../../../page/state/layers.ts";
import { plannedRun, recordedRun, type RunView, withEvent } from "../../../page/state/run_view.ts";
import { fc } from "../../properties.ts";

// A run of the laboratory's tree, and the events that a page beside it was sent.
const fixture: unknown = JSON.parse(
  readFileSync(new URL("../../fixtures/page/run.json", import.meta.url), "utf8"),
);
const record = fieldOf(fixture, "record");
const events = listField(fixture, "events");
const planned = plannedRun(record);
const follow = (some: readonly unknown[]): RunView => some.reduce<RunView>(withEvent, planned);

test("the events of a run lead to what its record says: texts, states, tokens, times", () => {
  const followed = follow(events);
  const recorded = recordedRun(record);
  assert.equal(followed.state, "done");
  assert.deepEqual(followed.decisions.map(({ cluster, exit }) => [cluster, exit]), [
    ["l1.c1", true],
    ["l1.c2", true],
    ["l1.c3", true],
  ]);
  for (const [at, agent] of followed.agents.entries()) {
    const expected = recorded.agents[at];
    assert.equal(agent.text, expected?.text, agent.id);
    assert.equal(agent.phase, expected?.phase);
    assert.equal(agent.tokens, expected?.tokens);
    assert.equal(agent.reason, expected?.reason);
    assert.deepEqual(agent.warms, expected?.warms);
    const told = listField(record, "usage", "agents").find((one) => textField(one, "agent") === agent.id);
    assert.equal(agent.tokens, numberAt(told, "completion_tokens"), "the tokens that the usage counts");
  }
  assert.equal(followed.agents.filter(({ phase }) => phase === "cancelled").length, 3);
});

test("at every moment texts only grow, and what has ended stays as it ended", () => {
  let run = planned;
  const ends = ["done", "failed", "cancelled"];
  for (const event of events) {
    const next = withEvent(run, event);
    for (const [at, agent] of next.agents.entries()) {
      const before = run.agents[at];
      assert.ok(before !== undefined && agent.text.startsWith(before.text));
      if (ends.includes(before.phase)) assert.equal(agent.phase, before.phase);
    }
    run = next;
  }
});

test("events of different agents may come in any order, as long as each agent's own keep theirs", () => {
  const byAgent = [...Map.groupBy(events, (event) => textField(event, "agent")).values()];
  const whole = follow(byAgent.flat());
  fc.assert(
    fc.property(fc.infiniteStream(fc.nat()), (draws) => {
      const queues = byAgent.map((all) => [...all]);
      const mixed: unknown[] = [];
      for (const draw of draws) {
        const open = queues.filter((queue) => queue.length > 0);
        if (open.length === 0) break;
        mixed.push(open[draw % open.length]?.shift());
      }
      assert.deepEqual(follow(mixed).agents, whole.agents);
    }),
    { numRuns: 5 },
  );
});

test("whatever stands in an event, nothing breaks and no agent appears", () => {
  const names = ["agent_done", "agent_delta", "warm_done", "exit_decided", "run_done", "agent_placed"];
  const event = fc.oneof(
    fc.jsonValue(),
    fc.record({
      type: fc.constantFrom(...names),
      agent: fc.constantFrom("l1.c1.a1", "__proto__", "nobody"),
      text: fc.jsonValue(),
      at_ms: fc.jsonValue(),
      data: fc.jsonValue(),
    }),
  );
  fc.assert(fc.property(fc.array(event), (some) => {
    const run = follow(some);
    assert.deepEqual(run.agents.map(({ id }) => id), planned.agents.map(({ id }) => id));
    assert.ok(run.agents.every(({ text }) => typeof text === "string"));
  }));
});

test("the layers of a tree are its clusters; names of a graph's own are laid out by who reads whom", () => {
  const layers = layersOf(planned.agents).map((clusters) =>
    clusters.map(({ id, agents }) => [id, agents.length])
  );
  assert.deepEqual(layers, [[["l1.c1", 3], ["l1.c2", 3], ["l1.c3", 3]], [["l2.c1", 3]], [["l3.c1", 1]]]);
  const agents = [{ id: "judge", reads: ["pro", "con"] }, { id: "pro" }, { id: "con", reads: ["pro"] }];
  const named = plannedRun({ agents });
  assert.deepEqual(
    layersOf(named.agents).map((clusters) => clusters.map((cluster) => cluster.agents.map(({ id }) => id))),
    [[["pro"]], [["con"]], [["judge"]]],
  );
  const circle = plannedRun({ agents: [{ id: "a", reads: ["b"] }, { id: "b", reads: ["a"] }] });
  assert.equal(layersOf(circle.agents).flat().length, 2);
});

test("the critical path goes from a leaf to the root, each reading the one before and ending after it", () => {
  const run = recordedRun(record);
  const path = criticalAgents(run).map((id) => run.agents.find((agent) => agent.id === id));
  assert.deepEqual(path.map((agent) => agent?.id.slice(0, 2)), ["l1", "l2", "l3"]);
  for (const [at, agent] of path.slice(1).entries()) {
    const before = path[at];
    assert.ok(agent !== undefined && before !== undefined && agent.reads.includes(before.id));
    assert.ok((agent.endedMs ?? 0) > (before.endedMs ?? 0));
    assert.equal(before.phase, "done", "nobody waited for what was cancelled");
  }
});

test("queue, prefill and decode of an agent follow each other without gaps, and end when it ended", () => {
  for (const { agent, segments } of ganttRows(recordedRun(record))) {
    const own = segments.filter(({ kind }) => kind !== "warm");
    assert.equal(own[0]?.fromMs, agent.queuedMs, agent.id);
    assert.equal(own.at(-1)?.toMs, agent.endedMs, agent.id);
    for (const [at, segment] of own.slice(1).entries()) assert.equal(segment.fromMs, own[at]?.toMs);
    for (const { fromMs, toMs } of segments) assert.ok(fromMs <= toMs);
  }
});

test("what has no place in the tree is a note with its reason, and nothing that the tree shows is one", () => {
  assert.deepEqual(recordedRun(record).notes, []);
  const data = { reason: "the router does not know the model's tokenizer" };
  const run = withEvent(planned, { at_ms: 4, type: "warm_off", agent: "l2.c1.a1", data });
  assert.deepEqual(run.notes, [{ atMs: 4, type: "warm_off", agent: "l2.c1.a1", data }]);
  assert.deepEqual(run.agents, planned.agents);
});

test("who was asked in an agent's place, and its second attempt, are told by events as by the record", () => {
  const agent = "l1.c1.a1";
  const happened = [
    { at_ms: 5, type: "agent_fell_back", agent, data: { to: "big", reason: "full", error: "429: full" } },
    { at_ms: 6, type: "hedge_started", agent, data: { worker: "w2" } },
    { at_ms: 9, type: "agent_done", agent, data: { tokens: 3 } },
    { at_ms: 9, type: "hedge_ended", agent, data: { worker: "w2", outcome: "lost", tokens: 2 } },
  ];
  const hedge = { worker: "w2", started_at_ms: 6, ended_at_ms: 9, outcome: "lost", tokens: 2 };
  const own = { id: agent, model: "small", state: "done" };
  const plan = { agents: [own] };
  const told = happened.reduce<RunView>(withEvent, plannedRun(plan)).agents[0];
  const recorded = recordedRun({
    agents: [{ ...own, hedge, fallback: { model: "big", reason: "full" } }],
    events: happened,
  }).agents[0];
  assert.ok(told !== undefined && recorded !== undefined);
  assert.deepEqual([recorded.fallback, recorded.hedge], [told.fallback, told.hedge]);
  assert.equal(fallbackWords(told), "Answered by big, because all workers of small were full: 429: full");
  assert.equal(
    hedgeWords(told, (ms) => `${ms} ms`),
    "Second attempt on w2 from 6 ms to 9 ms, 2 tokens: lost, the first attempt was faster or the agent was not " +
      "needed any more",
  );
  assert.deepEqual(
    ganttRows({ ...plannedRun(plan), agents: [told] })[0]?.segments.filter(({ kind }) => kind === "second"),
    [{ kind: "second", fromMs: 6, toMs: 9 }],
  );
  const alone = plannedRun({ agents: [{ ...own, hedge: null }] }).agents[0];
  assert.ok(alone !== undefined);
  assert.deepEqual([fallbackWords(alone), hedgeWords(alone, String)], [undefined, undefined]);
});

test("each reason of a fallback is in words, and while nothing is answered, the other model is only asked", () => {
  const words = ["no_worker", "failed", "new_reason"].map((reason) => {
    const data = { to: "b", reason };
    const [agent] = withEvent(plannedRun({ agents: [{ id: "x", model: "a" }] }), {
      at_ms: 1,
      type: "agent_fell_back",
      agent: "x",
      data,
    }).agents;
    return agent === undefined ? "" : fallbackWords(agent);
  });
  assert.deepEqual(words, [
    "Asked of b, because no worker of a could take it",
    "Asked of b, because all attempts at workers of a failed",
    "Asked of b, because a could not answer (new_reason)",
  ]);
});

test("a record says whether its texts were kept", () => {
  assert.equal(recordedRun(record).textsKept, true);
  assert.equal(recordedRun({ texts_kept: false, agents: [] }).textsKept, false);
});
