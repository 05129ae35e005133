import type { SafePattern } from "../../cfgs/schema/safe_pattern.ts";
import type { FoundAnswer } from "./final_answer.ts";
import { readAnswer } from "./read_answer.ts";

/** Characters of a text that a pattern is matched with, from its end: at most 500 steps each (`cfgs/safe_pattern.ts`). */
const SEARCHED_LENGTH = 4_096;
/** A pattern that matches more often than this finds no final answers. */
const MAX_MATCHES = 64;

/** The first group of a pattern's last match, or the whole of it. */
export function findPattern(text: string, question: string, pattern: SafePattern): FoundAnswer | undefined {
  const matcher = pattern.matcher(text.slice(-SEARCHED_LENGTH));
  let found: string | null = null;
  for (let matches = 0; matcher.find(); matches++) {
    if (matches === MAX_MATCHES) return undefined;
    found = matcher.groupCount() > 0 ? matcher.group(1) : matcher.group(0);
  }
  const answer = found?.trim() ?? "";
  return answer === "" ? undefined : readAnswer(answer, question);
}
