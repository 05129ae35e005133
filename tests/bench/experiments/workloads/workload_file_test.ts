import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { ConfigError } from "../../../../cfgs/load/problems.ts";
import { arrivalsOf, askAll } from "../../../../bench/experiments/workloads/question_arrivals.ts";
import { questionsOf } from "../../../../bench/experiments/workload.ts";
import { tokensAt } from "../../../../bench/experiments/workloads/lengths.ts";
import {
  shippedWorkload,
  WORKLOAD_NAMES,
  workloadSummary,
  workloadText,
} from "../../../../bench/experiments/workloads/shipped_workloads.ts";
import { readWorkload, workloadJsonSchema } from "../../../../bench/experiments/workloads/workload_file.ts";
import { normalQuantile } from "../../../../bench/statistics/normal.ts";

const PLACES = ([[0, 9], [1, 9], [2, 1]] as const).flatMap(([layer, count]) =>
  Array.from({ length: count }, (_, index) => ({ layer, index, model: layer === 2 ? "32b" : "4b" }))
);

test("chat, maths and documents give every question and answer the length that they had before they were files", () => {
  const pinned = [
    ["chat", "canopy", 88508, 761077, 58153763, 358],
    ["chat", "test", 77631, 695403, 54691319, 232],
    ["maths", "canopy", 98306, 2412448, 179706045, 1077],
    ["maths", "test", 86859, 2553545, 193833768, 793],
    ["documents", "canopy", 2923434, 873533, 65981686, 340],
    ["documents", "test", 3410768, 862566, 65239896, 329],
  ] as const;
  for (const [name, seed, characters, tokens, weighted, first] of pinned) {
    const questions = questionsOf(shippedWorkload(name), 120, seed);
    const lengths = questions.flatMap((question, at) =>
      PLACES.map((place) => ({ at, ...place, tokens: question.answerTokens(place) }))
    );
    const sum = (of: (one: (typeof lengths)[number]) => number) =>
      lengths.reduce((total, one) => total + of(one), 0);
    assert.deepEqual([
      questions.reduce((total, { text }) => total + text.length, 0),
      sum((one) => one.tokens),
      sum((one) => one.tokens * (1 + one.at + 7 * one.layer + 3 * one.index)),
      lengths[0]?.tokens,
    ], [characters, tokens, weighted, first]);
  }
});

test("each shipped workload names the source of each figure, and what nobody has measured is called an assumption", () => {
  for (const name of WORKLOAD_NAMES) {
    const { summary, source, question, answers, correlation, arrivals } = shippedWorkload(name);
    assert.equal(workloadSummary(name), summary);
    for (const part of [{ source }, question, ...answers, correlation, arrivals]) {
      assert.match(part.source, /^assumption|https:\/\/|arXiv/, `${name}: ${part.source}`);
    }
  }
});

test("the means of reasoning's answers are the published ones, within two per cent", () => {
  const { answers } = shippedWorkload("reasoning");
  const mean = (size: "8b" | "32b") => {
    const lengths = answers.find(({ models }) => models?.includes(size));
    assert.ok(lengths !== undefined);
    const shares = Array.from({ length: 2_000 }, (_, at) => (at + 0.5) / 2_000);
    return shares.reduce((sum, share) => sum + tokensAt(lengths, normalQuantile(share)), 0) / shares.length;
  };
  assert.ok(Math.abs(mean("8b") / (2.32e8 / 30 / 512) - 1) < 0.02, `${mean("8b")}`);
  assert.ok(Math.abs(mean("32b") / (2.43e8 / 30 / 512) - 1) < 0.02, `${mean("32b")}`);
});

/** A workload file with other members. */
function file(members: Record<string, unknown> = {}): string {
  const source = "assumption";
  return JSON.stringify(
    {
      summary: "a test",
      source,
      question: { median: 50, sigma: 0.5, max_tokens: 400, source },
      answers: [{ median: 200, sigma: 1, max_tokens: 2_000, source }],
      correlation: { agents: 0.5, source },
      arrivals: { process: "one_at_a_time", source },
      ...members,
    },
    null,
    1,
  );
}

const read = (text: string) => readWorkload(text, { name: "mine", path: "mine.jsonc" });

test("answers have the lengths of the first entry that fits their model and layer, and none is above its limit", () => {
  const source = "assumption";
  const workload = read(file({
    answers: [
      { models: ["32b"], layers: [3], median: 40, sigma: 0, max_tokens: 100, source },
      { layers: [2], quantiles: [[0.1, 100], [0.5, 300], [0.9, 900]], max_tokens: 1_000, source },
      { median: 5_000, sigma: 0.1, max_tokens: 700, source },
    ],
  }));
  const questions = questionsOf(workload, 300, "test");
  const sorted = (place: { layer: number; index: number; model: string }) =>
    questions.map((question) => question.answerTokens(place)).sort((a, b) => a - b);
  assert.deepEqual(new Set(sorted({ layer: 2, index: 0, model: "32b" })), new Set([40]));
  assert.deepEqual(new Set(sorted({ layer: 0, index: 0, model: "32b" })), new Set([700]));
  const second = sorted({ layer: 1, index: 0, model: "4b" });
  assert.ok(second[150]! > 250 && second[150]! < 360, `${second[150]}`);
  assert.ok(second[30]! > 80 && second[30]! < 125, `${second[30]}`);
  assert.equal(second.at(-1), 1_000);
});

