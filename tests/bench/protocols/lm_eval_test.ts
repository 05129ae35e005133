import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { DATA_SETS } from "../../../bench/datasets/catalog.ts";
import type { EvalQuestion } from "../../../bench/datasets/data_set.ts";
import { loadSample } from "../../../bench/datasets/load_questions.ts";
import { CHAT_PROTOCOL } from "../../../bench/protocols/chat.ts";
import { LM_EVAL_VERSION, lmEvalProtocol, lmEvalTask } from "../../../bench/protocols/lm_eval/lm_eval.ts";
import { cleanMinerva } from "../../../bench/protocols/lm_eval/minerva_maths.ts";
import { LM_EVAL_TASKS } from "../../../bench/protocols/lm_eval/tasks.ts";

/** What lm-eval itself sent for a question, and what it made of answers: filtered text and score by filter. */
interface Recorded {
  readonly set: string;
  readonly task?: string;
  readonly id: string;
  readonly options?: readonly string[];
  readonly answer?: string;
  readonly messages?: readonly unknown[];
  readonly sha256?: string;
  readonly stop: readonly string[];
  readonly max_tokens: number;
  readonly texts: readonly (readonly [string, Readonly<Record<string, readonly [string, number]>>])[];
}

/** Recorded from lm-eval 0.4.13 over Canopy's samples, with --apply_chat_template. */
const RECORDED: readonly Recorded[] = JSON.parse(
  readFileSync(new URL("../../fixtures/lm_eval/answers.json", import.meta.url), "utf8"),
);

async function sampleOf(name: string): Promise<Map<string, EvalQuestion>> {
  const { questions } = await loadSample(DATA_SETS.find((set) => set.name === name)!, "canopy");
  return new Map(questions.map((question) => [question.id, question]));
}

const samples = new Map(
  await Promise.all(
    [...new Set(RECORDED.map(({ set }) => set))].map(async (set) => [set, await sampleOf(set)] as const),
  ),
);

function questionOf({ set, id, options, answer }: Recorded): EvalQuestion {
  const question = samples.get(set)!.get(id)!;
  return options === undefined ? question : { ...question, options, answer: answer! };
}

test("Prompts, stops and limits are those that lm-eval sends for the same questions", () => {
  assert.equal(LM_EVAL_VERSION, "0.4.13");
  assert.ok(RECORDED.length > 160);
  for (const recorded of RECORDED) {
    const protocol = lmEvalProtocol(recorded.task === undefined ? [] : [recorded.task]);
    const asked = protocol.ask({ set: recorded.set, question: questionOf(recorded) });
    if (recorded.messages !== undefined) assert.deepEqual(asked.messages, recorded.messages);
    else {
      const text = JSON.stringify(asked.messages.map(({ content }) => content));
      assert.equal(createHash("sha256").update(text).digest("hex"), recorded.sha256, text);
    }
    assert.deepEqual([asked.stop, asked.maxTokens, asked.temperature], [
      recorded.stop.slice(0, 4),
      recorded.max_tokens,
      0,
    ]);
  }
});

test("Filters take out of answers what lm-eval's take, and score them alike", async () => {
  let answers = 0;
  for (const recorded of RECORDED) {
    const protocol = lmEvalProtocol(recorded.task === undefined ? [] : [recorded.task]);
    const question = { set: recorded.set, question: questionOf(recorded) };
    for (const [text, filters] of recorded.texts) {
      const readings = await protocol.read(question, text);
      assert.deepEqual(Object.keys(readings).sort(), [...Object.keys(filters), "canopy"].sort());
      for (const [name, [filtered, score]] of Object.entries(filters)) {
        answers++;
        const reading = readings[name]!;
        const where = `${recorded.set} ${recorded.id} ${name} of ${JSON.stringify(text)}`;
        assert.equal(reading.outcome === "right", score === 1, `${where}: ${reading.stated}`);
        // Without a filter lm-eval notes the whole answer.
        if (name === "none") continue;
        assert.equal(reading.stated ?? "[invalid]", filtered === "" ? "[invalid]" : filtered, where);
      }
    }
  }
  assert.ok(answers > 600, `${answers} readings`);
});

