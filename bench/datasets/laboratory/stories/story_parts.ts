import { type Draft, fill } from "../draft.ts";
import type { LaboratoryLevel } from "../question.ts";
import { DISTRACTORS } from "../vocabulary.ts";

/** The largest number that a story of a level gives. */
export function largest(level: LaboratoryLevel): number {
  return [20, 40, 70, 99][level - 1]!;
}

/** Adds a sentence with a number that does not matter. */
export function addDistractor(draft: Draft, name: string): void {
  draft.say(fill(draft.choose(DISTRACTORS), { name, n: draft.number(5, 30) }));
}
