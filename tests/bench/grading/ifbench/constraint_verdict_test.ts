import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  type Constraint,
  looseVariants,
  looseVerdict,
  strictVerdict,
} from "../../../../bench/grading/ifbench/constraint_verdict.ts";
import { CHECKERS, REFUSED } from "../../../../bench/grading/ifbench/constraints.ts";

const FIXTURES = new URL("../../../fixtures/ifbench/", import.meta.url);

interface Cases {
  readonly constraints: readonly Constraint[];
  readonly texts: readonly string[];
}

/** A digit for each text: 1 where it meets the constraint, 0 where not, e where IFBench's program ends with an error. */
interface Recorded {
  readonly strict: string;
  readonly loose: string;
}

const { constraints, texts }: Cases = JSON.parse(readFileSync(new URL("cases.json", FIXTURES), "utf8"));
const recorded: Recorded[] = JSON.parse(readFileSync(new URL("verdicts.json", FIXTURES), "utf8"));

/** Where ours differ on purpose: a text that ends IFBench's program with an error does not meet the constraint. */
const ENDS_WITH_AN_ERROR = new Set(["custom:csv_city", "custom:csv_quotes"]);

const SENTENCES =
  "where its sentences end depends on words that only NLTK's table knows, which is not part of Canopy";

function assertSame(constraint: Constraint, text: string, ours: boolean | string, theirs: string): boolean {
  if (typeof ours === "string") {
    assert.equal(ours, SENTENCES);
    return false;
  }
  if (theirs === "e") assert.ok(ENDS_WITH_AN_ERROR.has(constraint.name), constraint.name);
  assert.equal(
    ours,
    theirs === "1",
    `${constraint.name} ${JSON.stringify(constraint.given)} ${JSON.stringify(text)}`,
  );
  return true;
}

test("Each constraint is met, strictly and loosely, by the texts that meet it in IFBench's own program, and no others", () => {
  let unknown = 0;
  const loose = texts.map(looseVariants);
  for (const [at, constraint] of constraints.entries()) {
    for (const [index, text] of texts.entries()) {
      const { strict, loose: wanted } = recorded[at]!;
      if (!assertSame(constraint, text, strictVerdict(constraint, text), strict[index]!)) unknown++;
      // A text of one line has no other variant.
      if (loose[index]!.length <= 2) assert.equal(wanted[index], strict[index]);
      else if (!assertSame(constraint, text, looseVerdict(constraint, loose[index]!), wanted[index]!)) {
        unknown++;
      }
    }
  }
  // Of 34,998 texts with a constraint: those with initials, abbreviations or dots before a capital.
  assert.ok(unknown < 40, `${unknown} unknown`);
});

test("Each of the 58 constraints has a checker, with recorded texts that meet it and that do not, or is refused with the reason", () => {
  assert.equal(Object.keys(CHECKERS).length, 57);
  for (const name of Object.keys(CHECKERS)) {
    const verdicts = recorded.flatMap(({ strict }, at) => constraints[at]!.name === name ? [...strict] : []);
    assert.ok(verdicts.includes("1") && verdicts.includes("0"), name);
  }
  assert.deepEqual(Object.keys(REFUSED), ["words:start_verb"]);
  assert.match(String(strictVerdict({ name: "words:start_verb", given: {} }, "Run.")), /trained tagger/);
});

test("A constraint without the argument that it needs cannot be checked: IFBench's program would draw one", () => {
  const verdict = (name: string, given: Constraint["given"]) =>
    strictVerdict({ name, given }, "Three words here.");
  assert.equal(
    verdict("count:word_count_range", { min_words: 1 }),
    "its argument max_words must be a number from 0: current value is none",
  );
  assert.equal(
    verdict("sentence:keyword", { word: "here", N: 0 }),
    "its argument N must be a whole number from 1: current value is 0",
  );
  assert.match(
    String(verdict("format:list", { sep: 3 })),
    /its argument sep must be a text: current value is 3/,
  );
  assert.match(String(verdict("count:stars", {})), /knows no constraint count:stars/);
});

test("Where sentences end in a way that only Punkt's table knows, a verdict is given where both ways come to the same", () => {
  const text = "He met J. Bach. They sang.";
  assert.equal(strictVerdict({ name: "ratio:sentence_balance", given: {} }, text), false);
  assert.equal(strictVerdict({ name: "sentence:keyword", given: { word: "sang", N: 2 } }, text), SENTENCES);
});
