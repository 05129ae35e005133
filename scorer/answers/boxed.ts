import type { FoundAnswer } from "./final_answer.ts";
import { answerList, readAnswer } from "./read_answer.ts";

/** Boxes that are looked at, from the last one on. */
const MAX_BOXES = 8;
/** Signs that may stand around boxes of a list, and a word between two of them. */
const SIGNS = /(?:[\s$,;.&]|\\[()[\]]|\\q?quad(?![a-z]))+/gu;
const CONJUNCTION = /^(?:\\?text\s?\{\s?(?:and|or)\s?\}|and|or|und|oder|et|ou|y|o)?$/iu;
/** Text before a box that takes back, or sums up, what stands before it. */
const CONCLUDES =
  /\b(?:wrong|incorrect|mistake|error|actually|instead|wait|correct(?:ion|ed)?|re-?check|however|therefore|thus|hence|so|final(?:ly)?|in total|altogether|conclu\w+|answer)\b/iu;

interface Box {
  readonly start: number;
  readonly end: number;
  readonly content: string;
}

/**
 * What a text says in \boxed{…}: the last box, or all that it lists. Of boxes that differ with text between them, the
 * last one where that text concludes or corrects; else they answer different parts, in that order.
 */
export function findBoxed(text: string, question: string): FoundAnswer | undefined {
  const boxes = boxesOf(text);
  const last = boxes?.at(-1);
  if (boxes === undefined || last === undefined) return undefined;
  const group = [last];
  let join: "," | "sequence" = ",";
  for (let index = boxes.length - 2; index >= 0; index--) {
    const box = boxes[index]!;
    const between = text.slice(box.end, group[0]!.start);
    if (!isListing(between)) {
      if (CONCLUDES.test(between)) break;
      if (group.every(({ content }) => content === box.content)) continue;
      join = "sequence";
    }
    group.unshift(box);
  }
  const answers = group.map(({ content }) => readAnswer(content, question));
  if (answers.some((answer) => answer === undefined)) return undefined;
  const found = answers.filter((answer) => answer !== undefined);
  return found.length === 1 ? found[0] : answerList(found, join);
}

/** True for text between two boxes that only lists them. */
function isListing(between: string): boolean {
  return CONJUNCTION.test(between.replaceAll(SIGNS, " ").trim());
}

/** The last boxes, first to last; undefined when the last one does not end. */
function boxesOf(text: string): Box[] | undefined {
  const boxes: Box[] = [];
  let until = text.length;
  for (let looked = 0; looked < 4 * MAX_BOXES && boxes.length < MAX_BOXES; looked++) {
    const start = Math.max(text.lastIndexOf("\\boxed", until - 1), text.lastIndexOf("\\fbox", until - 1));
    if (start < 0 || until === 0) break;
    until = start;
    const box = boxAt(text, start);
    if (box === undefined && boxes.length === 0) return undefined;
    // One inside of another is part of that.
    if (box !== undefined) boxes.unshift(box);
    const next = boxes[1];
    if (box !== undefined && next !== undefined && next.start < box.end) boxes.splice(1, 1);
  }
  return boxes;
}

/** A box with balanced braces. */
function boxAt(text: string, start: number): Box | undefined {
  const open = /^\\[a-z]+\s{0,4}\{/u.exec(text.slice(start, start + 16))?.[0].length;
  if (open === undefined) return undefined;
  let depth = 1;
  for (let at = start + open; at < text.length; at++) {
    const char = text[at];
    if (char === "\\") at++;
    else if (char === "{") depth++;
    else if (char === "}" && --depth === 0) {
      return { start, end: at + 1, content: text.slice(start + open, at).trim() };
    }
  }
  return undefined;
}
