import type { AgentAnswer } from "./answer.ts";

/**
 * MoA-vllm's prompt, byte for byte: all `[input_prompts]` are replaced first and then all `[responses]`, those in
 * the question included; the answers are stripped and joined with nothing between them.
 */
export function fillMoaVllm(template: string, question: string, answers: readonly AgentAnswer[]): string {
  const responses = answers.map((answer) => pythonStrip(answer.text)).join("");
  // Replacement functions, because a replacement string would give `$&` in a text a meaning.
  return template.replaceAll("[input_prompts]", () => question).replaceAll("[responses]", () => responses);
}

// What Python's str.isspace accepts; JavaScript's trim differs at U+001C to U+001F, U+0085 and U+FEFF.
const SPACE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const leadingSpace = new RegExp(`^${SPACE}+`);
const spaceCharacter = new RegExp(SPACE);

/** Python's `str.strip()`. */
export function pythonStrip(text: string): string {
  let end = text.length;
  while (end > 0 && spaceCharacter.test(text[end - 1]!)) end--;
  return text.slice(0, end).replace(leadingSpace, "");
}

/** `pythonStrip` of a text that comes in pieces: gives of each what is certain to stay, and what that held back. */
export function pythonStripper(): (piece: string) => string {
  let begun = false;
  let held = "";
  return (piece) => {
    let text = held + piece;
    if (!begun) text = text.replace(leadingSpace, "");
    begun ||= text !== "";
    let end = text.length;
    while (end > 0 && spaceCharacter.test(text[end - 1]!)) end--;
    held = text.slice(end);
    return text.slice(0, end);
  };
}
