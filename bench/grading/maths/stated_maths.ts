import { announced } from "../../../scorer/answers/anchors.ts";
import { boxedTexts } from "../boxed_texts.ts";
import { answerPart } from "../stated_phrases.ts";
import { plainMaths } from "./plain_maths.ts";

/** Longest text between answers that belong together, in characters. */
const MAX_LISTING = 120;
/** Words and signs that only list what stands before and after them. */
const LISTING =
  /^(?:[\s$,;&]|\\[()[\]]|\\(?:quad|qquad)(?![a-z])|\\[,;: ]|\\?text\s*\{\s*(?:and|or)\s*\}|\b(?:and|or)\b|(?:\\?[a-zA-Z]+(?:_\{?\w\}?)?)\s*=)*$/u;
/** Between two answers of one sentence: "\boxed{3} red ones and \boxed{4} blue ones". */
const OF_PARTS = /^(?:[^\p{L}\n]{0,20}|[^\n.]{0,40}\band\s[^\n.]{0,10})$/u;
const FORMULAS =
  /\$\$([\s\S]{1,600}?)\$\$|(?<!\\)\$((?:[^$\\]|\\[\s\S]){1,600}?)\$|\\\(([\s\S]{1,600}?)\\\)|\\\[([\s\S]{1,600}?)\\\]/gu;
const FORMULA = new RegExp(FORMULAS.source, "u");
const NUMBERS =
  /(?<![\w.,])[-+]?[$€£]?(?:\d{1,3}(?:[ ,]\d{3})+|\d+)?(?:\.\d+|(?<=\d))(?:\/\d+)?(?:\s?\\?%)?(?![\d])/gu;
const DECIMAL_COMMA = /(?<![\w.,])-?\d+,\d{1,2}(?![\d,])/gu;

/**
 * The formulas that a text may be meant to state as its answer, the likeliest alone: what is boxed last, else what it
 * announces, else its last formula, else its last number. Several where it lists them. Empty where it states none.
 */
export function statedMaths(text: string): string[] {
  const part = answerPart(text);
  if (part === undefined) return [];
  const plain = plainMaths(part);
  // The sentence that the prompts of Minerva (Lewkowycz et al. 2022) ask for.
  const asked = [...plain.matchAll(/final answer is:?\s*(.{1,300}?)\.?\s*I hope it is correct/giu)].at(-1)
    ?.[1];
  if (asked !== undefined) return atLeast(lastFormulas(asked), asked);
  const boxed = lastBoxes(plain);
  if (boxed.length > 0) return boxed;
  for (const announcedPhrase of announced(plain)) {
    // "The largest $n$ is 34": what is said of n.
    const phrase = /^.*\b(?:is|are|equals)\s+(?=.*[\d\\$])(.+)$/su.exec(announcedPhrase)?.[1] ??
      announcedPhrase;
    // A factorial inside of a formula ended the sentence.
    const whole = isCut(phrase)
      ? FORMULA.exec(plain.slice(Math.max(0, plain.lastIndexOf(phrase))))?.[0]
      : undefined;
    const formulas = lastFormulas(whole ?? phrase);
    if (formulas.length > 0) return formulas;
    if (phrase.length <= 60 && /[\d\\]/u.test(phrase) && !/\p{L}{3,}\s+\p{L}{3,}/u.test(phrase)) {
      return [phrase];
    }
    const number = lastNumber(phrase);
    if (number !== undefined) return [number];
  }
  const concluded = behindFormulas(plain);
  if (concluded !== undefined) return [concluded];
  const formulas = lastFormulas(plain);
  if (formulas.length > 0) return formulas;
  if (plain.trim().length <= 60 && /^[\s\d\\([{|+-]/u.test(plain)) return [plain.trim()];
  const number = lastNumber(plain);
  return number === undefined ? [] : [number];
}

/** True for a phrase in which a formula begins that does not end there. */
function isCut(phrase: string): boolean {
  const dollars = phrase.match(/(?<!\\)\$/gu)?.length ?? 0;
  return dollars % 2 === 1 || /\\[([](?!.*\\[)\]])/su.test(phrase);
}

function atLeast(found: readonly string[], other: string): string[] {
  return found.length > 0 ? [...found] : [other];
}

/** Contents of the last box, and of those before it that it only goes on from. */
function lastBoxes(text: string): string[] {
  const boxes = boxedTexts(text);
  const last = boxes.at(-1);
  if (last === undefined) return [];
  const found = [last];
  for (const box of boxes.slice(0, -1).reverse()) {
    const between = text.slice(box.end, found[0]!.start);
    if (between.length > MAX_LISTING || !LISTING.test(between) && !OF_PARTS.test(between)) break;
    found.unshift(box);
  }
  // $\boxed{28}\%$ says percent.
  const unit = /^\s*\$?\s*\\?%/u.test(text.slice(last.end)) ? "\\%" : "";
  return found.map(({ content }) => content + unit);
}

/** The last formula, and those before it that it only goes on from. */
function lastFormulas(text: string): string[] {
  const all = [...text.matchAll(FORMULAS)].map(({ 0: found, index, ...groups }) => ({
    start: index,
    end: index + found.length,
    content: [groups[1], groups[2], groups[3], groups[4]].find((group) => group !== undefined)?.trim() ?? "",
  })).filter(({ content }) => content !== "");
  const last = all.at(-1);
  if (last === undefined) return [];
  const found = [last];
  for (const formula of all.slice(0, -1).reverse()) {
    const between = text.slice(formula.end, found[0]!.start);
    if (between.trim() === "" || !/^\s*(?:,\s*)?(?:and|or|,)\s*$/u.test(between)) break;
    found.unshift(formula);
  }
  const unit = /^\s*\\?%/u.test(text.slice(last.end)) ? "\\%" : "";
  return found.map(({ content }) => content + unit);
}

/** The only number of the sentence that concludes, where that is without a formula. */
function behindFormulas(text: string): string | undefined {
  const end = [...text.matchAll(FORMULAS)].map(({ 0: found, index }) => index + found.length).at(-1) ?? 0;
  const conclusion =
    /(?:^|[.!?]\s+|\n)\s*(?:Therefore|Thus|Hence|So|Final Answer|In total)\b[:,]?([^\n]*)/giu;
  const sentence = [...text.slice(end).matchAll(conclusion)].at(-1)?.[1]?.split(/[.!?](?:\s|$)/u)[0];
  if (sentence === undefined) return undefined;
  const numbers = [...sentence.matchAll(NUMBERS)].filter(([found]) => /\d/u.test(found));
  return numbers.length === 1 ? lastNumber(sentence) : undefined;
}

function lastNumber(text: string): string | undefined {
  const comma = [...text.matchAll(DECIMAL_COMMA)].at(-1);
  const number = [...text.matchAll(NUMBERS)].filter(([found]) => /\d/u.test(found)).at(-1);
  if (comma !== undefined && (number === undefined || comma.index >= number.index)) {
    return comma[0].replace(",", ".");
  }
  return number?.[0].replaceAll(/[$€£]|(?<=\d)[ ,](?=\d{3})/gu, "");
}
