import assert from "node:assert/strict";
import { test } from "node:test";
import { anyCharacter, fc, often } from "../../properties.ts";
import { earlyExitSchema } from "../../../cfgs/schema/early_exit.ts";
import { answerExtractor } from "../../../scorer/answers/extract.ts";
import { equalAnswers } from "../../../scorer/answers/equal_answers.ts";

const rulesOf = (answer: Record<string, unknown> = {}) => earlyExitSchema.parse({ answer }).answer;
const extract = answerExtractor(rulesOf());
const valueOf = (text: string, question = "") => extract(text, question)?.value;

const eggs =
  "A farm's hens lay 16 eggs a day. She sells the rest for $2 per egg. How many dollars does she make every day?";
const options = "Which planet is the largest?\nA) Mars\nB) Jupiter\nC) Venus\nD) Earth";

/** Text, what is found in it, and the question (a neutral one when there is none). */
const cases: readonly (readonly [string, string | undefined, string?])[] = [
  // GSM8K
  ["She sells 9 eggs, so 9 * 2 = 18.\n#### 18", "number:18", eggs],
  ["Janet makes 9 * 2 = $18 every day at the farmer's market.", "number:18", eggs],
  ["She makes **$18** every day from her 9 eggs.", "number:18", eggs],
  ["The final answer is 18 dollars per day.", "number:18"],
  ["Therefore, the answer is: $18.00.", "number:18"],
  ["**Answer:** 18", "number:18"],
  ["**Final Answer**\n\n18 dollars", "number:18"],
  ["## Answer:\n18 dollars", "number:18"],
  [
    "Step 1: 16 - 3 = 13\nStep 2: 13 - 4 = 9\nStep 3: 9 × 2 = 18\n\nSo Janet makes $18 per day.",
    "number:18",
    eggs,
  ],
  ["The answer is eighteen.", "number:18"],
  ["The answer is twenty-five dollars.", "number:25"],
  ["The total is 1,234,567 people.", "number:1234567", "How many people live there?"],
  ["The answer is 1 234 567.", "number:1234567"],
  ["The answer is 1{,}234.", "number:1234"],
  ["The answer is $1,000,000$.", "number:1000000"],
  ["The answer is 3 million dollars.", "number:3000000"],
  ["The answer is 2.50 dollars.", "number:5/2"],
  ["The answer is $\\frac{5}{2}$.", "number:5/2"],
  ["The answer is 2 1/2 hours.", "number:5/2"],
  ["The answer is $2\\frac{1}{2}$.", "number:5/2"],
  ["The answer is -7.", "number:-7"],
  ["The answer is −7.", "number:-7"],
  ["The answer is approximately 3.14.", "number:157/50"],
  ["The answer is 25%.", "number:1/4"],
  ["The answer is $25\\%$.", "number:25", "What percentage of the eggs is left?"],
  ["The answer is 6.02 \\times 10^{23}.", "number:602000000000000000000000"],
  ["The answer is $10^6$.", "number:1000000"],
  ["The answer is 90°.", "number:90"],
  ["The answer is $45^\\circ$.", "number:45"],
  ["The answer is 12 km/h.", "number:12"],
  ["The answer is 12 cm^2.", "number:12"],
  ["The answer is x = 18.", "number:18"],
  ["答案是 18。", "number:18"],
  ["所以答案是：１８個。", "number:18"],
  ["Die Antwort ist 18 Euro.", "number:18"],
  ["La réponse est 18.", "number:18"],
  ["The answer is 12? No: the correct answer is 13.", "number:13"],
  ["<think>The answer is 5.</think>The answer is 6.", "number:6"],
  // No final answer that could be told for sure.
  ["The answer is between 5 and 10.", undefined],
  ["The answer is 3 or 4.", "list:number:3,number:4"],
  ["The moon landing of 1969 was seen by 600 million people.", undefined, "Why did people go to the moon?"],
  ["Between 1914 and 1918 some 20 million people died.", undefined, "How many people died?"],
  ["It depends on many things, which I discuss below.", undefined, eggs],
  ["", undefined, eggs],
  ["I hope this answer is helpful!", undefined],
  ["To answer the question, we need to find out what is going on here.", undefined],
  ["The answer is 5. Wait, I forgot the eggs that were eaten.", undefined],
  ["The answer is 5. But if there are ducks, it is 6.", undefined],
  ["The result is 4. Multiplied by 3 that is 12.", undefined, eggs],
  ["So x \\geq 5.", undefined, eggs],
  ["She has at least 5 eggs left.", undefined, eggs],
  ["So 3x = 12.", undefined, eggs],
  ["So x + y = 5.", undefined, eggs],
  ["Therefore, $x^2 + y^2 = 4$.", "expression:x^2+y^2=4"],
  ["Therefore, $a = 3$. Then $b = 2a = 6$.", undefined],
  ["The answer is $x \\le 4$.", "expression:x<=4"],
  // MATH
  ["so we get $\\boxed{\\frac{1}{2}}$.", "number:1/2"],
  ["$\\boxed{\\dfrac12}$", "number:1/2"],
  ["\\boxed{0.5}", "number:1/2"],
  ["\\boxed{12} is wrong, so \\boxed{13}.", "number:13"],
  ["\\boxed{1} and \\boxed{-2}", "list:number:-2,number:1"],
  ["The roots are \\boxed{3}, \\boxed{4} or \\boxed{5}.", "list:number:3,number:4,number:5"],
  ["$\\boxed{4}$ \\text{ and } $\\boxed{3}$", "list:number:3,number:4"],
  ["\\[\\boxed{4} \\quad\\text{or}\\quad \\boxed{3}\\]", "list:number:3,number:4"],
  ["(a) \\boxed{2}. For (b) we find \\boxed{1}.", "sequence:number:2,number:1"],
  ["First \\boxed{7}. Checking again gives \\boxed{7}.", "number:7"],
  ["\\boxed{x \\geq 5}", "expression:x>=5"],
  ["\\boxed{x != 3}", "expression:x!=3"],
  ["\\boxed{x = 1, y = 2}", "list:x=number:1,y=number:2"],
  ["\\boxed{082}", "number:82"],
  ["$\\boxed{x = 5}$", "number:5"],
  ["\\boxed{5\\text{ cm}}", "number:5"],
  ["\\boxed{\\$32{,}000}", "number:32000"],
  ["\\boxed{2\\sqrt{3}}", "expression:2\\sqrt{3}"],
  ["\\boxed{2 \\cdot \\sqrt 3}", "expression:2\\sqrt{3}"],
  ["The answer is $2\\sqrt3$.", "expression:2\\sqrt{3}"],
  ["\\boxed{\\left( 3, \\frac{\\pi}{2} \\right)}", "expression:(3,\\frac{\\pi}{2})"],
  ["\\boxed{(3,\\dfrac{\\pi}{2})}", "expression:(3,\\frac{\\pi}{2})"],
  ["\\boxed{\\{1, 2\\}}", "list:number:1,number:2"],
  ["\\boxed{2, 1}", "list:number:1,number:2"],
  ["\\boxed{x = 2 \\text{ or } x = 1}", "list:number:1,number:2"],
  ["\\boxed{x^2 + 2x + 1}", "expression:x^2+2x+1"],
  ["\\boxed{x^{2}+2x+1}", "expression:x^2+2x+1"],
  ["\\boxed{\\text{Evelyn}}", "expression:evelyn"],
  ["\\boxed{\\text{(C)}}", "choice:C"],
  ["\\boxed{C}", "choice:C"],
  ["\\boxed{[0, \\infty)}", "expression:[0,\\infty)"],
  ["The answer is $x^2+1$.", "expression:x^2+1"],
  ["Therefore, $f(x) = 2x+3$.", "expression:2x+3"],
  ["The answer is 5x.", "expression:5x"],
  ["\\boxed{", undefined],
  ["\\boxed{}", undefined],
  // MMLU
  ["The answer is (B).", "choice:B", options],
  ["The correct answer is **B) Jupiter**.", "choice:B", options],
  ["The correct option is B: Jupiter, because it has the largest mass.", "choice:B", options],
  ["Answer: B", "choice:B"],
  ["**Answer: (b)**", "choice:B"],
  ["B", "choice:B", options],
  ["B) Jupiter", "choice:B", options],
  ["Jupiter is far larger than Earth.\n\n**B**", "choice:B", options],
  ["The answer is B because of its mass.", "choice:B"],
  ["The answer is A large planet.", undefined, options],
  ["The answer is I think Jupiter.", undefined, options],
  ["B", undefined, "Which vitamin is it?"],
  ["Yes, since 7 has no divisors.", "choice:yes", "Is 7 a prime number?"],
  ["**No**. It does not.", "choice:no", "Does the sun go round the earth?"],
  ["The answer is no.", "choice:no"],
  ["No doubt about it.", undefined, "Is 7 a prime number?"],
  ["Yes, here is a long text on it.", undefined, "Tell me about prime numbers."],
  // JSON
  ['{"answer": 18, "why": "9 * 2"}', "number:18"],
  ['Here it is:\n```json\n{"result": "18.0"}\n```', "number:18"],
  ['{"answer": ["b", "a"]}', 'json:["b","a"]'],
  ['{"other": 1}', undefined],
  ['{"answer": 18', "number:18"],
  // Code
  ["The loop adds up.\n\nOutput:\n```\n832040\n```", "number:832040", "What does this program print?"],
  ["```output\nhello world\n```", "expression:helloworld", "What is the output of this code?"],
  ["It prints `[1, 2, 3]` in the end.", "expression:[1,2,3]", "What does it print?"],
  ["```python\nprint(1)\n```\nIt prints `1`.", undefined, "Write a program that prints numbers."],
];

