import assert from "node:assert/strict";
import { test } from "node:test";
import { dense991, tree931 } from "../../../../bench/experiments/graphs.ts";
import {
  type CostedTrialOptions,
  costTrial,
} from "../../../../bench/experiments/sensitivity/costed_trial.ts";
import { runTrial } from "../../../../bench/experiments/trial.ts";
import { questionsOf } from "../../../../bench/experiments/workload.ts";
import { shippedWorkload } from "../../../../bench/experiments/workloads/shipped_workloads.ts";

const base: CostedTrialOptions = {
  graph: "tree",
  overlap: false,
  pairs: true,
  atOnce: 1,
  readTokens: Infinity,
  questions: [],
  seed: "test",
};

test("costed latencies are those of the played simulation within three per cent", async () => {
  const chat = shippedWorkload("chat");
  const short = { ...chat, answers: chat.answers.map((answer) => ({ ...answer, median: 100 })) };
  const questions = questionsOf(short, 1, "test");
  const costed = questions.map(({ text, answerTokens }) => ({
    tokens: text.split(" ").length,
    answerTokens,
  }));
  for (const serving of ["sglang-pd", "sglang"] as const) {
    const graphs = [
      { graph: "dense", overlap: false, played: dense991() },
      { graph: "tree", overlap: false, played: tree931() },
      { graph: "tree", overlap: true, played: tree931({ mode: "auto" }, "completion") },
    ] as const;
    for (const { graph, overlap, played } of graphs) {
      const { runs } = await runTrial({
        serving,
        seed: "test",
        graph: played,
        questions,
        concurrency: 1,
        signal: new AbortController().signal,
      });
      const [latency] = costTrial({
        ...base,
        graph,
        overlap,
        pairs: serving === "sglang-pd",
        questions: costed,
      });
      const ratio = latency! / runs[0]!.e2eMs;
      assert.ok(Math.abs(ratio - 1) < 0.03, `${serving}, ${graph}: ${ratio}`);
    }
  }
});

const uniform = [{ tokens: 100, answerTokens: () => 2_000 }, { tokens: 100, answerTokens: () => 1_000 }];
const total = (options: Partial<CostedTrialOptions>) =>
  costTrial({ ...base, questions: uniform, ...options }).reduce((sum, latency) => sum + latency, 0);

test("the tree takes no longer than the dense graph, overlap helps pairs alone, and exits shorten what they cut", () => {
  assert.ok(total({}) < total({ graph: "dense" }));
  assert.ok(total({ overlap: true }) < total({}));
  assert.equal(total({ overlap: true, pairs: false }), total({ pairs: false }));
  const all = total({ overlap: true, exit: { chance: 1, from: 1 } });
  assert.ok(all < total({ overlap: true, exit: { chance: 1, from: 2 } }));
  assert.equal(total({ overlap: true, exit: { chance: 0, from: 1 } }), total({ overlap: true }));
  assert.equal(total({ overlap: true, exit: { chance: 1, from: 3 } }), total({ overlap: true }));
  assert.ok(total({ readTokens: 50 }) < total({}));
  assert.ok(total({ costs: { "32b": "4b" } }) < 0.7 * total({}), "the cost of another size");
});

test("prompts of the dense graph that do not fit the memory of a decode GPU together wait for each other", () => {
  const long = [{ tokens: 100, answerTokens: () => 14_000 }];
  const dense = (pairs: boolean) => costTrial({ ...base, graph: "dense", pairs, questions: long })[0]!;
  assert.ok(dense(true) > 1.3 * dense(false), `${dense(true)} ${dense(false)}`);
});

test("more questions at a time take longer each, and the same options give the same latencies", () => {
  const questions = Array.from({ length: 8 }, () => uniform[0]!);
  const options = { ...base, questions, exit: { chance: 0.5, from: 1 } };
  assert.deepEqual(costTrial(options), costTrial(options));
  const mean = (atOnce: number) =>
    costTrial({ ...base, questions, atOnce }).reduce((sum, latency) => sum + latency, 0) / 8;
  assert.ok(mean(8) > mean(1));
});
