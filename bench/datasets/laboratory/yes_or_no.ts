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
  draft.explain(`Is ${value} ${asksAbove ? "above" : "below"} ${limit}? ${comparison(value, limit)}`);
  return (value > limit) === asksAbove ? "yes" : "no";
}

/**
 * A comparison of two unequal numbers, digit by digit from the highest down to the first that differs: a model with few
 * layers cannot compare numbers at a glance.
 */
function comparison(value: number, limit: number): string {
  const digits = Math.max(`${value}`.length, `${limit}`.length);
  const [own, other] = [value, limit].map((number) => `${number}`.padStart(digits, "0")) as [string, string];
  const differs = [...own].findIndex((digit, at) => digit !== other[at]);
  const equal = [...own.slice(0, differs)].map((digit) => `${digit} is ${digit}, `).join("");
  const relation = value > limit ? "above" : "below";
  return `${equal}${own[differs]} is ${relation} ${other[differs]}. ${value} is ${relation} ${limit}.`;
}
