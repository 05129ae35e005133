import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often } from "../../properties.ts";
import { equalAnswers } from "../../../scorer/answers/equal_answers.ts";
import { readAnswer } from "../../../scorer/answers/read_answer.ts";

const equal = (a: string, b: string, question = "") => {
  const [first, second] = [readAnswer(a, question), readAnswer(b, question)];
  return first !== undefined && second !== undefined && equalAnswers(first, second);
};

type Pairs = Readonly<Record<string, readonly (readonly [string, string, string?])[]>>;

const percentage = "What percentage of the class passed?";

const same: Pairs = {
  numbers: [
    ["36/8", "4.5"],
    ["4\\frac12", "\\frac{9}{2}"],
    ["0.\\overline{27}", "\\frac{3}{11}"],
    ["1.2 \\times 10^4", "12{,}000"],
    ["3 \\cdot 7", "21"],
    ["2^{10}", "1024"],
    ["5!", "120"],
    ["\\binom{6}{2}", "15"],
    ["x = 17", "17"],
    ["6 + 8 = 14", "14"],
  ],
  radicals: [
    ["\\sqrt{50}", "5\\sqrt2"],
    ["\\frac{6}{\\sqrt{3}}", "2\\sqrt{3}"],
    ["\\sqrt{5}\\cdot\\sqrt{10}", "5\\sqrt{2}"],
    ["\\frac{\\sqrt{7}}{7}", "\\frac{1}{\\sqrt7}"],
    ["\\sqrt[3]{54}", "3\\sqrt[3]{2}"],
    ["\\sqrt{121}", "11"],
    ["\\frac{1}{\\sqrt5-2}", "\\sqrt{5} + 2"],
    ["\\sqrt{7+4\\sqrt3}", "2+\\sqrt3"],
    ["√(18)", "3√2"],
    ["8^{2/3}", "4"],
  ],
  order: [
    ["7 - 3\\sqrt{2}", "-3\\sqrt{2} + 7"],
    ["3a^2b", "b a^2 \\cdot 3"],
    ["n(n-1)", "n^2 - n"],
    ["(t-2)(t+5)", "t^2 + 3t - 10"],
    ["\\frac{a}{b} + \\frac{c}{d}", "\\frac{ad+bc}{bd}"],
    ["\\frac{x}{2} - 1", "\\frac12(x-2)"],
    ["2\\sqrt{x}", "\\sqrt{4x}"],
    ["x_1 + x_2", "x_2 + x_1"],
    ["3 - 2i", "-2i + 3"],
    ["\\frac{k^2-1}{k-1}", "k+1"],
  ],
  "terms behind a blank": [
    ["4 - x", "-x + 4"],
    ["1 - x^2", "(1 - x)(1 + x)"],
    ["2 - i", "-i + 2"],
    ["2 / x", "\\frac{2}{x}"],
    ["7.5 / 3", "2.5"],
    ["5 ^2", "25"],
    ["12 pi", "12\\pi"],
    ["3 (a - b)", "3a - 3b"],
    ["6 r^2", "r^2 \\cdot 6"],
    ["2 xy", "2xy"],
    ["18 (dollars)", "18"],
    ["7 pm", "7"],
  ],
  "functions and constants": [
    ["\\sin\\frac{\\pi}{6}", "\\frac12"],
    ["\\frac{\\pi}{2}", "\\pi/2"],
    ["\\ln 9", "2\\ln 3"],
    ["e^{2\\ln 5}", "25"],
    ["\\log_3 81", "4"],
    ["\\sin 2x", "2\\sin x\\cos x"],
    ["1 - \\cos^2 x", "\\sin^2 x"],
    ["\\tan x", "\\frac{\\sin x}{\\cos x}"],
    ["\\cos 60^\\circ", "0.5"],
    ["9\\pi", "\\pi \\cdot 3^2"],
    ["e^{-x} + C", "C + \\frac{1}{e^x}"],
    ["|{-4}|", "4"],
    ["\\arctan 1", "\\frac{\\pi}{4}"],
  ],
  "equations and inequalities": [
    ["y = 4x - 1", "4x - 1"],
    ["y = 4x - 1", "4x - y - 1 = 0"],
    ["x^2 + y^2 = 25", "y^2 = 25 - x^2"],
    ["2x + 4y = 6", "x + 2y = 3"],
    ["t \\ge 9", "9 \\leq t"],
    ["-1 < m \\le 6", "6 \\geq m > -1"],
    ["x \\neq 4", "x != 4"],
    ["a > 2b", "2b < a"],
    ["f(x) = x^2 + 1", "1 + x^2"],
  ],
  "intervals and sets": [
    ["[\\frac12, \\infty)", "[0.5, ∞)"],
    ["(-\\infty, 2) \\cup (5, \\infty)", "(5, \\infty) \\cup (-\\infty, 2)"],
    ["x \\in (0, 3]", "\\left(0, 3\\right]"],
    ["z \\ge -8", "[-8, \\infty)"],
    ["x < 1 \\text{ or } x > 6", "(-\\infty, 1) \\cup (6, \\infty)"],
    ["\\{3, 9, 27\\}", "27, 9, 3"],
    ["\\emptyset", "\\{\\}"],
    ["x = 2 \\text{ or } x = -5", "-5, 2"],
    ["\\pm 6", "6, -6"],
    ["\\frac{3 \\pm \\sqrt{5}}{2}", "\\frac{3-\\sqrt5}{2}, \\frac{3+\\sqrt5}{2}"],
    ["a = 4, b = 7", "b = 7 \\text{ and } a = 4"],
    ["(\\sqrt{8}, -1)", "(2\\sqrt{2}, -\\frac{2}{2})"],
  ],
  matrices: [
    [
      "\\begin{pmatrix} 1 & 2 \\\\ 0 & 0.5 \\end{pmatrix}",
      "\\begin{bmatrix} 1 & 2 \\\\ 0 & \\frac{1}{2} \\end{bmatrix}",
    ],
    ["\\begin{pmatrix} 2^3 \\\\ -1 \\end{pmatrix}", "\\begin{pmatrix}8\\\\-1\\end{pmatrix}"],
  ],
  "percent and units": [
    ["35\\%", "0.35"],
    ["35%", "7/20"],
    ["35 percent", "35%"],
    ["35\\%", "35", percentage],
    ["3 km", "3000 meters"],
    ["90 minutes", "1.5 hours"],
    ["8 cm", "8"],
    ["12 cm^2", "12 square centimeters"],
    ["\\$4.50", "450 cents"],
    ["60 km/h", "60 kilometers per hour"],
    ["30^\\circ", "30 degrees"],
    ["2\\sqrt{3} \\text{ cm}", "\\sqrt{12}"],
  ],
  words: [
    ["\\text{Saturn}", "saturn"],
    ["the Nile", "Nile"],
    ["(C)", "\\textbf{C}"],
  ],
};

