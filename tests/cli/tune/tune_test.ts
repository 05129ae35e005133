import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import type { Command } from "../../../cli/kit/command.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { scoreCommand } from "../../../cli/score/score.ts";
import { areaUnderCurve } from "../../../bench/statistics/statistics.ts";
import { type LabelledGroup, plurality, randomAt, replay } from "../../../cli/tune/replay.ts";
import { suggestionOf } from "../../../cli/tune/suggestion.ts";
import { tuneCommand } from "../../../cli/tune/tune.ts";
import { bootstrapInterval, wilsonInterval } from "../../../bench/statistics/statistics.ts";
import { fakeIo } from "../fake_io.ts";
import { referenceModel } from "../../scorer/reference.ts";

/** Runs `canopy tune -` in a folder of its own. */
async function tune(lines: readonly unknown[], ...args: string[]) {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-tune-"));
  try {
    const input = lines.map((line) => JSON.stringify(line)).join("\n");
    const io = fakeIo({ input, cwd, clock: new SystemClock() });
    const code = await runCommand([tuneCommand], ["tune", "-", "--model", referenceModel, ...args], io);
    const files = Object.fromEntries(
      readdirSync(cwd).map((name) => [name, readFileSync(join(cwd, name), "utf8")]),
    );
    return { code, out: io.out.text, err: io.err.text, files };
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

/** Answers of three models to sums: each is right with its own probability, the last one takes longest. */
function sums(count: number, labelled = true) {
  const random = new Random("sums");
  const rightness = [0.7, 0.8, 0.95];
  return Array.from({ length: count }, (_, index) => {
    const [a, b] = [10 + random.int(80), 10 + random.int(80)];
    return rightness.map((probability, member) => {
      const correct = random.next() < probability;
      const value = correct ? a + b : a + b + 1 + random.int(9);
      const opening = random.pick([
        "Let us add.",
        "We add the two numbers.",
        "First the tens, then the ones.",
      ]);
      return {
        group: `q${index}`,
        id: `m${member}`,
        question: `What is ${a} + ${b}?`,
        text:
          `${opening} ${a} + ${b} comes to ${value}, which is what was asked for.\nThe answer is ${value}.`,
        logprobs: [-0.05, -0.2 - random.next() / 5],
        ms: [1_000, 2_000, 8_000][member],
        ...(labelled ? { label: value, correct } : {}),
      };
    });
  }).flat();
}

/** A group of which only the labels matter; texts state them. */
function groupOf(labels: readonly string[], ms: readonly number[]): LabelledGroup {
  const answers = labels.map((label, index) => ({
    id: `a${index}`,
    model: "4b",
    text: `The answer is ${label}.`,
    logprobs: [-0.1],
    cut: false,
    ms: ms[index],
    label,
    correct: undefined,
    verdicts: new Map<string, number>(),
  }));
  return {
    compared: {
      group: { id: labels.join(" "), question: "", answers },
      completions: answers.map(({ id, model, text, logprobs, cut }) => ({
        agent: id,
        model,
        text,
        logprobs,
        cut,
      })),
      features: [],
      similarity: (metric) => ({ metric, value: 0.5, tokens: [20, 20] }),
      verdict: () => undefined,
    },
    labels,
  };
}

const settings = (of: unknown) => earlyExitSchema.parse(of);

test("the area under the curve is the share of pairs in the right order, ties counting half", () => {
  const values = fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 20 });
  fc.assert(fc.property(values, values, (positive, negative) => {
    let wins = 0;
    for (const a of positive) for (const b of negative) wins += a > b ? 1 : a === b ? 0.5 : 0;
    assert.ok(
      Math.abs(areaUnderCurve(positive, negative) - wins / (positive.length * negative.length)) < 1e-12,
    );
  }));
  assert.ok(Number.isNaN(areaUnderCurve([], [1])));
});

