/** A person of the stories. */
export interface Person {
  readonly name: string;
  readonly pronoun: "She" | "He";
}

const WOMEN = ["Anna", "Cara", "Dora", "Emma", "Fay", "Gina", "Ida", "Lena", "Mia", "Nora", "Rosa", "Zoe"];
const MEN = ["Ben", "Carl", "Dan", "Eric", "Finn", "Hugo", "Ian", "Leo", "Max", "Noah", "Omar", "Paul"];

/** People of the stories and tables. */
export const PEOPLE: readonly Person[] = [
  ...WOMEN.map((name): Person => ({ name, pronoun: "She" })),
  ...MEN.map((name): Person => ({ name, pronoun: "He" })),
];

/** Things that are counted, in the plural. */
export const THINGS: readonly string[] = [
  "pens",
  "books",
  "apples",
  "shells",
  "stamps",
  "coins",
  "cards",
  "stones",
  "eggs",
  "cups",
  "roses",
  "marbles",
  "cakes",
  "nuts",
  "plums",
  "beads",
];

/** Sentences with a number that has nothing to do with the question. */
export const DISTRACTORS: readonly string[] = [
  "It is {n} km to the next town.",
  "{name} is {n} years old.",
  "The bus comes every {n} minutes.",
  "The room has {n} windows.",
  "{name} has lived here for {n} years.",
  "The walk home takes {n} minutes.",
];
