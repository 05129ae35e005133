import type { Turns } from "../../../base/turns.ts";
import type { Piece } from "../graph/template.ts";
import { type FilledPrompt, fillWith, type OpenPrompt } from "./open_prompt.ts";

/** A prompt's final text around its slots. */
export interface PromptLayout {
  readonly pieces: readonly Piece[];
  /** White space at the edges of a message is dropped, so that of its slots may be. */
  readonly trims: boolean;
}

/** A reason why something cannot be done, as the end of a sentence. */
export interface Refused {
  readonly refusal: string;
}

/**
 * Finds the slots in a prompt's final text. A raw text says so itself. Else the chat template is asked, with stand-ins
 * of two kinds in the slots: what is around them must be the same both times, and the stand-ins must be there, once
 * each and unchanged, or the template does more with a text than to put it somewhere. `render`: the final text of a
 * filled prompt, undefined where the engine makes it. `key`: a text that occurs in no prompt.
 */
export function* layoutOf(
  open: OpenPrompt,
  render: (prompt: FilledPrompt) => Turns<string | undefined>,
  key: string,
): Turns<PromptLayout | Refused> {
  if (open.kind === "raw") return { pieces: open.pieces, trims: false };
  if (open.kind === "moa-vllm") {
    return { refusal: "MoA-vllm puts all answers wherever a text has its placeholder" };
  }
  const plain = yield* split(open, render, (index) => `${key}x${index}x`);
  if ("refusal" in plain) return plain;
  yield;
  // White space, quotes, markup and letters of both cases: what filters for texts trim, escape or replace.
  const rich = yield* split(
    open,
    render,
    (index) => `Q"${key}\n\n <b>&'${index}{{ x }}\\u00e9 \u00c9\t|${key}"q`,
  );
  if ("refusal" in rich) return rich;
  if (!samePieces(plain, rich)) {
    return { refusal: "the model's chat template changes with the answers in the prompt" };
  }
  yield;
  const spaced = yield* split(open, render, (index) => ` \n${key}y${index}y\n `);
  return { pieces: plain, trims: "refusal" in spaced || !samePieces(plain, spaced) };
}

function samePieces(one: readonly Piece[], other: readonly Piece[]): boolean {
  return one.length === other.length && one.every((piece, index) => samePiece(piece, other[index]!));
}

function samePiece(one: Piece, other: Piece): boolean {
  if (one.kind === "literal") return other.kind === "literal" && one.text === other.text;
  if (one.kind === "responses") return other.kind === "responses";
  return other.kind === "answer" && one.agent === other.agent;
}

function* split(
  open: Extract<OpenPrompt, { kind: "chat" }>,
  render: (prompt: FilledPrompt) => Turns<string | undefined>,
  standIn: (index: number) => string,
): Turns<Piece[] | Refused> {
  const slots: Piece[] = [];
  const withStandIn = (piece: Piece) =>
    piece.kind === "literal" ? piece.text : standIn(slots.push(piece) - 1);
  const text = yield* render(fillWith(open, (pieces) => pieces.map(withStandIn).join("")));
  if (text === undefined) return { refusal: "the engine applies the chat template" };
  const places = slots.map((slot, index) => ({
    slot,
    stands: standIn(index),
    at: text.indexOf(standIn(index)),
  }));
  const lost = places.some(({ at, stands }) => at < 0 || text.includes(stands, at + 1));
  if (lost) return { refusal: "the model's chat template changes the answers in the prompt" };
  const pieces: Piece[] = [];
  let end = 0;
  for (const { slot, stands, at } of places.sort((a, b) => a.at - b.at)) {
    if (at > end) pieces.push({ kind: "literal", text: text.slice(end, at) });
    pieces.push(slot);
    end = at + stands.length;
  }
  if (end < text.length) pieces.push({ kind: "literal", text: text.slice(end) });
  return pieces;
}
