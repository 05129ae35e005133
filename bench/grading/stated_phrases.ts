import { announced } from "../../scorer/answers/anchors.ts";
import { boxedTexts } from "./boxed_texts.ts";

/** Part of an answer behind the model's reasoning; undefined where it never came to an end with that. */
export function answerPart(text: string): string | undefined {
  const end = text.lastIndexOf("</think>");
  if (end >= 0) return text.slice(end + "</think>".length);
  return /^\s*<think>/u.test(text) ? undefined : text;
}

/** Phrases that a text may be meant to state as its answer, the likeliest first: its last box, announcements, last line. */
export function statedPhrases(text: string): string[] {
  const part = answerPart(text);
  if (part === undefined) return [];
  const box = boxedTexts(part).at(-1)?.content;
  const lastLine = part.split("\n").map((line) => line.trim()).findLast((line) => line !== "");
  return [box, ...announced(part), lastLine].filter((phrase) => phrase !== undefined).map(withoutMarks);
}

/** Without markdown's emphasis, LaTeX's text commands and dollars, quotes and the full stop at the end. */
function withoutMarks(phrase: string): string {
  return phrase.replaceAll(/\\(?:text|mathrm|textbf|mathbf|operatorname)\s*\{([^{}]*)\}/gu, "$1")
    .replaceAll(/\*\*|__|`|\$|\\[()]/gu, "").trim()
    .replace(/^["'“”‘’]+|["'“”‘’]+$/gu, "").trim().replace(/[.。]$/u, "").trim();
}
