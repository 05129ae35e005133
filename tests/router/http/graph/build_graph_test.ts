import assert from "node:assert/strict";
import { test } from "node:test";
import { earlyExitSchema } from "../../../../cfgs/schema/early_exit.ts";
import { type AgentSpec, buildRequestGraph } from "../../../../router/http/graph/build_graph.ts";
import { parseTemplate } from "../../../../router/moa/graph/template.ts";

const spec = (id: string, over: Partial<AgentSpec>): AgentSpec => ({
  id,
  field: `agents.${id}`,
  promptField: `agents.${id}.prompt`,
  model: "small",
  template: parseTemplate("[responses]"),
  sampling: {},
  reads: [],
  minResponses: undefined,
  deadlineMs: undefined,
  onDeadline: "use_partial",
  earlyExit: earlyExitSchema.parse({}),
  ...over,
});

test("an agent that may go on early waits for as many answers as its exit needs, another for all", () => {
  const least = (early_exit: Record<string, unknown>, minResponses?: number): number | undefined => {
    const graph = buildRequestGraph(
      [
        ...["a", "b", "c"].map((id) => spec(id, { template: parseTemplate(id) })),
        spec("judge", { reads: ["a", "b", "c"], earlyExit: earlyExitSchema.parse(early_exit), minResponses }),
      ],
      {
        minResponses: 1,
        slots: "declared",
        stripReasoning: false,
        deadlineMs: undefined,
        incrementalPrefill: { mode: "off", chunkTokens: undefined, maxStallMs: 1 },
        onOverflow: "cut_middle",
      },
    );
    return graph.clusters.find(({ id }) => id === "judge.reads")?.minResponses;
  };
  assert.equal(least({}), 3);
  assert.equal(least({ metric: "q" }), 2);
  assert.equal(least({ metric: "q", paper_literal: true }), 1);
  assert.equal(least({ metric: "answer", min_agents: 3 }), 3);
  assert.equal(least({ metric: "answer", min_agents: 9 }), 3);
  assert.equal(least({ metric: "q" }, 3), 3);
});
