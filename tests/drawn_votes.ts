import type { Random } from "../base/random.ts";
import { earlyExitSchema } from "../cfgs/schema/early_exit.ts";
import { answerExtractor } from "../scorer/answers/extract.ts";
import type { FinalAnswer } from "../scorer/answers/final_answer.ts";

const extract = answerExtractor(earlyExitSchema.parse({}).answer);
const ANSWERS = new Map<number, FinalAnswer>();

/** The final answer of a text that says this number. */
export function finalAnswerOf(value: number): FinalAnswer {
  const answer = ANSWERS.get(value) ?? extract(`The answer is ${value}.`, "")!;
  ANSWERS.set(value, answer);
  return answer;
}

/** Shares of right answers of the models to easy, hard and harder questions. */
const SKILLS: Readonly<Record<string, readonly [easy: number, hard: number, harder: number]>> = {
  small: [0.85, 0.3, 0.15],
  middle: [0.92, 0.45, 0.25],
  large: [0.97, 0.6, 0.4],
};
/** Share of the roots that have what most have said, by the same kinds of questions; the others find something themselves. */
const FOLLOWS = [0.98, 0.98, 0.8] as const;

/** The answers of a 9-3-1 run: right is 100, wrong ones are often equal. */
export interface Drawn {
  readonly leaves: readonly { readonly model: string; readonly value: number; readonly ms: number }[];
  readonly root: number;
}

/** Draws the answers to a question; `hard`, `harder`: shares of the questions of these kinds. */
export function drawn(random: Random, { hard = 0.3, harder = 0 } = {}): Drawn {
  const draw = random.next();
  const kind = draw < harder ? 2 : draw < harder + hard ? 1 : 0;
  const valueOf = (model: string) =>
    random.next() < SKILLS[model]![kind] ? 100 : random.next() < 0.4 ? 7 : 200 + random.int(500);
  const leaves = Array.from({ length: 9 }, (_, index) => {
    const model = ["small", "middle", "large"][index % 3]!;
    const ms = Math.round((1 + index % 3) * 1000 * (0.5 + random.next()));
    return { model, value: valueOf(model), ms };
  });
  const counts = new Map<number, number>();
  for (const { value } of leaves) counts.set(value, (counts.get(value) ?? 0) + 1);
  const [[most = 0] = []] = [...counts].sort(([, a], [, b]) => b - a);
  return { leaves, root: random.next() < FOLLOWS[kind] ? most : valueOf("large") };
}
