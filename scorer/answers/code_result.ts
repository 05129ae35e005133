import { type FoundAnswer, textAnswer } from "./final_answer.ts";
import { readAnswer } from "./read_answer.ts";

/** Longest output, in characters. */
const MAX_LENGTH = 1_000;

/**
 * The output that a text says a piece of code has: a block marked as output, or an inline "prints `…`". Only where the
 * question is about what code does: an example's output is not the answer to "write a program".
 */
export function findCodeResult(text: string, question: string): FoundAnswer | undefined {
  if (!asksForOutput(question)) return undefined;
  const found = lastBlock(text) ?? lastInline(text);
  const content = found?.trim();
  if (content === undefined || content === "" || content.length > MAX_LENGTH) return undefined;
  return readAnswer(content, question) ?? textAnswer(content, `text:${content.replaceAll(/[ \t]+$/gmu, "")}`);
}

function asksForOutput(question: string): boolean {
  return /\b(?:output|prints?|printed|returns?|returned|displays?|evaluates? to|result of)\b/iu.test(
    question,
  ) &&
    !/\b(?:write|implement|create|define|complete)\b/iu.test(question);
}

function lastBlock(text: string): string | undefined {
  const fences = text.split("```");
  // Odd parts are inside of fences; one that is not closed is none.
  for (let index = fences.length - 2; index > 0; index -= 1) {
    if (index % 2 === 0) continue;
    const [, language = "", content = ""] = /^([\w+-]*)[ \t]*\n([^]*)$/u.exec(fences[index]!) ?? [];
    const before = fences[index - 1]!.slice(-80);
    if (/^(?:output|stdout|console)$/iu.test(language)) return content;
    if (
      /^(?:|text|txt|plaintext)$/iu.test(language) &&
      /\b(?:output|prints?|result|returns?)\b[^\n]{0,40}\n*$/iu.test(before)
    ) {
      return content;
    }
  }
  return undefined;
}

function lastInline(text: string): string | undefined {
  const pattern =
    /\b(?:output|outputs|prints?|printed|returns?|displays?|result)\b[^`\n.]{0,30}`([^`\n]{1,200})`/giu;
  return [...text.matchAll(pattern)].at(-1)?.[1];
}
