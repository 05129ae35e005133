import { type Draft, fill, several, type Wording } from "../draft.ts";
import { PEOPLE, THINGS } from "../vocabulary.ts";
import { addDistractor, largest } from "./story_parts.ts";

/** Something that happens to a number of things: how the story says it, and how the solution does. */
interface EventForm {
  readonly text: Wording;
  readonly label: Wording;
}

const GAINS: readonly EventForm[] = [
  { text: "{he} buys {n} more {things}.", label: "Buys {n}" },
  { text: "{friend} gives {name} {n} {things}.", label: "Gets {n}" },
  { text: "{he} finds {n} {things} in the garden.", label: "Finds {n}" },
  { text: "{he} wins {n} {things} at the fair.", label: "Wins {n}" },
];
const LOSSES: readonly EventForm[] = [
  { text: "{he} gives {n} {things} to {friend}.", label: "Gives {n}" },
  { text: "{he} loses {n} {things} on the way.", label: "Loses {n}" },
  { text: "{he} sells {n} of the {things}.", label: "Sells {n}" },
  { text: "{friend} takes {n} of the {things}.", label: "Gives {n}" },
];
const MULTIPLES: readonly EventForm[] = [
  { text: "Soon {name} has {n} times as many {things}.", label: "{n} times" },
  { text: "The number of {things} becomes {n} times as large.", label: "{n} times" },
];
const PARTS: readonly EventForm[] = [
  { text: "{he} puts all {things} into {n} equal bags and keeps one bag.", label: "One of {n} parts" },
  {
    text: "{name} and some friends, {n} people in all, share the {things} equally.",
    label: "One of {n} parts",
  },
];
const PACK_GAINS: readonly EventForm[] = [
  { text: "{he} buys {n} packs of {m} {things} each.", label: "Buys" },
  { text: "{friend} brings {n} boxes with {m} {things} in each.", label: "Gets" },
];
const PACK_LOSSES: readonly EventForm[] = [
  { text: "{he} gives {m} {things} to each of {n} children.", label: "Gives" },
  { text: "{he} sells {n} bags of {m} {things} each.", label: "Sells" },
];

const OPENERS: readonly Wording[] = [
  "{name} has {n} {things}.",
  "{name} starts with {n} {things}.",
  "There are {n} {things} on the table of {name}.",
];
const QUESTIONS: readonly Wording[] = [
  "How many {things} does {name} have now?",
  "How many {things} are left for {name} in the end?",
  "What is the number of {things} that {name} has at last?",
];

/** A number of things that changes from event to event. */
export function tellEvents(draft: Draft): number {
  const { random, level } = draft;
  const [person, friend] = several(random, PEOPLE, 2);
  const words = {
    name: person!.name,
    he: person!.pronoun,
    friend: friend!.name,
    things: random.pick(THINGS),
  };
  let value = draft.number(3, largest(level));
  draft.say(fill(draft.choose(OPENERS), { ...words, n: value }));
  draft.explain(`Start: ${value} ${words.things}.`);
  const steps = level + 1;
  const distractorAt = level > 1 && random.next() < 0.3 ? random.int(steps) : -1;
  for (let step = 0; step < steps && draft.valid; step++) {
    if (step === distractorAt) addDistractor(draft, words.name);
    const packs = step + 1 < steps && random.next() < 0.3;
    value = packs ? addPacks(draft, value, words) : addEvent(draft, value, words);
    if (packs) step++;
  }
  draft.say(fill(draft.choose(QUESTIONS), words));
  return value;
}

type Words = Readonly<Record<"name" | "he" | "friend" | "things", string>>;

function addEvent(draft: Draft, value: number, words: Words): number {
  const sign = draft.choose(signsFor(draft, value));
  const most = largest(draft.level);
  const operand = sign === "+"
    ? draft.number(2, most)
    : sign === "-"
    ? draft.number(1, Math.min(most, value - 1))
    : sign === "*"
    ? draft.number(2, value > 33 ? 3 : 6)
    : draft.given(draft.random.pick(divisorsOf(value)));
  const form = draft.choose(
    sign === "+" ? GAINS : sign === "-" ? LOSSES : sign === "*" ? MULTIPLES : PARTS,
  );
  draft.say(fill(form.text, { ...words, n: operand }));
  const done = draft.calculate(value, sign, operand);
  draft.explain(`${fill(form.label, { n: operand })}: ${done.text}.`);
  return done.value;
}

function addPacks(draft: Draft, value: number, words: Words): number {
  const gains = draft.choose([true, false]);
  const [packs, size] = [draft.number(2, 9), draft.number(2, draft.level > 2 ? 12 : 9)];
  const form = draft.choose(gains ? PACK_GAINS : PACK_LOSSES);
  draft.say(fill(form.text, { ...words, n: packs, m: size }));
  const all = draft.calculate(packs, "*", size);
  const done = draft.calculate(value, gains ? "+" : "-", all.value);
  draft.explain(`${form.label} ${all.text}: ${done.text}.`);
  return done.value;
}

/** Operations that leave a whole number of a fair size; the common ones more than once. */
function signsFor(draft: Draft, value: number): ("+" | "-" | "*" | "/")[] {
  const signs: ("+" | "-" | "*" | "/")[] = ["+", "+"];
  if (value > 1) signs.push("-", "-");
  if (value <= 20 * draft.level + 20) signs.push("*");
  if (divisorsOf(value).length > 0) signs.push("/");
  return signs;
}

/** Divisors from 2 to 9 that leave more than one. */
function divisorsOf(value: number): number[] {
  return [2, 3, 4, 5, 6, 7, 8, 9].filter((divisor) => value % divisor === 0 && value > divisor);
}