test("replayed decisions count exits, wrong ones and what they save", () => {
  const groups = [
    groupOf(["18", "18", "18"], [1, 2, 7]),
    groupOf(["18", "19", "19"], [1, 2, 7]),
    groupOf(["18", "19", "20"], [1, 2, 7]),
    groupOf(["18", "18", "19"], [1, 2, 7]),
  ];
  const { savings, ...answer } = replay(groups, settings({ metric: "answer" }), "seed");
  assert.deepEqual(savings, [{ all: 7, saved: 5 }, { all: 7, saved: 0 }, { all: 7, saved: 0 }, {
    all: 7,
    saved: 5,
  }]);
  assert.deepEqual(answer, {
    groups: 4,
    exitRate: 0.5,
    wrongRate: 0,
    answersSaved: 2 / 12,
    timeSaved: 10 / 28,
  });
  const { savings: _, ...always } = replay(groups, settings({ metric: "random", probability: 1 }), "seed");
  // The first two of the second group say 18 and 19, and the earlier one counts; the third group has no majority.
  assert.deepEqual(always, {
    groups: 4,
    exitRate: 1,
    wrongRate: 0.25,
    answersSaved: 4 / 12,
    timeSaved: 20 / 28,
  });
  assert.equal(replay(groups, settings({ metric: "none" }), "seed").exitRate, 0);
  assert.ok(Number.isNaN(replay(groups, settings({ metric: "none" }), "seed").wrongRate));
  assert.equal(plurality(["a", "b", undefined, "b"], [0, 1, 2]), "a");
  assert.equal(plurality(["a", "b", undefined, "b"], [0, 1, 2, 3]), "b");
  assert.equal(plurality([undefined], [0]), undefined);
});

test("random at a given exit rate is what random policies of that probability do on the average", () => {
  const random = new Random("groups");
  const groups = Array.from({ length: 60 }, () => {
    const labels = Array.from({ length: 3 + random.int(3) }, () => String(random.int(3)));
    return groupOf(labels, labels.map((_, index) => (index + 1) ** 2));
  });
  const drawn = replay(groups, settings({ metric: "random", probability: 0.4 }), "seed");
  const expected = randomAt(groups, drawn.exitRate, 2);
  assert.ok(Math.abs(expected.exitRate - drawn.exitRate) < 1e-9);
  assert.ok(
    Math.abs(expected.wrongRate - drawn.wrongRate) < 0.02,
    `${expected.wrongRate}, ${drawn.wrongRate}`,
  );
  assert.ok(
    Math.abs(expected.timeSaved - drawn.timeSaved) < 0.02,
    `${expected.timeSaved}, ${drawn.timeSaved}`,
  );
});

