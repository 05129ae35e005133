import { answerPart } from "../stated_phrases.ts";

const FENCE = /```[^\n]*\n([\s\S]*?)(?:\n[ \t]*```|$)/gu;

/**
 * The program in an answer: the longest fenced block that defines the function, else the whole answer where it does, or
 * the function's head with an indented body behind it. Undefined where there is none.
 */
export function programIn(
  text: string,
  { prompt, entry }: { readonly prompt: string; readonly entry: string },
) {
  const part = answerPart(text);
  if (part === undefined) return undefined;
  const defines = (code: string) => new RegExp(`\\bdef\\s+${entry}\\b`, "u").test(code);
  const blocks = Array.from(part.matchAll(FENCE), ([, code = ""]) => code);
  const longest = blocks.filter(defines).sort((a, b) => b.length - a.length)[0];
  if (longest !== undefined) return longest;
  if (defines(part)) return part;
  return /^\s*\n?[ \t]+\S/u.test(part) ? prompt + part : undefined;
}
