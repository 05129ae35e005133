import assert from "node:assert/strict";
import { test } from "node:test";
import { confidenceOfAgent, decisionTable } from "../../../page/state/decision_table.ts";

const decision = (data: unknown) => ({ atMs: 1, cluster: "l1.c1", exit: true, data });

test("a decision by Q shows confidences, similarities and every figure of the formula", () => {
  const data = {
    exit: true,
    metric: "q",
    confidences: [{ agent: "a", confidence: 0.8 }, { agent: "b", confidence: 0.6 }],
    similarities: [{ of: ["a", "b"], metric: "fcs", value: 0.9 }],
    c_bar: 0.7,
    q: 0.63,
    scorer: { embedder: "onnx" },
  };
  const table = decisionTable(decision(data), []);
  assert.deepEqual(table.members, [
    { agent: "a", answer: "", confidence: 0.8 },
    { agent: "b", answer: "", confidence: 0.6 },
  ]);
  assert.deepEqual(table.similarities, [{ of: ["a", "b"], value: 0.9 }]);
  assert.deepEqual(table.figures, [["metric", "q"], ["c_bar", 0.7], ["q", 0.63]]);
  assert.equal(confidenceOfAgent([decision(data)], "b"), 0.6);
  assert.equal(confidenceOfAgent([decision(data)], "c"), undefined);
});

test("a decision by answers names who gave which, in the order in which they came, and the votes", () => {
  const data = {
    answers: [{ text: "137." }, null],
    groups: [["a"], ["b", "c"]],
    verdicts: [{ of: ["a", "b"], yes: 0.2 }],
  };
  const table = decisionTable(decision(data), ["b", "a", "late"]);
  assert.deepEqual(table.members.map(({ agent, answer }) => [agent, answer]), [["b", "137."], ["a", ""]]);
  assert.deepEqual(table.groups, [["b", "c"], ["a"]]);
  assert.deepEqual(table.verdicts, [{ of: ["a", "b"], value: 0.2 }]);
});

test("a consensus shows its votes", () => {
  const table = decisionTable(
    decision({ votes: [{ agent: "a", text: "4" }], groups: [["a"]], needed: 2 }),
    [],
  );
  assert.deepEqual(table.members, [{ agent: "a", answer: "4", confidence: undefined }]);
  assert.deepEqual(table.figures, [["needed", 2]]);
});

test("a decision without figures shows none", () => {
  for (const data of [undefined, null, 7, "x", [], { answers: 3, groups: "x" }]) {
    const { members, groups } = decisionTable(decision(data), ["a"]);
    assert.deepEqual([members, groups], [[], []]);
  }
});
