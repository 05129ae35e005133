import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { scoreCommand } from "../../../cli/score/score.ts";
import { fakeIo } from "../fake_io.ts";
import {
  type ReferenceGroup,
  referenceGroups,
  referenceModel,
  referenceTexts,
} from "../../scorer/reference.ts";

/** Runs `canopy score -` on lines of JSON; gives the lines that it prints. */
async function score(lines: readonly unknown[], ...args: string[]) {
  const input = lines.map((line) => typeof line === "string" ? line : JSON.stringify(line)).join("\n");
  const io = fakeIo({ input, clock: new SystemClock() });
  const code = await runCommand([scoreCommand], ["score", "-", ...args], io);
  const out = io.out.text.split("\n").filter((line) => line !== "").map((line): JsonObject =>
    JSON.parse(line)
  );
  return { code, out, err: io.err.text };
}

const would = (line: JsonObject | undefined, metric: string): JsonObject => {
  const { would } = line ?? {};
  assert.ok(isJsonObject(would));
  const decision = would[metric];
  assert.ok(isJsonObject(decision));
  return decision;
};

test("canopy score gives the reference's C, C̄, P, B and Q with the reference's model, in both variants", async () => {
  // Each call loads the model: groups of the same bounds are scored by one.
  const together = Map.groupBy(referenceGroups, ({ tau, gamma }) => `${tau} ${gamma}`);
  for (const literal of [false, true]) {
    for (const groups of together.values()) {
      const { tau, gamma } = groups[0]!;
      const lines = groups.flatMap(({ id, answers }) =>
        answers.map(({ text, logprobs }, index) => ({
          group: id,
          id: `${text} ${index}`,
          text: referenceTexts.get(text)!.text,
          logprobs,
        }))
      );
      const { code, out, err } = await score(
        lines,
        "--model",
        referenceModel,
        "--max-tokens=4096",
        `--tau=${tau}`,
        `--gamma=${gamma}`,
        ...(literal ? ["--paper-literal"] : []),
      );
      assert.equal(code, 0, err);
      assert.equal(out.length, lines.length);
      for (const group of groups) {
        checkGroup(group, out.filter((line) => line.group === group.id), literal);
      }
    }
  }
});

/** Compares the lines of a group with the reference's. */
function checkGroup(
  { id, answers, sim, steps }: ReferenceGroup,
  lines: readonly JsonObject[],
  literal: boolean,
): void {
  const near = (actual: unknown, expected: number | null, what: string) =>
    expected === null
      ? assert.equal(actual, null, what)
      : assert.ok(Math.abs(Number(actual) - expected) < 1e-6, `${what}: ${actual}, not ${expected}`);
  assert.equal(lines.length, answers.length);
  for (const [index, step] of steps.entries()) {
    const line = lines[index]!;
    const what = `${id}, l = ${step.l}`;
    assert.equal(line.tokens, referenceTexts.get(answers[index]!.text)!.ids.length, what);
    assert.ok(Array.isArray(line.similarity));
    for (const [other, value] of line.similarity.entries()) {
      near(value, sim[index]![other]!, `${what}: similarity`);
    }
    near(line.confidence, step.C, `${what}: C`);
    near(line.c_bar, step.C_bar, `${what}: C̄`);
    const expected = literal ? step.literal : step;
    near(line.p, expected.P, `${what}: P`);
    near(line.b, expected.B, `${what}: B`);
    near(line.q, expected.Q, `${what}: Q`);
    const q = would(line, "q");
    if (step.l > 1 || literal) near(q.q, expected.Q, `${what}: Q of the metric`);
    else assert.equal(q.guard, "min_agents");
  }
}

test("canopy score says what each metric would do while the rest of the group is at work", async () => {
  const question = "How many eggs are left?";
  const lines = [
    {
      group: "eggs",
      id: "a",
      question,
      text: "There are 16 eggs and 7 are gone, so 9 are left.\nThe answer is 9.",
      logprobs: [-0.1],
    },
    {
      group: "eggs",
      id: "b",
      text: "Of 16 eggs 7 are gone, so that 16 - 7 = 9 are left.\n#### 9",
      logprobs: [-0.2],
    },
    { group: "sky", id: "a", text: "It is blue because of scattering of the light.", verdicts: {} },
    { group: "eggs", id: "c", text: "The answer is 12.", logprobs: [null] },
    {
      group: "sky",
      id: "b",
      text: "Light is scattered, the blue one most, so it is blue.",
      verdicts: { a: 0.9 },
    },
    { group: "sky", id: "c", text: "I have no idea." },
  ];
  const { code, out } = await score(lines, "--model", referenceModel);
  assert.equal(code, 0);
  assert.deepEqual(out.map(({ group, id, completions }) => [group, id, completions]), [
    ["eggs", "a", 1],
    ["eggs", "b", 2],
    ["eggs", "c", 3],
    ["sky", "a", 1],
    ["sky", "b", 2],
    ["sky", "c", 3],
  ]);
  const second = out[1];
  assert.equal(would(second, "answer").exit, true);
  assert.deepEqual(would(second, "answer").consensus, { share: 1, agent: "a" });
  assert.equal(would(second, "verdict").exit, false);
  assert.equal(out[2]?.confidence, 0);
  const sky = out[4];
  assert.equal(would(sky, "answer").exit, false);
  assert.equal(would(sky, "verdict").exit, true);
  assert.equal(would(sky, "q").exit, false);
  assert.equal(would(sky, "q").unknown, "confidence");
  const again = await score(lines, "--model", referenceModel);
  assert.deepEqual(again.out, out);
});

