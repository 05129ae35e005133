import { announced, lastSentences } from "./anchors.ts";
import { canonicalValue } from "./expression.ts";
import type { FoundAnswer } from "./final_answer.ts";

const FUNCTIONS =
  /\b(?:sin|cos|tan|cot|sec|csc|log|ln|exp|sqrt|frac|max|min|mod|gcd|lcm|arcsin|arccos|arctan|pi|infty|text|and|or)\b/giu;

/** The mathematical expression that a text announces as its answer, or concludes with between dollar signs. */
export function findMath(text: string): FoundAnswer | undefined {
  for (const phrase of announced(text)) {
    const formula = looksMathematical(phrase) ? phrase : lastFormula(phrase);
    const value = formula === undefined ? undefined : canonicalValue(formula);
    if (formula !== undefined && value !== undefined) return { text: formula, value };
  }
  for (const sentence of lastSentences(text, 2)) {
    if (
      !/^(?:\W|and\b){0,4}(?:therefore|thus|hence|so|in conclusion|finally|consequently|also|donc|daher|also|por lo tanto)\b/iu
        .test(sentence)
    ) {
      continue;
    }
    const formula = lastFormula(sentence);
    const value = formula === undefined ? undefined : canonicalValue(rightSide(formula));
    if (formula !== undefined && value !== undefined) return { text: formula, value };
  }
  return undefined;
}

/** True for a phrase of formulas and hardly a word. */
function looksMathematical(phrase: string): boolean {
  if (!/[\\$^=<>√π∞]|[-+*/]\s?[\w(]|\d/u.test(phrase)) return false;
  const words = phrase.replaceAll(/\\[a-z]+/giu, " ").replaceAll(FUNCTIONS, " ").match(/\p{L}{3,}/gu) ?? [];
  return words.length === 0;
}

function lastFormula(sentence: string): string | undefined {
  const formulas = sentence.matchAll(
    /(?<!\\)\$([^$\n]{1,200})\$|\\\(([^\n]{1,200}?)\\\)|\\\[([^\n]{1,200}?)\\\]/gu,
  );
  const last = [...formulas].at(-1);
  return last?.[1] ?? last?.[2] ?? last?.[3];
}

/** Of a chain of equations what stands at its end. */
function rightSide(formula: string): string {
  return formula.slice(formula.lastIndexOf("=") + 1);
}
