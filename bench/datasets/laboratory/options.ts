import { type Draft, several, type Wording } from "./draft.ts";

const LETTERS = "ABCD";
const ASKS: readonly Wording[] = ["Choose one:", "Options:", "Which one is it?"];
/** How far a wrong option may lie from the right one. */
const NEARBY = [1, -1, 2, -2, 3, 5, -5, 9, 10, -10, 11, 20, -20];

/** Adds four numbers to choose from behind a story, the story's among them; returns the letter of that one. */
export function offerOptions(draft: Draft, value: number): string {
  const { random } = draft;
  const wrong = several(random, NEARBY.filter((by) => value + by > 0), LETTERS.length - 1).map((by) =>
    value + by
  );
  const numbers = several(random, [value, ...wrong], LETTERS.length);
  const listed = numbers.map((number, at) => `${number} (${LETTERS[at]})`);
  draft.say(`${draft.choose(ASKS)} ${listed.slice(0, -1).join(", ")} or ${listed.at(-1)}.`);
  const letter = LETTERS[numbers.indexOf(value)]!;
  draft.explain(`${value} (${letter}).`);
  return letter;
}