test("the correlation of a file is that of the logarithms of two agents' lengths", () => {
  for (const agents of [0, 0.6, 1]) {
    const workload = read(file({
      answers: [{ median: 10_000, sigma: 0.5, max_tokens: 1_000_000, source: "assumption" }],
      correlation: { agents, source: "assumption" },
    }));
    const pairs = questionsOf(workload, 1_500, "test").map(({ answerTokens }) =>
      [0, 1].map((index) => (Math.log(answerTokens({ layer: 0, index })) - Math.log(10_000)) / 0.5)
    );
    const found = pairs.reduce((sum, [one, other]) => sum + one! * other!, 0) / pairs.length;
    assert.ok(Math.abs(found - agents) < 0.1, `${agents}: ${found}`);
  }
});

test("what is wrong in a file is named with line, column and the nearest member", () => {
  const source = "assumption";
  const refused = (text: string, ...patterns: RegExp[]) => {
    assert.throws(() => read(text), (error) => {
      assert.ok(error instanceof ConfigError, `${error}`);
      for (const pattern of patterns) assert.match(error.message, pattern);
      return true;
    });
  };
  refused(
    file({ correlaton: {} }),
    /^mine\.jsonc:\d+:2: correlaton is not a known key; did you mean "correlation"\?/m,
  );
  refused(
    file({ question: { median: 50, sigma: -1, max_tokens: 9, source } }),
    /^mine\.jsonc:6:12: question\.sigma is -1/m,
  );
  refused(
    file({ question: { median: 50, max_tokens: 9, source } }),
    /question\.sigma is missing: .* or quantiles/,
  );
  refused(
    file({ answers: [{ median: 9, sigma: 1, quantiles: [[0.1, 5], [0.5, 9]], max_tokens: 9, source }] }),
    /answers\[0\]\.median stands beside quantiles/,
  );
  refused(
    file({ answers: [{ quantiles: [[0.5, 5], [0.1, 9]], max_tokens: 9, source }] }),
    /answers\[0\]\.quantiles\[1\] is not above the one before it/,
  );
  refused(
    file({ answers: [{ models: ["4b"], median: 9, sigma: 1, max_tokens: 9, source }] }),
    /answers\[0\]\.models restricts the last entry/,
  );
  refused(
    file({ answers: [{ models: ["4B"], median: 9, sigma: 1, max_tokens: 9, source }] }),
    /did you mean "4b"\?/,
  );
  refused(file({ arrivals: { process: "poisson", source } }), /arrivals\.per_second is missing/);
  refused(file({ arrivals: { process: "all_at_once", per_second: 1, source } }), /is of poisson alone/);
  refused(file({ correlation: { agents: 0.5 } }), /correlation\.source is missing/);
  refused(`{ "summary": "x" "source": "y" }`, /^mine\.jsonc:1:18: /m);
});

test("the schema for editors has all members of the shipped files", () => {
  const { properties, additionalProperties } = workloadJsonSchema();
  assert.ok(typeof properties === "object" && properties !== null);
  assert.equal(additionalProperties, false);
  for (const name of WORKLOAD_NAMES) {
    const { name: _, ...members } = shippedWorkload(name);
    for (const member of Object.keys(members)) assert.ok(Object.hasOwn(properties, member), member);
    assert.ok(workloadText(name).includes('"source"'));
  }
});

test("questions come as the workload says: one after the other, all at once, or at random with its rate", async () => {
  const source = "assumption";
  const startsOf = async (arrivals: Record<string, unknown>) => {
    const clock = new VirtualClock();
    const starts: number[] = [];
    const options = {
      count: 400,
      arrivals: arrivalsOf(read(file({ arrivals: { source, ...arrivals } })), 400),
      seed: "test",
      clock,
      signal: new AbortController().signal,
    };
    await clock.run(() =>
      askAll(options, async (index) => {
        starts[index] = clock.now();
        await clock.sleep(1_000);
      })
    );
    return starts.map((start) => start - starts[0]!);
  };
  const one = await startsOf({ process: "one_at_a_time" });
  assert.deepEqual(one.slice(0, 3), [0, 1_000, 2_000]);
  assert.deepEqual(new Set(await startsOf({ process: "all_at_once" })), new Set([0]));
  const random = await startsOf({ process: "poisson", per_second: 4 });
  assert.deepEqual(random, [...random].sort((a, b) => a - b));
  assert.ok(Math.abs(random.at(-1)! / 100_000 - 1) < 0.15, `${random.at(-1)}`);
});

test("quantiles of the normal distribution are those of tables", () => {
  const known = [[0.001, -3.090232], [0.025, -1.959964], [0.5, 0], [0.9, 1.281552], [
    0.99,
    2.326348,
  ]] as const;
  for (const [share, normal] of known) assert.ok(Math.abs(normalQuantile(share) - normal) < 1e-6, `${share}`);
});