test("canopy tune shows that answers see agreement and similarity sees topic, and suggests settings", async () => {
  const { code, out, err, files } = await tune(sums(40), "--json", "tune.json", "--svg", "tune.svg");
  assert.equal(code, 0, err);
  assert.match(out, /Replayed: 40 groups of -; compared with .*tiny-qwen3-embedding/);
  assert.match(out, /Labels: those of the file/);
  assert.match(out, /\nagreement +[\d.]+ % +0\.0 % \([\d.]+ %\)/);
  const { pairs, candidates, suggested } = JSON.parse(files["tune.json"] ?? "");
  const pair = (metric: string) => pairs.find((one: { metric: string }) => one.metric === metric);
  assert.equal(pair("answer").agreeAuc, 1);
  assert.ok(pair("fcs").agreeAuc < 0.9);
  const candidate = (name: string) => candidates.find((one: { name: string }) => one.name === name);
  assert.equal(candidate("answer").figures.wrongRate, 0);
  assert.ok(candidate("answer").random.wrongRate > 0);
  assert.ok(Math.abs(candidate("answer").random.exitRate - candidate("answer").figures.exitRate) < 1e-9);
  assert.ok(Math.abs(candidate("answer").random.timeSaved - candidate("answer").figures.timeSaved) < 1e-9);
  assert.ok(suggested.early_exit.metric !== "random");
  assert.ok(earlyExitSchema.safeParse(suggested.early_exit).success);
  assert.match(out, /Suggested for at most 2\.0 % wrong exits: "early_exit": \{/);
  // n, and intervals of what is wrong and of what is saved beyond chance.
  assert.match(
    out,
    /groups: 40, exits: \d+\) 0\.0 % of the exits were wrong \(95 % interval 0\.0 % to 1\d\.\d %; chance/,
  );
  assert.ok(suggested.wrong.high > 0 && suggested.wrong.high < candidate("answer").random.wrongRate);
  assert.ok(suggested.saved_over_chance.mean >= -1e-9);
  assert.match(files["tune.svg"] ?? "", /^<svg/);
  const again = await tune(sums(40), "--json", "tune.json");
  assert.equal(again.out, out);
});

test("canopy tune takes right and wrong, or what the texts state, where there are no labels", async () => {
  const unlabelled = await tune(sums(5, false));
  assert.match(unlabelled.out, /Labels: the final answers that the texts state/);
  const lines = sums(5).map(({ label: _, ...line }) => line);
  assert.match((await tune(lines)).out, /Labels: right answers agree/);
});

test("canopy tune writes a calibration after which answers to different questions are less alike", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-tune-"));
  try {
    const run = async (command: Command, input: readonly unknown[], args: string[]) => {
      const io = fakeIo({
        input: input.map((line) => JSON.stringify(line)).join("\n"),
        cwd,
        clock: new SystemClock(),
      });
      const code = await runCommand([command], [command.name, "-", ...args], io);
      return { code, out: io.out.text, err: io.err.text };
    };
    const model = ["--model", referenceModel];
    const file = join(cwd, "whitening.safetensors");
    const tuned = await run(tuneCommand, sums(20), [...model, "--write-whitening", "whitening.safetensors"]);
    assert.match(tuned.err, /Wrote whitening\.safetensors, fitted to 60 answers\n/);
    const mixed = sums(12).map((line) => ({ ...line, group: "all" }));
    const meanOf = async (args: string[]) => {
      const { out } = await run(scoreCommand, mixed, [...model, "--similarity", "cosine", ...args]);
      const values = out.trim().split("\n").flatMap((line, index) =>
        JSON.parse(line).similarity.slice(0, index)
      );
      return values.reduce((sum: number, value: number) => sum + value, 0) / values.length;
    };
    const [plain, whitened] = [await meanOf([]), await meanOf(["--whitening", file])];
    assert.ok(whitened < plain / 2, `${plain}, whitened ${whitened}`);
    const needs = await run(tuneCommand, sums(3), ["--write-whitening", "w"]);
    assert.equal(needs.code, 2);
    assert.match(needs.err, /--write-whitening needs --model/);
    const without = await run(scoreCommand, sums(3), ["--whitening", "w"]);
    assert.equal(without.code, 2);
    assert.match(without.err, /--whitening needs --model/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

test("canopy tune needs groups of three answers", async () => {
  const { code, err } = await tune([{ text: "a" }, { text: "b" }]);
  assert.equal(code, 1);
  assert.match(err, /^canopy tune: Cannot tune on -: it has no group of three answers or more\n$/);
});

test("canopy tune suggests nothing that saves less than chance, nor what few groups cannot show", async () => {
  const { code, out, files } = await tune(
    [
      {
        group: "q1",
        text: "16 - 7 = 9 are left.\n#### 9",
        label: "9",
        ms: 1200,
        question: "How many are left?",
      },
      { group: "q1", text: "She has used 7 of 16 eggs. The answer is 9 eggs.", label: "9", ms: 2500 },
      { group: "q1", text: "The answer is 12.", label: "12", ms: 9100 },
    ],
    "--json",
    "tune.json",
  );
  assert.equal(code, 0);
  assert.equal(JSON.parse(files["tune.json"] ?? "").suggested, null);
  assert.match(
    out,
    /The data are too few for a suggestion \(groups: 1, exits: 1\): answer did best, and 0\.0 % to 79\.3 %/,
  );
  assert.doesNotMatch(out, /\(best\)/);
  // Exits on equal answers come where the last member is fast: chance, as often, spares more.
  const groups = Array.from(
    { length: 60 },
    (_, index) =>
      index % 2 === 0 ? groupOf(["18", "18", "18"], [1, 2, 3]) : groupOf(["18", "19", "20"], [1, 2, 90]),
  );
  const figures = replay(groups, settings({ metric: "answer" }), "seed");
  const answer = {
    name: "answer",
    written: { metric: "answer" } as const,
    figures,
    random: randomAt(groups, figures.exitRate, 2),
  };
  assert.ok(figures.timeSaved < answer.random.timeSaved);
  assert.match(JSON.stringify(suggestionOf([answer], 0.02, "seed")), /save less than chance/);
});

test("Wilson's interval holds the share it was drawn with 95 times of 100, and the bootstrap's that of a mean", () => {
  const random = new Random("intervals");
  let wilson = 0;
  let bootstrap = 0;
  for (let round = 0; round < 400; round++) {
    const values = Array.from({ length: 60 }, () => random.next() < 0.3 ? 1 : 0);
    const hits = values.reduce<number>((sum, value) => sum + value, 0);
    const { low, high } = wilsonInterval(hits, 60);
    if (low <= 0.3 && 0.3 <= high) wilson++;
    const mean = (drawn: readonly number[]) => drawn.reduce((sum, value) => sum + value, 0) / drawn.length;
    const resampled = bootstrapInterval(values, mean, { random, resamples: 200 });
    if (resampled.low <= 0.3 && 0.3 <= resampled.high) bootstrap++;
  }
  assert.ok(wilson > 365 && wilson < 395, `${wilson}`);
  assert.ok(bootstrap > 355 && bootstrap < 395, `${bootstrap}`);
  assert.deepEqual(wilsonInterval(0, 0), { low: 0, high: 1 });
});
