import type { Piece } from "../graph/template.ts";
import { type FilledPrompt, type OpenPrompt, withText } from "./prompt.ts";

/** A part of a prompt's final text: what stands there whatever the answers, or a place for answers. */
export type LayoutPart = { readonly kind: "fixed"; readonly text: string } | Slot;

/** A place for the answer of one precursor, or for those of all of them. */
export type Slot = Exclude<Piece, { kind: "literal" }>;

/** A prompt's final text around its slots. */
export interface Layout {
  readonly parts: readonly LayoutPart[];
  /** White space at the edges of a message is dropped, so that of its slots may be. */
  readonly trims: boolean;
}

/** Why something cannot be done, as the end of a sentence. */
export interface Refused {
  readonly refusal: string;
}

/**
 * Where in a prompt's final text its slots are. A raw text says so itself. Else the chat template is asked, with stand-ins of two kinds in the slots:
 * what is around them must be the same both times, and the stand-ins must be there, once each and unchanged, or the
 * template does more with a text than to put it somewhere. `render`: the final text of a filled prompt, undefined
 * where the engine makes it. `key`: a text that occurs in no prompt.
 */
export function layoutOf(
  open: OpenPrompt,
  render: (prompt: FilledPrompt) => string | undefined,
  key: string,
): Layout | Refused {
  if (open.kind === "raw") return { parts: open.pieces.map(partOf), trims: false };
  if (open.kind === "moa-vllm") {
    return { refusal: "MoA-vllm puts all answers wherever a text has its placeholder" };
  }
  const plain = split(open, render, (index) => `${key}x${index}x`);
  if ("refusal" in plain) return plain;
  // White space, quotes, markup and letters of both cases: what filters for texts trim, escape or replace.
  const rich = split(open, render, (index) => `Q"${key}\n\n <b>&'${index}{{ x }}\\u00e9 \u00c9\t|${key}"q`);
  if ("refusal" in rich) return rich;
  if (!sameParts(plain, rich)) {
    return { refusal: "the model's chat template changes with the answers in the prompt" };
  }
  const spaced = split(open, render, (index) => ` \n${key}y${index}y\n `);
  return { parts: plain, trims: "refusal" in spaced || !sameParts(plain, spaced) };
}

function partOf(piece: Piece): LayoutPart {
  return piece.kind === "literal" ? { kind: "fixed", text: piece.text } : piece;
}

function sameParts(one: readonly LayoutPart[], other: readonly LayoutPart[]): boolean {
  return one.length === other.length && one.every((part, index) => samePart(part, other[index]!));
}

function samePart(one: LayoutPart, other: LayoutPart): boolean {
  if (one.kind === "fixed") return other.kind === "fixed" && one.text === other.text;
  if (one.kind === "responses") return other.kind === "responses";
  return other.kind === "answer" && one.agent === other.agent;
}

function split(
  open: Extract<OpenPrompt, { kind: "chat" }>,
  render: (prompt: FilledPrompt) => string | undefined,
  standIn: (index: number) => string,
): LayoutPart[] | Refused {
  const slots: Slot[] = [];
  const text = render(filled(open, (slot) => standIn(slots.push(slot) - 1)));
  if (text === undefined) return { refusal: "the engine applies the chat template" };
  const places = slots.map((slot, index) => ({
    slot,
    stands: standIn(index),
    at: text.indexOf(standIn(index)),
  }));
  const lost = places.some(({ at, stands }) => at < 0 || text.includes(stands, at + 1));
  if (lost) return { refusal: "the model's chat template changes the answers in the prompt" };
  const parts: LayoutPart[] = [];
  let end = 0;
  for (const { slot, stands, at } of places.sort((a, b) => a.at - b.at)) {
    if (at > end) parts.push({ kind: "fixed", text: text.slice(end, at) });
    parts.push(slot);
    end = at + stands.length;
  }
  if (end < text.length) parts.push({ kind: "fixed", text: text.slice(end) });
  return parts;
}

/** The prompt with stand-ins for its slots. */
function filled(
  open: Extract<OpenPrompt, { kind: "chat" }>,
  standIn: (slot: Slot) => string,
): FilledPrompt {
  const textOf = (pieces: readonly Piece[]) =>
    pieces.map((piece) => piece.kind === "literal" ? piece.text : standIn(piece)).join("");
  const messages = open.messages.map((draft) =>
    draft.kind === "whole" ? draft.message : withText(draft, textOf(draft.pieces))
  );
  return { kind: "chat", messages };
}
