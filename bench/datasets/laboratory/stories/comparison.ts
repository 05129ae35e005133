import { type Draft, fill, several, type Wording } from "../draft.ts";
import { PEOPLE, THINGS } from "../vocabulary.ts";
import { addDistractor, largest } from "./story_parts.ts";

const OPENERS: readonly Wording[] = [
  "{name} has {n} {things}.",
  "{name} collects {n} {things}.",
  "{name} counts {n} {things}.",
];
const MORE: readonly Wording[] = [
  "{name} has {n} more {things} than {other}.",
  "{name} has {n} {things} more than {other} does.",
];
const FEWER: readonly Wording[] = [
  "{name} has {n} fewer {things} than {other}.",
  "{other} has {n} more {things} than {name}.",
];
const TIMES: readonly Wording[] = [
  "{name} has {n} times as many {things} as {other}.",
  "For each of the {things} of {other}, {name} has {n}.",
];
const TOGETHER: readonly Wording[] = [
  "How many {things} do they have together?",
  "What is the number of {things} of all of them?",
];
const OF_LAST: readonly Wording[] = [
  "How many {things} does {last} have?",
  "What is the number of {things} of {last}?",
];
const DIFFERENCE: readonly Wording[] = [
  "How many {things} lie between {first} and {last}?",
  "By how many {things} do {first} and {last} differ?",
];

/** People whose numbers of things are told by comparing them. */
export function tellComparison(draft: Draft): number {
  const { random, level } = draft;
  const aim = draft.choose(level === 1 ? ["together", "last"] : ["together", "last", "difference"]);
  const count = aim === "together" ? 2 + (level > 1 ? 1 : 0) + (level > 3 ? 1 : 0) : level + 1;
  const people = several(random, PEOPLE, Math.min(count, 4)).map(({ name }) => name);
  const things = random.pick(THINGS);
  const values = [draft.number(3, largest(level))];
  draft.say(fill(draft.choose(OPENERS), { name: people[0]!, n: values[0]!, things }));
  draft.explain(`${people[0]}: ${values[0]} ${things}.`);
  for (let index = 1; index < people.length && draft.valid; index++) {
    if (level > 1 && random.next() < 0.1) addDistractor(draft, people[0]!);
    values.push(
      compare(draft, values[index - 1]!, { name: people[index]!, other: people[index - 1]!, things }),
    );
  }
  const words = { first: people[0]!, last: people.at(-1)!, things };
  if (aim === "last") {
    draft.say(fill(draft.choose(OF_LAST), words));
    return values.at(-1)!;
  }
  if (aim === "together") {
    draft.say(fill(draft.choose(TOGETHER), words));
    return total(draft, values);
  }
  draft.say(fill(draft.choose(DIFFERENCE), words));
  const [high, low] = [Math.max(values[0]!, values.at(-1)!), Math.min(values[0]!, values.at(-1)!)];
  const done = draft.calculate(high, "-", low);
  draft.explain(`Difference: ${done.text}.`);
  return done.value;
}

function compare(
  draft: Draft,
  value: number,
  words: Readonly<Record<"name" | "other" | "things", string>>,
): number {
  const most = largest(draft.level);
  const sign = draft.choose(value < 60 ? (["+", "-", "*"] as const) : (["+", "-"] as const));
  const operand = sign === "*"
    ? draft.number(2, value > 33 ? 3 : 6)
    : sign === "+"
    ? draft.number(2, most)
    : draft.number(1, Math.min(most, value - 1));
  const form = draft.choose(sign === "+" ? MORE : sign === "-" ? FEWER : TIMES);
  draft.say(fill(form, { ...words, n: operand }));
  const done = draft.calculate(value, sign, operand);
  draft.explain(`${words.name}: ${done.text}.`);
  return done.value;
}

/** The sum, added up one by one. */
function total(draft: Draft, values: readonly number[]): number {
  let sum = values[0]!;
  for (const value of values.slice(1)) {
    const done = draft.calculate(sum, "+", value);
    draft.explain(`Together: ${done.text}.`);
    sum = done.value;
  }
  return sum;
}
