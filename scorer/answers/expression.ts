import { choiceValue } from "./choice.ts";
import { MAX_ANSWER_LENGTH } from "./final_answer.ts";
import { parseNumber } from "./number.ts";

/**
 * Normal form of any final answer: a number as a reduced fraction, a choice as its letter, lists without an order as
 * sorted lists, all else as an expression without the notation that makes no difference. Undefined for what is empty
 * or too long.
 */
export function canonicalValue(text: string): string | undefined {
  if (text.length > MAX_ANSWER_LENGTH) return undefined;
  const number = parseNumber(text);
  if (number !== undefined) return `number:${number}`;
  const choice = choiceValue(text);
  if (choice !== undefined) return `choice:${choice}`;
  const expression = normalExpression(text);
  if (expression === "") return undefined;
  const items = listItems(expression);
  if (items.length < 2) return valueOfItem(expression);
  return `list:${items.map(valueOfItem).sort().join(",")}`;
}

function valueOfItem(text: string): string {
  const bare = text.replace(/^\\?[a-zA-Z](?:_\{?\w\}?)?=(?=.)/u, "");
  const number = parseNumber(bare);
  return number === undefined ? `expression:${bare}` : `number:${number}`;
}

/**
 * An expression without blanks, wrappings and spellings that make no difference (after the normalisers of the MATH
 * data set: Hendrycks et al. 2021, Lewkowycz et al. 2022). Words are in lower case, single letters as they are.
 */
export function normalExpression(text: string): string {
  return text
    .replaceAll(/\\(?:left|right|displaystyle|bigg?|Bigg?|quad|qquad)(?![a-z])|\\[,;:! ]|~/gu, "")
    .replaceAll(/\\\(|\\\)|\\\[|\\\]|\$|\*\*|`/gu, "")
    .replaceAll(/\\(?:text|mathrm|textbf|mathbf|textit|operatorname|mbox|rm)\s*\{([^{}]{0,200})\}/gu, "$1")
    .replaceAll(/\^\s*\{?\\circ\}?|°|\\degree/gu, "")
    .replaceAll(/\\[dtc]frac/gu, "\\frac")
    .replaceAll(/\\frac\s*(\d|[a-z])\s*(\d|[a-z])/gu, "\\frac{$1}{$2}")
    .replaceAll(/\\sqrt\s*(\d|[a-z])/gu, "\\sqrt{$1}")
    .replaceAll(/(?:√|\bsqrt)\s*\(([^()]{0,60})\)/gu, "\\sqrt{$1}")
    .replaceAll(/√\s*(\w+)/gu, "\\sqrt{$1}")
    .replaceAll(/(^|[-+*=(,\s])(\d{1,9}|[a-z])\s?\/\s?(\d{1,9}|[a-z])(?![\w^{])/gu, "$1\\frac{$2}{$3}")
    .replaceAll(/π|(?<![\\a-z])pi(?![a-z])/gu, "\\pi").replaceAll("∞", "\\infty")
    .replaceAll("²", "^2").replaceAll("³", "^3")
    .replaceAll(/\*\*|\\cdot(?![a-z])|\\times(?![a-z])|×|·/gu, (sign) => sign === "**" ? "^" : "*")
    .replaceAll(/([_^])\{(\w)\}/gu, "$1$2")
    .replaceAll(/\\leq?(?![a-z])|≤/gu, "<=").replaceAll(/\\geq?(?![a-z])|≥/gu, ">=")
    .replaceAll(/\\%|%/gu, "").replaceAll(/\\(?:and|or)(?![a-z])/gu, ",")
    .replaceAll(/,?\s+(?:and|or|und|oder|et|ou|y|o)\s+/giu, ",")
    .replaceAll(
      /[\p{L}]{2,}/gu,
      (word, at: number, whole: string) => whole[at - 1] === "\\" ? word : word.toLowerCase(),
    )
    .replaceAll(/\s+/gu, "")
    .replaceAll(/(?<=[\w})])\*(?=[\\a-zA-Z(])/gu, "")
    .replace(/[.,;!?:]+$/u, "")
    .replace(/^(?:the|a|an)(?=[a-z]{3})/u, "");
}

/** Parts of a list at its top level; braces of a set are taken off, parentheses of a tuple keep it in one piece. */
function listItems(expression: string): string[] {
  const inner = /^\\?\{(.*?)\\?\}$/u.exec(expression)?.[1] ?? expression;
  const items: string[] = [];
  let depth = 0;
  let start = 0;
  for (const [index, char] of [...inner].entries()) {
    if ("([{".includes(char)) depth++;
    else if (")]}".includes(char)) depth--;
    if (depth === 0 && char === ",") {
      items.push([...inner].slice(start, index).join(""));
      start = index + 1;
    }
  }
  items.push([...inner].slice(start).join(""));
  return items.every((item) => item !== "") ? items : [expression];
}
