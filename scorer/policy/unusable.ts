import type { Completion } from "./exit_policy.ts";

/** Reasons to leave an answer out of a vote. */
export type Unusable = "cut" | "empty" | "refused" | "loop";

/** Longest text that is taken for a refusal: a long one says something after it. */
const LONGEST_REFUSAL = 1_000;
/** Characters at the start of a text in which a refusal must begin. */
const REFUSAL_START = 300;
/** Characters at the end of a text in which a loop is looked for, and of one piece of it. */
const LOOP_TAIL = 1_000;
const LOOP_PIECE = 16;
/** Least share of different pieces in a text that is no loop: prose has above 0.9, a table of similar rows some 0.5. */
const LEAST_DISTINCT = 0.25;

const REFUSALS: readonly RegExp[] = [
  /\b(?:i['’]?m|i am|we are|we['’]re)?\s?(?:very |so |deeply )?sorry\b[^.\n]{0,80}\b(?:can['’]?t|cannot|can not|unable|not able|won['’]?t|not comfortable)\b/iu,
  /\bi(?:['’]?m| am)? (?:can['’]?t|cannot|can not|won['’]?t|unable to|not able to|must decline to|have to decline to) (?:help(?! but)|assist|provide|answer|comply|do that|fulfil|fulfill|support|generate|create|write|engage|discuss|give|share|offer|process|continue)\b/iu,
  /\bas an ai(?: language)?(?: model| assistant)?,? i (?:can['’]?t|cannot|don['’]?t|do not|am not|am unable|won['’]?t)\b/iu,
  /(?:抱歉|对不起|對不起)[^。\n]{0,40}(?:无法|無法|不能|不可以)/u,
  /(?:申し訳|すみません)[^。\n]{0,40}(?:できません|出来ません)/u,
  /\b(?:es tut mir leid|tut mir leid|je suis désolée?|lo siento|mi dispiace|sinto muito)\b[^.\n]{0,80}\b(?:nicht|ne peux pas|no puedo|non posso|não posso)\b/iu,
];

/**
 * The reason why another answer cannot agree with this one; undefined for a usable answer. `cut`: it
 * did not come to its end; `empty`: only white space; `refused`: a short text that begins with one of the usual
 * refusals; `loop`: its end is mostly the same few words again and again.
 */
export function unusable({ text, cut }: Pick<Completion, "text" | "cut">): Unusable | undefined {
  if (cut) return "cut";
  if (text.trim() === "") return "empty";
  if (isRefusal(text)) return "refused";
  return isLoop(text) ? "loop" : undefined;
}

function isRefusal(text: string): boolean {
  const trimmed = text.trim();
  if (trimmed.length > LONGEST_REFUSAL) return false;
  const start = trimmed.slice(0, REFUSAL_START);
  return REFUSALS.some((pattern) => pattern.test(start));
}

function isLoop(text: string): boolean {
  const tail = text.slice(-LOOP_TAIL).replaceAll(/\s+/gu, " ");
  const count = tail.length - LOOP_PIECE + 1;
  // Shorter texts have too few pieces to tell.
  if (count < LOOP_TAIL / 3) return false;
  const pieces = new Set<string>();
  for (let at = 0; at < count; at++) pieces.add(tail.slice(at, at + LOOP_PIECE));
  return pieces.size < LEAST_DISTINCT * count;
}