const different: Pairs = {
  relations: [
    ["x \\geq 5", "x \\leq 5"],
    ["x \\geq 5", "5"],
    ["x \\geq 5", "x > 5"],
    ["x \\neq 3", "3"],
    ["x != 3", "x = 3"],
    ["-2 \\le x \\le 7", "3 \\le x \\le 7"],
    ["-2 \\le x \\le 7", "-2 \\le x < 7"],
    ["x^2 + y^2 = 1", "1"],
    ["x^2 + y^2 = 1", "x^2 - y^2 = 1"],
    ["2x - y + 3 = 0", "x^2 = 0"],
    ["P \\le 0.5", "P \\ge 1/2"],
    ["3x = 12", "12"],
    ["x + y = 5", "5"],
    ["y = 2x", "x = 2y"],
    ["a < b", "b < a"],
    ["x < 1 \\text{ or } x > 2", "x < 1 \\text{ and } x > 2"],
    ["\\text{at least } 5", "5"],
    ["n \\equiv 2 \\pmod 5", "2"],
    ["x \\to 3", "3"],
  ],
  numbers: [
    ["11\\frac12", "11\\cdot\\frac12"],
    ["\\frac13", "0.333"],
    ["7", "-7"],
    ["2^{100}", "2^{100} + 1"],
    ["10^{20}", "10^{20} + 1"],
    ["0.1", "0.10000001"],
    ["1 2", "12"],
    ["3.14159", "\\pi"],
    ["355/113", "\\pi"],
    ["\\sqrt{2}", "1.41421356237309"],
    ["\\frac{768398401}{543339720}", "\\sqrt2"],
    ["\\sqrt{10^{15} + 1}", "\\sqrt{10^{15}}"],
    ["10^{15} + \\sqrt{2}", "10^{15} + \\sqrt{3}"],
    ["\\cos 10^{-9}", "1"],
    ["\\arctan 10^{20}", "\\frac{\\pi}{2}"],
    ["e^{-1000}", "0"],
  ],
  expressions: [
    ["x^2", "2x"],
    ["x^2", "x_2"],
    ["n^3 - n", "0"],
    ["\\sqrt{x^2}", "x"],
    ["\\sqrt{2} + \\sqrt{3}", "\\sqrt{5}"],
    ["\\ln(a+b)", "\\ln a + \\ln b"],
    ["\\log 100", "2\\ln 10"],
    ["\\sin^{-1} x", "\\frac{1}{\\sin x}"],
    ["a^b", "b^a"],
    ["1/2x", "\\frac{1}{2x}"],
    ["\\frac{a}{b}", "\\frac{b}{a}"],
    ["|x|", "x"],
    ["e^2x", "e^{2x}"],
    ["4 - x", "4"],
    ["4 - x", "4 - y"],
    ["4 -x", "4"],
    ["1 - x^2", "1 - x^3"],
    ["2 / x", "2"],
    ["7.5 / 3", "7.5"],
    ["5 ^2", "5"],
    ["12 pi", "12"],
    ["3 (a - b)", "3"],
    ["6 r^2", "6"],
    ["2 xy", "2"],
    ["12 eggs / 3", "12"],
    ["5 dozen", "5"],
    ["3 halves", "3"],
  ],
  "containers": [
    ["(1, 2)", "(2, 1)"],
    ["(1, 2)", "[1, 2]"],
    ["[0, 1)", "(0, 1]"],
    ["(1, 2)", "\\{1, 2\\}"],
    ["\\{1, 2\\}", "\\{1, 2, 3\\}"],
    ["x = 1, y = 2", "x = 2, y = 1"],
    ["\\pm 3", "3"],
    ["2 \\pm \\sqrt3", "2 + \\sqrt3"],
    ["(-\\infty, 2)", "(2, \\infty)"],
    ["\\begin{pmatrix} 1 & 2 \\end{pmatrix}", "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}"],
    ["\\begin{vmatrix} 1 & 2 \\\\ 3 & 4 \\end{vmatrix}", "\\begin{pmatrix} 1 & 2 \\\\ 3 & 4 \\end{pmatrix}"],
    ["\\langle 1, 2 \\rangle", "(1, 2)"],
  ],
  "percent and units": [
    ["35%", "35"],
    ["35%", "0.35", percentage],
    ["5 cm", "5 m"],
    ["2 hours", "2 minutes"],
    ["\\$8", "€8"],
    ["9 cm^2", "9 cm"],
    ["5 liters", "5 kg"],
    ["60 km/h", "60 mph"],
  ],
  words: [
    ["cat", "act"],
    ["Paris", "Rome"],
    ["no solution", "0"],
    ["B", "C"],
    ["5 if n is odd", "5"],
    ["yes", "no"],
  ],
};