test("final answers are found in texts as models write them, and none where there is none", () => {
  const found = cases.map(([text, , question]) => [text, valueOf(text, question)]);
  assert.deepEqual(found, cases.map(([text, expected]) => [text, expected]));
});

test("a configured pattern and a configured field are looked for first", () => {
  const pattern = answerExtractor(rulesOf({ pattern: "(?i)verdict: *(\\w+)" }));
  assert.equal(pattern("VERDICT: guilty\nlater verdict: 18. \\boxed{3}", "")?.value, "number:18");
  assert.equal(pattern("nothing, \\boxed{3}", "")?.value, "number:3");
  const whole = answerExtractor(rulesOf({ pattern: "[0-9]+ apples" }));
  const { kind, text, value } = whole("5 apples, then 6 apples", "") ?? {};
  assert.deepEqual([kind, text, value], ["pattern", "6 apples", "number:6"]);
  const field = answerExtractor(rulesOf({ field: "data.1.value" }));
  assert.equal(field('{"data": [{"value": 1}, {"value": "2.0"}]}', "")?.value, "number:2");
  assert.equal(field('{"data": [{"value": 1}]}', ""), undefined);
  assert.equal(answerExtractor(rulesOf({ field: "__proto__.x" }))('{"a": 1}', ""), undefined);
});

