import { canonicalValue } from "./expression.ts";
import type { FoundAnswer } from "./final_answer.ts";

/** Content of the last \boxed{…} of a text, with balanced braces. */
export function findBoxed(text: string): FoundAnswer | undefined {
  const start = Math.max(text.lastIndexOf("\\boxed"), text.lastIndexOf("\\fbox"));
  if (start < 0) return undefined;
  const open = /^\\[a-z]+\s{0,4}\{/u.exec(text.slice(start, start + 16))?.[0].length;
  if (open === undefined) return undefined;
  let depth = 1;
  for (let at = start + open; at < text.length; at++) {
    const char = text[at];
    if (char === "\\") at++;
    else if (char === "{") depth++;
    else if (char === "}" && --depth === 0) {
      const content = text.slice(start + open, at).trim();
      const value = canonicalValue(content);
      return value === undefined ? undefined : { text: content, value };
    }
  }
  return undefined;
}
