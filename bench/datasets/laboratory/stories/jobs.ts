import { type Draft, fill, several, type Wording } from "../draft.ts";
import { PEOPLE } from "../vocabulary.ts";
import { addDistractor } from "./story_parts.ts";

/** Something done a number of times a day. */
interface Work {
  readonly does: string;
  readonly units: string;
}

const WORKS: readonly Work[] = [
  { does: "reads", units: "pages" },
  { does: "walks", units: "km" },
  { does: "picks", units: "apples" },
  { does: "bakes", units: "cakes" },
  { does: "writes", units: "lines" },
  { does: "plants", units: "trees" },
];
const FIRST: readonly Wording[] = [
  "{name} {does} {n} {units} a day for {d} days.",
  "For {d} days {name} {does} {n} {units} each day.",
];
const THEN: readonly Wording[] = [
  "Then it is {n} {units} a day for {d} days.",
  "For the next {d} days it is {n} {units} each day.",
];
const FRIEND: readonly Wording[] = [
  "{friend} {does} {n} {units} a day for {d} days.",
  "{friend} {does} {n} {units} on each of {d} days.",
];
const BEFORE: readonly Wording[] = ["{name} had {n} {units} before.", "{n} {units} were done before."];
const GOALS: readonly Wording[] = ["The goal is {n} {units}.", "They need {n} {units}."];
const IN_ALL: readonly Wording[] = [
  "How many {units} is that in all?",
  "What is the number of {units} in the end?",
];
const MISSING: readonly Wording[] = ["How many {units} are missing?", "How many {units} are still to do?"];

/** Work at a daily pace, by one person or two, towards a goal. */
export function tellWork(draft: Draft): number {
  const { random, level } = draft;
  const [person, friend] = several(random, PEOPLE, 2);
  const words = { name: person!.name, friend: friend!.name, ...random.pick(WORKS) };
  const pace = level > 1 ? 14 : 9;
  let sum = addPart(draft, 0, { form: draft.choose(FIRST), words, pace });
  if (level > 1 && random.next() < 0.3) addDistractor(draft, words.name);
  if (level > 1) {
    sum = addPart(draft, sum, { form: draft.choose([...THEN, ...FRIEND]), words, pace });
  }
  if (level > 3) sum = addPart(draft, sum, { form: draft.choose(FRIEND), words, pace });
  const before = level === 2 ? 0 : draft.choose(level === 1 ? [1] : [0, 1]);
  if (before === 1) {
    const n = draft.number(3, 60);
    draft.say(fill(draft.choose(BEFORE), { ...words, n }));
    const done = draft.calculate(sum, "+", n);
    draft.explain(`Before: ${done.text}.`);
    sum = done.value;
  }
  if (level < 3 || draft.choose([true, false])) {
    draft.say(fill(draft.choose(IN_ALL), words));
    return sum;
  }
  const goal = draft.given(sum + 1 + random.int(90));
  draft.say(fill(draft.choose(GOALS), { ...words, n: goal }));
  draft.say(fill(draft.choose(MISSING), words));
  const done = draft.calculate(goal, "-", sum);
  draft.explain(`Missing: ${done.text}.`);
  return done.value;
}

function addPart(
  draft: Draft,
  sum: number,
  { form, words, pace }: { form: Wording; words: Readonly<Record<string, string>>; pace: number },
): number {
  const [n, d] = [draft.number(2, pace), draft.number(2, 9)];
  draft.say(fill(form, { ...words, n, d }));
  const part = draft.calculate(d, "*", n);
  if (sum === 0) {
    draft.explain(`${d} days: ${part.text} ${words["units"]}.`);
    return part.value;
  }
  const done = draft.calculate(sum, "+", part.value);
  draft.explain(`${d} days: ${part.text}, ${done.text}.`);
  return done.value;
}