test("only the kinds of the settings are looked for, in their order", () => {
  assert.equal(
    answerExtractor(rulesOf({ extract: ["choice"] }))("\\boxed{18}. The answer is 18.", ""),
    undefined,
  );
  const text = "The answer is 12. \\boxed{13}";
  assert.equal(answerExtractor(rulesOf({ extract: ["number", "boxed"] }))(text, "")?.value, "number:12");
  assert.equal(answerExtractor(rulesOf({ extract: ["boxed", "number"] }))(text, "")?.value, "number:13");
});

test("answers are equal whatever the notation and the kind, and unequal when they say something else", () => {
  const same = (a: string, b: string) => {
    const [first, second] = [extract(a, eggs), extract(b, eggs)];
    return first !== undefined && second !== undefined && equalAnswers(first, second);
  };
  assert.ok(same("#### 18", "so \\boxed{18.0}"));
  assert.ok(same("The answer is $\\frac{1}{4}$.", "She makes 1 / 4 = 0.25 dollars."));
  assert.ok(same("\\boxed{\\frac{a}{b}}", "\\boxed{a/b}"));
  assert.ok(same("The answer is B.", "\\boxed{\\text{B}}"));
  assert.ok(!same("#### 18", "#### 180"));
  assert.ok(!same("#### 18", "#### -18"));
  assert.ok(!same("\\boxed{x^2}", "\\boxed{x_2}"));
  assert.ok(!same("\\boxed{(1,2)}", "\\boxed{(2,1)}"));
  assert.ok(!same("\\boxed{1/3}", "\\boxed{0.333}"));
});