test("Each of the ten sets has a task, and one line says where it is not lm-eval's own", async () => {
  assert.deepEqual(Object.keys(LM_EVAL_TASKS).sort(), DATA_SETS.map(({ name }) => name).sort());
  assert.match(lmEvalTask("hmmt25")!.differs!, /^lm-eval has no task for HMMT: its aime25 is used/);
  assert.match(lmEvalTask("ifbench")!.differs!, /^lm-eval has no task for IFBench/);
  assert.equal(lmEvalTask("own"), undefined);
  const [problem] = (await sampleOf("humanevalplus")).values();
  const asked = lmEvalProtocol([]).ask({ set: "humanevalplus", question: problem! });
  assert.deepEqual(asked.messages, [{ role: "user", content: problem!.question }]);
  assert.deepEqual(asked.stop, ["\nclass", "\ndef", "\n#", "\nif"], "OpenAI's API takes four stops");
});

test("Canopy's own reading stands beside the filters, and the protocol chat has no other one", async () => {
  const question: EvalQuestion = { id: "1", question: "6 times 7?", answer: "42", grader: "number" };
  const text = "So it is $\\boxed{42}$.";
  const readings = await lmEvalProtocol([]).read({ set: "gsm8k", question }, text);
  assert.deepEqual(
    Object.entries(readings).map(([name, { outcome }]) => `${name} ${outcome}`),
    ["flexible-extract wrong", "strict-match ungradable", "canopy right"],
  );
  assert.deepEqual(Object.keys(await CHAT_PROTOCOL.read({ set: "gsm8k", question }, text)), ["canopy"]);
});

/** What lm-eval 0.4.13 sends for a question of minerva_math500, and what it makes of answers, with SymPy 1.14. */
const MINERVA: {
  readonly id: string;
  readonly messages: readonly unknown[];
  readonly answers: readonly (readonly [
    text: string,
    answer: string,
    cleanText: string,
    cleanAnswer: string,
    score: number,
  ])[];
} = JSON.parse(readFileSync(new URL("../../fixtures/lm_eval/minerva.json", import.meta.url), "utf8"));

/** Cleaned texts and answers of which lm-eval says otherwise: SymPy reads what it can, and leaves the rest. */
const OTHERWISE: readonly (readonly [string, string])[] = [
  [".4", "0.4"],
  ["3\\sqrt{13}}.\\end{align*", "3\\sqrt{13}"],
  ["90}.\\end{align*", "90"],
  ["2}", "2"],
  ["0.0833333333333333", "\\frac{1}{12}"],
  ["Thus,theansweris", "Thus,thedomainohefunction\\(f(x)\\)is:\\[(2,12)\\cup(12,102)\\]"],
  ["3(x+2)^2-2\\)", "3x^{2}+12x+10"],
  ["11\\cdot\\frac{1}{2}", "11\\frac{1}{2}"],
];

test("minerva_math500 has lm-eval's worked examples and clean-up, and says the same of all answers but those that are named", async () => {
  const protocol = lmEvalProtocol(["minerva_math500"]);
  const sample = (await sampleOf("math500")).get(MINERVA.id)!;
  const asked = protocol.ask({ set: "math500", question: sample });
  assert.deepEqual(asked.messages, MINERVA.messages);
  assert.deepEqual([asked.stop, asked.maxTokens], [["Problem:"], 256]);
  const otherwise: (readonly [string, string])[] = [];
  for (const [text, answer, cleanText, cleanAnswer, score] of MINERVA.answers) {
    assert.equal(cleanMinerva(answer), cleanAnswer);
    const { none } = await protocol.read({ set: "math500", question: { ...sample, answer } }, text);
    assert.equal(none!.stated ?? "", cleanText.replace("[invalidanswer]", ""), text);
    if ((none!.outcome === "right") !== (score === 1)) otherwise.push([cleanText, cleanAnswer]);
  }
  assert.deepEqual(otherwise, OTHERWISE);
  assert.ok(MINERVA.answers.length > 300, `${MINERVA.answers.length} answers`);
});
