import type { OpenMessage, Piece } from "../../moa/graph/template.ts";

/**
 * `<|answer:ID|>`. An id has a bound and neither line break nor `|`, so that a text full of slots that are never
 * closed is still read once.
 */
const SLOT = /<\|answer:([^|\n]{0,128})\|>/u;
const SLOTS = new RegExp(SLOT, "gu");
const SLOTS_AND_RESPONSES = new RegExp(`\\[responses\\]|${SLOT.source}`, "gu");

/** True for a text with a slot in it. */
export function holdsSlot(text: string): boolean {
  return SLOT.test(text);
}

/** Splits a text at its slots, and at `[responses]` where that is one; everything else is literal. */
export function splitAtSlots(text: string, withResponses: boolean): Piece[] {
  const pieces: Piece[] = [];
  let end = 0;
  for (const match of text.matchAll(withResponses ? SLOTS_AND_RESPONSES : SLOTS)) {
    if (match.index > end) pieces.push({ kind: "literal", text: text.slice(end, match.index) });
    pieces.push(match[1] === undefined ? { kind: "responses" } : { kind: "answer", agent: match[1] });
    end = match.index + match[0].length;
  }
  if (end < text.length) pieces.push({ kind: "literal", text: text.slice(end) });
  return pieces;
}

/** A message of one text. */
export function openMessage(role: string, pieces: readonly Piece[]): OpenMessage {
  return { kind: "open", base: { role, content: "" }, parts: [], pieces };
}