test("a number is found whatever stands around it, and is the number that was written", () => {
  const value = fc.tuple(fc.integer({ min: -1e9, max: 1e9 }), fc.integer({ min: 0, max: 6 }));
  const form = fc.constantFrom(
    (text: string) => `The answer is ${text}.`,
    (text: string) => `so \\boxed{${text}}`,
    (text: string) => `#### ${text}`,
    (text: string) => `**Final answer:** $${text}$`,
    (text: string) => `The answer is ${text} apples`,
    (text: string) => `{"answer": ${text}}`,
  );
  fc.assert(fc.property(value, form, ([digits, decimals], write) => {
    const text = (digits / 10 ** decimals).toFixed(decimals);
    const [top, bottom = "1"] = valueOf(write(text))?.replace("number:", "").split("/") ?? [];
    assert.ok(
      Math.abs(Number(top) / Number(bottom) - Number(text)) < 1e-9,
      `${write(text)}: ${top}/${bottom}`,
    );
  }));
});

test("thousands separators change nothing", () => {
  fc.assert(fc.property(fc.integer({ min: 1000, max: 10 ** 12 }), (number) => {
    const grouped = number.toLocaleString("en-US");
    assert.equal(valueOf(`The answer is ${grouped}.`), `number:${number}`);
    assert.equal(valueOf(`\\boxed{${grouped.replaceAll(",", "{,}")}}`), `number:${number}`);
  }));
});

test("any text whatever is read without an error, and what is found has a bounded length", () => {
  const piece = fc.constantFrom(
    "\\boxed{",
    "}",
    "{",
    "$",
    "\\frac",
    "answer is ",
    "####",
    "1,",
    "000",
    ".",
    "=",
    "\n",
    "**",
    "`",
    "```",
    '{"answer":',
    "(A)",
    "</think>",
    "\u{1f600}",
    "答案是",
    "-",
    "10^",
    "\\text{",
    " and ",
    "Yes, ",
  );
  const text = fc.oneof(
    fc.string({ unit: anyCharacter }),
    fc.array(piece, { maxLength: 40 }).map((parts) => parts.join("")),
  );
  fc.assert(
    fc.property(text, fc.constantFrom("", eggs, options, "What does it print?"), (text, question) => {
      const found = extract(text, question);
      assert.ok(found === undefined || (found.text.length <= 300 && found.value.length < 1_100));
    }),
    { numRuns: often(200) },
  );
});

test("texts made to keep regular expressions busy are read in time", () => {
  const long = 60_000;
  for (
    const piece of [
      "answer ",
      "answer is ",
      "1,111,",
      "1/",
      "{",
      "\\boxed{",
      "$",
      "\\frac{",
      "((",
      "= ",
      "- ",
      " ",
      "\n",
      "*",
      "a",
      "`",
      "```\n",
      "#",
      "\\(",
      "\\text{",
      '{"answer":',
      "Therefore ",
      "A) ",
      "1 ",
      "10^",
      "prints `",
      "is",
      "\n{",
      "sorry ",
      ". ",
      "(A",
      ",",
    ]
  ) {
    const text = piece.repeat(Math.ceil(long / piece.length));
    for (const question of [eggs, options, "What is the output?", text]) extract(text, question);
    extract(`The answer is ${text}`, text);
    extract(`\\boxed{${text.slice(0, 15_000)}}`, "");
  }
});

test("a pattern that would take for ever elsewhere is matched in linear time, or refused", () => {
  const slow = answerExtractor(rulesOf({ pattern: "(a+)+$" }));
  assert.equal(slow("a".repeat(60_000) + "b", ""), undefined);
  const many = answerExtractor(rulesOf({ pattern: "a*" }));
  assert.equal(many("b".repeat(60_000), ""), undefined);
  for (const pattern of ["(", "(?<=a)b", "((a{100}){100}){100}", "(\\w)\\1", "[a-z]{1000}"]) {
    const result = earlyExitSchema.safeParse({ answer: { pattern } });
    assert.ok(!result.success, pattern);
    assert.deepEqual(result.error.issues[0]?.path, ["answer", "pattern"]);
    assert.match(result.error.issues[0]?.message ?? "", /^Pattern is (?:too large|no regular expression)/);
  }
});

test("whatever stands between two boxes, reading them takes no time that grows faster than it", () => {
  const extract = answerExtractor(rulesOf({ extract: ["boxed"] }));
  // What tries all ways to part these signs takes hours.
  for (const pump of [" ", "\n", ".", "$", "\\(", " & "]) {
    const text = `\\boxed{1}${pump.repeat(4_000)}x\\boxed{2}`;
    assert.equal(extract(text, "")?.value, "sequence:number:1,number:2", JSON.stringify(pump));
  }
});
