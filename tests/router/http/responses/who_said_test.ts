import assert from "node:assert/strict";
import { test } from "node:test";
import { whoSaid } from "../../../../router/http/responses/who_said.ts";
import type { AgentRecord } from "../../../../router/moa/record/run_record.ts";

function agent(id: string, fields: Partial<AgentRecord>): AgentRecord {
  return {
    id,
    model: "4b",
    state: "done",
    worker: undefined,
    prompt: undefined,
    text: `text of ${id}`,
    reasoning: "",
    finishReason: "stop",
    error: undefined,
    startedAtMs: 0,
    firstTokenAtMs: 1,
    endedAtMs: 2,
    resumes: 0,
    restarts: 0,
    usage: undefined,
    ...fields,
  };
}

test("a summary tells what became of each agent but the root, and of one that still writes when it has ended", () => {
  const agents = (last: Partial<AgentRecord>) => [
    agent("a1", { finishReason: "length" }),
    agent("a2", { state: "failed", error: "the worker w1 broke off" }),
    agent("a3", { state: "cancelled" }),
    agent("a4", last),
    agent("root", { state: "running" }),
  ];
  const told = new Set<string>();
  const options = { detail: "detailed", answering: new Set(["root"]), told } as const;
  assert.deepEqual(whoSaid({ agents: agents({ state: "running" }), rootSkipped: false }, options), [
    "**1 of 3 agents answered**\n\n- a1 (4b): answered, cut at its limit\n" +
    "- a2 (4b): failed: the worker w1 broke off\n- a3 (4b): was not waited for",
    "**a1 (4b)**\n\ntext of a1",
  ]);
  const done = { agents: agents({}), rootSkipped: false };
  assert.deepEqual(whoSaid(done, { ...options, detail: "concise" }), [
    "**1 of 1 agents answered**\n\n- a4 (4b): answered",
  ]);
  assert.deepEqual(whoSaid(done, options), []);
  const skipped = whoSaid({ ...done, rootSkipped: true }, { ...options, told: new Set(), detail: "concise" });
  assert.match(skipped[0] ?? "", /- the root was not asked: the answer is one of theirs$/);
});
