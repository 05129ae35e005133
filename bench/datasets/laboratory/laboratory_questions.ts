import { fnv1a, Random } from "../../../base/random.ts";
import { Draft } from "./draft.ts";
import type { LaboratoryKind, LaboratoryLevel, LaboratoryQuestion, LaboratorySplit } from "./question.ts";
import { tellComparison } from "./stories/comparison.ts";
import { tellEvents } from "./stories/events.ts";
import { tellShopping } from "./stories/shopping.ts";
import { tellWork } from "./stories/jobs.ts";
import { askYesOrNo } from "./yes_or_no.ts";

/** Writes a story and its solution into a draft; returns the result. */
type Teller = (draft: Draft) => number;

const STORIES: readonly (readonly [string, Teller])[] = [
  ["events", tellEvents],
  ["comparison", tellComparison],
  ["shopping", tellShopping],
  ["work", tellWork],
];
/** Of so many parts of all templates, and of all numbers, one is kept for tuning and one for tests. */
const PARTS = 8;
const LEVELS: readonly LaboratoryLevel[] = [1, 2, 3, 4];
/** Of ten questions so many are stories. */
const STORIES_IN_TEN = 7;

/** What `laboratoryQuestions` draws from. */
export interface LaboratoryDraw {
  readonly split: LaboratorySplit;
  readonly count: number;
  readonly seed: string;
  /** Both kinds in the laboratory's mixture when absent. */
  readonly kind?: LaboratoryKind | undefined;
  /** All levels when absent. */
  readonly level?: LaboratoryLevel | undefined;
}

/**
 * Questions of the laboratory with worked solutions, no two alike. Neither a template nor a question's numbers ever
 * occur in two splits; the same draw gives the same questions.
 */
export function laboratoryQuestions(draw: LaboratoryDraw): LaboratoryQuestion[] {
  const random = new Random(`laboratory/${draw.split}/${draw.seed}`);
  const seen = new Set<string>();
  const questions: LaboratoryQuestion[] = [];
  while (questions.length < draw.count) {
    // Kind and level are drawn once a question, so that the splits' rarity does not change the mixture.
    const kind = draw.kind ?? (random.int(10) < STORIES_IN_TEN ? "story" : "choice");
    const level = draw.level ?? random.pick(LEVELS);
    const [name, tell] = random.pick(STORIES);
    for (;;) {
      const draft = new Draft(random, level);
      draft.mark(`${name}${level}${kind}`);
      const value = tell(draft);
      const answer = kind === "story" ? String(value) : draft.valid ? askYesOrNo(draft, value) : "";
      const { question, template, numbers } = draft;
      if (!draft.valid || splitOf(template) !== draw.split || splitOf(numbers) !== draw.split) continue;
      if (seen.has(question)) continue;
      seen.add(question);
      const id = `${draw.split}-${draw.seed}-${questions.length + 1}`;
      const solution = `${draft.steps} The answer is ${answer}.`;
      questions.push({ id, kind, level, question, solution, answer, template, numbers });
      break;
    }
  }
  return questions;
}

/** The split to which a template, or the numbers of a question, belong. */
function splitOf(text: string): LaboratorySplit {
  // FNV's low bits are the plainest; the digits behind the point of a golden-ratio product mix them.
  const part = Math.floor(((fnv1a(text) * 0.6180339887498949) % 1) * PARTS);
  return part === 0 ? "tune" : part === 1 ? "test" : "train";
}
