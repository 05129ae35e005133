import type { AgentAnswer } from "../prompt/answer.ts";
import type { Precursor } from "../prompt/answer_layout.ts";

/** A precursor with the tokens that it has written, reasoning included. */
export interface WritingPrecursor {
  readonly precursor: Precursor;
  /** All that its model has said so far. */
  readonly output: string;
  readonly tokens: number;
}

/** What a step reads of one precursor. */
export interface FirstWords extends AgentAnswer {
  readonly tokens: number;
  /** It still writes. */
  readonly isOpen: boolean;
}

/**
 * The first words of several answers, in the order in which a step reads them: those that are done as the whole prompt
 * has them, of others all whole words. What a precursor has not begun to say, or will not say, is left out.
 */
export function firstWords(
  precursors: readonly WritingPrecursor[],
  slots: "declared" | "completion",
): FirstWords[] {
  const words = precursors.flatMap(({ precursor, output, tokens }) => {
    if (precursor.state === "gone") return [];
    const { agent, state } = precursor;
    const isOpen = state === "writing";
    const text = isOpen ? wholeWords(precursor.text) : precursor.text;
    const sequence = isOpen ? Infinity : precursor.sequence;
    return [{ agent, text, tokens: shareOf(text, output, tokens), isOpen, sequence }];
  });
  const ordered = slots === "declared" ? words : words.sort((a, b) => compare(a.sequence, b.sequence));
  return ordered.map(({ agent, text, tokens, isOpen }) => ({ agent, text, tokens, isOpen }));
}

/** A text without its last word, of which more may come: half a number would be another number. */
function wholeWords(text: string): string {
  // From the end: what looks for the last word from the start takes minutes for a text that is one.
  let end = text.length;
  while (end > 0 && text[end - 1]!.trim() !== "") end--;
  return text.slice(0, end).trimEnd();
}

/** The tokens of a part of an output, by its characters: nobody has counted them one by one. */
function shareOf(text: string, output: string, tokens: number): number {
  return output === "" ? 0 : Math.min(tokens, Math.round(tokens * text.length / output.length));
}

function compare(a: number, b: number): number {
  return a === b ? 0 : a - b;
}