const count = (pairs: Pairs) => Object.values(pairs).flat().length;

test("answers that say the same are equal, whatever their notation", () => {
  assert.ok(count(same) >= 60);
  for (const [kind, pairs] of Object.entries(same)) {
    for (const [a, b, question] of pairs) {
      assert.ok(equal(a, b, question), `${kind}: ${a} = ${b}`);
      assert.ok(equal(b, a, question), `${kind}: ${b} = ${a}`);
    }
  }
});

test("answers that say something else, or could, are not equal", () => {
  assert.ok(count(different) >= 60);
  for (const [kind, pairs] of Object.entries(different)) {
    for (const [a, b, question] of pairs) {
      assert.ok(!equal(a, b, question), `${kind}: ${a} = ${b}`);
      assert.ok(!equal(b, a, question), `${kind}: ${b} = ${a}`);
    }
  }
});

test("every answer equals itself, and no answer of the table equals one of another pair by chance", () => {
  const all = Object.values(same).flat().concat(Object.values(different).flat());
  for (const [a, b, question] of all) {
    assert.ok(equal(a, a, question), a);
    assert.ok(equal(b, b, question), b);
  }
  for (const [first] of Object.values(different).flat()) {
    for (const [second] of Object.values(different).flat()) {
      assert.equal(equal(first, second), equal(second, first), `${first} and ${second}`);
    }
  }
});

