import assert from "node:assert/strict";
import { test } from "node:test";
import { treeWithExit } from "../../../bench/experiments/exit.ts";
import { runExitTrial } from "../../../bench/experiments/exit_run.ts";
import { type ScriptedExitQuestion, spokenQuestion } from "../../../bench/experiments/scripted_answers.ts";
import { Random } from "../../../base/random.ts";
import { SKILL } from "../../../simulator/text/scripted.ts";
import { builtinTokenizer } from "../../../simulator/server/backend.ts";
import { speechOf } from "../../../simulator/text/tokenizer.ts";
import { often } from "../../properties.ts";

/** Questions of these difficulties, 0 to 1 as those of the experiments; beyond 1 they are harder than any of them. */
function questionsOf(seed: string, difficulties: readonly number[]): ScriptedExitQuestion[] {
  const { wordIds } = speechOf(builtinTokenizer());
  return difficulties.map((difficulty, number) => {
    const random = new Random(`${seed}/${number}`);
    const [right, tempting] = [`${1000 + random.int(9000)}`, `${100 + random.int(900)}`];
    const alone = (model: string, place: number): string => {
      const draw = random.stream(`${model}/${place}`);
      const { easy, loss } = SKILL[model as keyof typeof SKILL];
      if (draw.next() < easy - loss * difficulty) return right;
      return draw.next() < 0.5 ? tempting : `${10_000 + draw.int(900)}`;
    };
    const answerTokens = () => 8 + random.stream("length").int(8);
    const words = () => " what is it";
    const own = Array.from({ length: 60 }, () => random.pick(wordIds));
    return spokenQuestion({ number, words, tokens: 10, right, answerTokens, alone }, own, random);
  });
}

/** Runs of each kind. */
const [USUAL, HARDER] = [60, 80];

test("simulated engines: when questions become harder, exits are switched off soon", async () => {
  for (let seed = 0; seed < often(1); seed++) {
    const random = new Random(`difficulties/${seed}`);
    const difficulties = Array.from(
      { length: USUAL + HARDER },
      (_, run) => run < USUAL ? 0.5 * random.next() : 0.9 + 0.3 * random.next(),
    );
    const runs = await runExitTrial({
      serving: "vllm",
      seed: `shift/${seed}`,
      graph: treeWithExit(
        { scope: "run", consensus: { agree: 3, audit: 0.01, most_wrong: 0.05 } },
        "declared",
      ),
      questions: questionsOf(`shift/${seed}`, difficulties),
      concurrency: 1,
      signal: new AbortController().signal,
    });
    // Where they are switched off, nothing is decided any more.
    const off = runs.findLastIndex(({ decisions }) => decisions > 0) + 1 - USUAL;
    assert.ok(off > 0 && off < HARDER, `seed ${seed}: off after ${off} harder questions`);
    assert.ok(runs.slice(0, USUAL).filter(({ rootSkipped }) => rootSkipped).length > 0.9 * USUAL);
  }
});
