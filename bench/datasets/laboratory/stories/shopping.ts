import { type Draft, fill, several, type Wording } from "../draft.ts";
import { PEOPLE, THINGS } from "../vocabulary.ts";
import { addDistractor } from "./story_parts.ts";

const PRICES: readonly Wording[] = [
  "{Things} cost {n} dollars each.",
  "The price of {things} is {n} dollars each.",
];
const BUYS: readonly Wording[] = ["{name} buys {list}.", "{name} wants {list}.", "{name} pays for {list}."];
const COUPONS: readonly Wording[] = ["A coupon takes {n} dollars off.", "The seller asks {n} dollars less."];
const FEES: readonly Wording[] = ["Delivery costs {n} dollars more.", "A bag costs {n} dollars more."];
const PAYS: readonly Wording[] = ["{he} has {n} dollars.", "{he} pays with {n} dollars."];
const HOW_MUCH: readonly Wording[] = ["How many dollars is that in all?", "What must {name} pay in dollars?"];
const CHANGE: readonly Wording[] = ["How many dollars are left?", "What is the change in dollars?"];

/** Things with prices, bought by the piece. */
export function tellShopping(draft: Draft): number {
  const { random, level } = draft;
  const [person] = several(random, PEOPLE, 1);
  const items = several(random, THINGS, level > 2 ? 3 : level > 1 ? 2 : draft.choose([1, 2]));
  const wants = items.map((things) => ({
    things,
    price: draft.number(2, level > 1 ? 15 : 9),
    count: draft.number(2, 9),
  }));
  const price = draft.choose(PRICES);
  for (const { things, price: n } of wants) {
    draft.say(fill(price, { things, Things: things[0]!.toUpperCase() + things.slice(1), n }));
  }
  if (level > 1 && random.next() < 0.3) addDistractor(draft, person!.name);
  const list = wants.map(({ things, count }) => `${count} ${things}`);
  const words = { name: person!.name, he: person!.pronoun };
  const said = list.length === 1 ? list[0]! : `${list.slice(0, -1).join(", ")} and ${list.at(-1)}`;
  draft.say(fill(draft.choose(BUYS), { ...words, list: said }));
  let sum = 0;
  for (const { things, price: each, count } of wants) {
    const cost = draft.calculate(count, "*", each);
    const added = sum === 0 ? cost : draft.calculate(sum, "+", cost.value);
    draft.explain(
      sum === 0 ? `${count} ${things}: ${cost.text}.` : `${count} ${things}: ${cost.text}, ${added.text}.`,
    );
    sum = added.value;
  }
  return settle(draft, sum, words);
}

/** What is added or taken off, and the change. */
function settle(draft: Draft, sum: number, words: Readonly<Record<"name" | "he", string>>): number {
  let value = sum;
  if (draft.level !== 2 && draft.choose([true, false])) {
    const more = draft.choose([true, false]);
    const n = draft.number(2, Math.min(15, more ? 15 : value - 1));
    draft.say(fill(draft.choose(more ? FEES : COUPONS), { n }));
    const done = draft.calculate(value, more ? "+" : "-", n);
    draft.explain(`${more ? "More" : "Less"}: ${done.text}.`);
    value = done.value;
  }
  if (draft.level === 1 || !draft.choose([true, false])) {
    draft.say(fill(draft.choose(HOW_MUCH), words));
    return value;
  }
  const paid = draft.given(Math.ceil((value + 1 + draft.random.int(40)) / 10) * 10);
  draft.say(fill(draft.choose(PAYS), { ...words, n: paid }));
  draft.say(fill(draft.choose(CHANGE), words));
  const done = draft.calculate(paid, "-", value);
  draft.explain(`Left: ${done.text}.`);
  return done.value;
}