const expression = fc.letrec<{ any: string; leaf: string }>((tie) => ({
  leaf: fc.oneof(
    fc.integer({ min: 0, max: 99 }).map(String),
    fc.constantFrom("x", "y", "n", "\\pi", "\\theta"),
  ),
  any: fc.oneof(
    { maxDepth: 4, depthIdentifier: "expression" },
    tie("leaf"),
    fc.tuple(tie("any"), fc.constantFrom("+", "-", "\\cdot "), tie("any")).map(([a, sign, b]) =>
      `(${a}${sign}${b})`
    ),
    fc.tuple(tie("any"), tie("any")).map(([a, b]) => `\\frac{${a}}{${b}}`),
    tie("any").map((a) => `\\sqrt{${a}}`),
    fc.tuple(tie("any"), fc.integer({ min: 2, max: 9 })).map(([a, power]) => `(${a})^{${power}}`),
  ),
})).any.filter((text) => text.length <= 120);

test("equality is reflexive and symmetric; a sum does not depend on its order, and one more is another number", () => {
  fc.assert(fc.property(expression, expression, (a, b) => {
    assert.ok(equal(a, a), a);
    assert.equal(equal(a, b), equal(b, a), `${a} and ${b}`);
    const [sum, turned] = [`${a} + ${b}`, `${b} + ${a}`].map((text) => readAnswer(text, "")!);
    assert.equal(equalAnswers(sum!, turned!), equalAnswers(turned!, sum!));
    assert.ok(!equal(a, `${a} + 1`), `${a} and one more`);
  }));
});

test("a sum of polynomials equals itself in any order", () => {
  const term = fc.tuple(
    fc.integer({ min: 1, max: 99 }),
    fc.constantFrom("x", "y", "xy", "x^2", "y^{3}", "x^2y"),
  )
    .map(([factor, powers]) => `${factor}${powers}`);
  fc.assert(fc.property(fc.array(term, { minLength: 2, maxLength: 8 }), (terms) => {
    assert.ok(equal(terms.join(" + "), [...terms].reverse().join("+")), terms.join(" + "));
  }));
});

test("a relation equals the same read from its other side, and never the one turned around", () => {
  const sign = fc.constantFrom(["<", ">"], ["\\le", "\\ge"], ["\\leq", "\\geq"], ["≤", "≥"]);
  const side = fc.tuple(fc.integer({ min: -99, max: 99 }), fc.constantFrom("", "y", "t^2")).map(([a, b]) =>
    `${a}${b}`
  );
  fc.assert(fc.property(side, sign, (bound, [less, more]) => {
    const [forward, backward, turned] = [`x ${less} ${bound}`, `${bound} ${more} x`, `x ${more} ${bound}`];
    assert.ok(equal(forward, backward), `${forward} and ${backward}`);
    for (const other of [turned, `${bound} ${less} x`, bound, `x = ${bound}`, `x \\ne ${bound}`]) {
      assert.ok(!equal(forward, other), `${forward} and ${other}`);
      assert.ok(!equal(other, forward), `${other} and ${forward}`);
    }
  }));
});

test("whatever the texts are, they are compared without an error, alike from both sides", () => {
  const piece = fc.constantFrom(
    ..."x y 1 2 9 + - * / ^ ( ) { } [ ] , = < > | \\ ! % ° ± ∞ ∪ & _".split(" "),
    ..."\\frac \\sqrt \\sin \\log_ \\pi \\le \\ne \\pm \\cup \\{ \\} \\infty \\text{ \\begin{pmatrix} \\end{pmatrix} \\\\"
      .split(" "),
    " or ",
    " and ",
    "cm",
    "dollars",
    "log ",
  );
  const text = fc.array(piece, { minLength: 1, maxLength: 40 }).map((pieces) => pieces.join(""));
  fc.assert(
    fc.property(text, text, (a, b) => {
      assert.equal(equal(a, b), equal(b, a), `${a} and ${b}`);
      const read = readAnswer(a, "");
      assert.ok(read === undefined || equalAnswers(read, read), a);
    }),
    { numRuns: often(200) },
  );
});