test("canopy score reads the records of runs", async () => {
  const agent = (id: string, text: string, ended_at_ms: number, state = "done") => ({
    id,
    model: "4b",
    state,
    text,
    finish_reason: "stop",
    ended_at_ms,
  });
  const record = {
    id: "run_1",
    object: "run",
    agents: [
      { ...agent("l1.c1.a1", "The answer is 18.", 300), logprobs: [-0.1, null] },
      { ...agent("l1.c1.a2", "The answer is 18.0.", 200), logprobs: [-0.1, -0.3] },
      agent("l1.c1.a3", "", 250, "cancelled"),
      agent("l2.c1.a1", "18", 900),
    ],
  };
  const { code, out } = await score([record], "--model", referenceModel);
  assert.equal(code, 0);
  assert.deepEqual(out.map(({ group, id }) => [group, id]), [["run_1/l1.c1", "l1.c1.a2"], [
    "run_1/l1.c1",
    "l1.c1.a1",
  ]]);
  assert.equal(would(out[1], "answer").exit, true);
  assert.ok(Math.abs(Number(out[0]?.confidence) - Math.exp(-0.2)) < 1e-12);
  assert.equal(out[1]?.confidence, 0);
  assert.notEqual(would(out[1], "q").unknown, "confidence");
});

test("canopy score says in one sentence what is wrong with the file, the model or the command line", async () => {
  const cases: [lines: unknown[], args: string[], code: number, message: RegExp][] = [
    [["{"], [], 1, /Cannot read answers from -, line 1: /],
    [
      [{ text: "a" }, { id: "b" }],
      [],
      1,
      /Cannot read answers from -, line 2: text is required: must be a string$/m,
    ],
    [[{ text: 1 }], [], 1, /Cannot read answers from -, line 1: text must be a string: current value is 1$/m],
    [[], [], 1, /there is no answer: each line is an object with a text/],
    [
      [{ text: "a" }],
      ["--model", "nowhere/at-all"],
      1,
      /Cannot embed with nowhere\/at-all: .*run "canopy models pull nowhere\/at-all"/,
    ],
    [[{ text: "a" }], ["--tau", "2"], 2, /--tau must be a number from 0 to 1/],
    [[{ text: "a" }], ["--similarity", "bleu"], 2, /--similarity must be one of fcs, fcs_u, cosine/],
  ];
  for (const [lines, args, code, message] of cases) {
    const result = await score(lines, ...args);
    assert.equal(result.code, code);
    assert.match(result.err, message);
    assert.equal(result.err.trim().split("\n").length, 1);
  }
  const io = fakeIo();
  assert.equal(await runCommand([scoreCommand], ["score"], io), 2);
  assert.match(io.err.text, /Needs the FILE/);
  assert.equal(await runCommand([scoreCommand], ["score", "no.jsonl"], io), 1);
  assert.match(io.err.text, /Cannot read answers from no\.jsonl: there is no such file/);
});

test("without a model canopy score compares words, and says so", async () => {
  const lines = [
    { text: "The eggs that are left are sold at the market for two dollars each, which makes 18 dollars." },
    { text: "She sells 9 eggs at the market, for two dollars each, so she makes 18 dollars every day." },
    { text: "A black hole is a region of space from which nothing, not even light, can escape its gravity." },
  ];
  const { code, out, err } = await score(lines);
  assert.equal(code, 0);
  assert.equal(err, "No --model: words are compared, not meanings\n");
  const row = out[2]?.similarity;
  const related = out[1]?.similarity;
  assert.ok(Array.isArray(row) && Array.isArray(related));
  assert.ok(Number(related[0]) > Number(row[0]) && Number(related[0]) > Number(row[1]));
});

test("bounds turned around, other roots and other ranges end no cluster; the same in another notation does", async () => {
  const decisions = async (...texts: readonly string[]) => {
    const { code, out, err } = await score(texts.map((text) => ({ group: "q", text })));
    assert.equal(code, 0, err);
    return [would(out[1], "answer").exit, would(out[1], "agreement").exit];
  };
  for (
    const [first, second] of [
      ["x \\geq 5", "x \\leq 5"],
      ["x \\geq 5", "5"],
      ["-2 \\le x \\le 7", "3 \\le x \\le 7"],
      ["x^2 + y^2 = 1", "1"],
      ["x \\neq 3", "3"],
    ]
  ) {
    const texts = [first, second, first].map((answer) => `So \\boxed{${answer}}`);
    assert.deepEqual(await decisions(...texts), [false, false], `${first} and ${second}`);
  }
  const roots = ["\\boxed{1} and \\boxed{-2}", "\\boxed{-2}", "\\boxed{-2}"].map((answer) =>
    `The roots are ${answer}`
  );
  assert.deepEqual(await decisions(...roots), [false, false]);
  const same = ["x \\geq 5", "5 \\leq x", "[5, \\infty)"].map((answer) => `So \\boxed{${answer}}`);
  assert.deepEqual(await decisions(...same), [true, true]);
});

test("a calibration without the model that it is of is refused", async () => {
  const { code, err } = await score([{ text: "a" }], "--whitening", "whitening.json");
  assert.deepEqual([code, /Option --whitening needs --model/.test(err)], [2, true]);
});

test("answers are read from a file that Windows' editors have saved", async () => {
  const { code, out } = await score(['\ufeff{"text":"a"}\r', '{"text":"b"}\r']);
  assert.deepEqual([code, out.map(({ id }) => id)], [0, ["1", "2"]]);
});
