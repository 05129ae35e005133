import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { StagedStart } from "../../../../router/moa/exit/staged_start.ts";
import type { AgentNode } from "../../../../router/moa/graph/graph_types.ts";
import { Trace } from "../../../../router/moa/record/trace.ts";

/** An agent that reads nobody. */
function leaf(id: string): AgentNode {
  const template = { kind: "messages", messages: [], responses: { item: [], separator: "" } } as const;
  return { id, model: id, template, sampling: {}, deadlineMs: undefined, onDeadline: "drop", reads: [] };
}

test("an agent that was ended before its stage began is not waited for, and a stage of such agents is passed over", () => {
  const clock = new VirtualClock();
  const trace = new Trace(clock, 100);
  const [small, gone, other, lost, large] = ["small", "gone", "other", "lost", "large"].map(leaf);
  const launched: string[] = [];
  const stages = new StagedStart({
    stages: [[small!], [gone!, other!], [lost!], [large!]],
    stageMs: 1_000,
    clock,
    trace,
    launch: (node) => {
      if (node === gone || node === lost) return false;
      launched.push(node.id);
      return true;
    },
  });
  stages.start();
  stages.ended(small!);
  assert.deepEqual(launched, ["small", "other"]);
  stages.ended(other!);
  assert.deepEqual(launched, ["small", "other", "large"]);
  stages.close();
  assert.equal(clock.pendingTimers, 0);
});
