import { announced, lastSentences } from "./anchors.ts";
import type { FoundAnswer } from "./final_answer.ts";
import { readAnswer } from "./read_answer.ts";

const FUNCTIONS =
  /\b(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|frac|max|min|mod|gcd|lcm|arcsin|arccos|arctan|pi|infty|text|and|or)\b/giu;
const FORMULA = /(?<!\\)\$([^$\n]{1,200})\$|\\\(([^\n]{1,200}?)\\\)|\\\[([^\n]{1,200}?)\\\]/gu;
const CONCLUDING =
  /^(?:\W|and\b){0,4}(?:therefore|thus|hence|so|in conclusion|finally|consequently|also|donc|daher|por lo tanto)\b/iu;

/**
 * The mathematical expression that a text announces as its answer, or that its last sentence with a formula concludes
 * with. A sentence of several formulas has none that is known to be the answer, unless it announces one.
 */
export function findMath(text: string, question: string): FoundAnswer | undefined {
  for (const phrase of announced(text)) {
    const formula = looksMathematical(phrase) ? phrase : onlyFormula(phrase);
    const answer = formula === undefined ? undefined : readAnswer(formula, question);
    if (answer !== undefined) return answer;
    if (/[\d$\\]/u.test(phrase)) return undefined;
  }
  for (const sentence of lastSentences(text, 2)) {
    const formula = onlyFormula(sentence);
    if (formula !== undefined && CONCLUDING.test(sentence)) return readAnswer(formula, question);
    // What an earlier sentence concludes, this one goes on from.
    if (formula !== undefined || /[\d=$\\]/u.test(sentence)) return undefined;
  }
  return undefined;
}

/** True for a phrase of formulas and hardly a word. */
function looksMathematical(phrase: string): boolean {
  if (!/[\\$^=<>√π∞]|[-+*/]\s?[\w(]|\d/u.test(phrase)) return false;
  const words = phrase.replaceAll(/\\[a-z]+/giu, " ").replaceAll(FUNCTIONS, " ").match(/\p{L}{3,}/gu) ?? [];
  return words.length === 0;
}

/** The formula of a sentence that has one. */
function onlyFormula(sentence: string): string | undefined {
  const formulas = [...sentence.matchAll(FORMULA)];
  const [first] = formulas;
  return formulas.length === 1 ? first?.[1] ?? first?.[2] ?? first?.[3] : undefined;
}
