import { type Draft, fill, type Wording } from "./draft.ts";

const ABOVE: readonly Wording[] = ["Is that more than {n}, yes or no?", "Is it above {n}? Answer yes or no."];
const BELOW: readonly Wording[] = ["Is that less than {n}, yes or no?", "Is it below {n}? Answer yes or no."];

/** Asks behind a story how its result compares with a number, which it never equals; returns `yes` or `no`. */
export function askYesOrNo(draft: Draft, value: number): "yes" | "no" {
  const { random } = draft;
  const distance = 1 + random.int(Math.max(5, Math.floor(value / 2)));
  const limit = draft.given(random.int(2) === 0 && value > distance ? value - distance : value + distance);
  const asksAbove = draft.choose([true, false]);
  draft.say(fill(draft.choose(asksAbove ? ABOVE : BELOW), { n: limit }));
  draft.explain(`${value} is ${value > limit ? "above" : "below"} ${limit}.`);
  return (value > limit) === asksAbove ? "yes" : "no";
}
