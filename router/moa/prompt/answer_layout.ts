import type { AgentGraph } from "../graph/graph_types.ts";
import type { Piece, ResponsesFormat } from "../graph/template.ts";
import type { AgentAnswer } from "./answer.ts";

/** A precursor, as its successor's prompt sees it. */
export type Precursor =
  /** `text`: the certain beginning of its answer. `worker`: where it is being written, once that is known. */
  | {
    readonly agent: string;
    readonly state: "writing";
    readonly text: string;
    readonly worker?: string | undefined;
  }
  /** `sequence`: its place among the answers of the run, in the order in which they came. */
  | { readonly agent: string; readonly state: "answered"; readonly text: string; readonly sequence: number }
  /** It failed or was dropped: its slots vanish. */
  | { readonly agent: string; readonly state: "gone" };

/** The rules by which answers are written into slots, and the precursors that write them. */
export interface SlotFilling {
  /** In declared order. */
  readonly precursors: readonly Precursor[];
  readonly responses: ResponsesFormat;
  readonly slots: AgentGraph["slots"];
  /** White space at the edges of a slot may be dropped, since it may stand at the edge of a message. */
  readonly trims: boolean;
}

/** The beginning of a prompt's text that is known, in parts that come and go as a whole. */
export interface KnownText {
  readonly parts: readonly string[];
  /** The precursor that writes at its end; undefined where none does. */
  readonly waitsFor: string | undefined;
  /** True when nothing is missing. */
  readonly complete: boolean;
  /** Of the parts of a complete text, the number up to the end of its last slot. */
  readonly slotParts: number;
}

/**
 * Lays answers out in the slots of a text, as far as they are known: the one layout of a prompt that grows and of one
 * that is filled, so that the first is a beginning of the second whatever its precursors still write.
 */
export function layOut(pieces: readonly Piece[], filling: SlotFilling): KnownText {
  const parts: string[] = [];
  let slotParts = 0;
  for (const piece of pieces) {
    if (piece.kind === "literal") {
      parts.push(piece.text);
      continue;
    }
    const before = parts.length;
    const end = addSlot(piece, parts, filling);
    const text = filling.trims ? parts.slice(before).join("") : "x";
    if (text.trimStart() !== text) parts.length = before;
    if (end !== undefined || text === "" || text.trim() !== text) {
      return { parts: trimmedEnd(parts), waitsFor: end?.waitsFor, complete: false, slotParts };
    }
    slotParts = parts.length;
  }
  return { parts, waitsFor: undefined, complete: true, slotParts };
}

/** The text when all answers are there, in slot order. */
export function fillPieces(
  pieces: readonly Piece[],
  answers: readonly AgentAnswer[],
  responses: ResponsesFormat,
): string {
  const precursors = answers.map(({ agent, text }): Precursor => ({
    agent,
    text,
    state: "answered",
    sequence: 0,
  }));
  return layOut(pieces, { precursors, responses, slots: "declared", trims: false }).parts.join("");
}

/** The place in a prompt at which its known text ends. */
interface End {
  readonly waitsFor: string | undefined;
}

/** Adds what is known of a slot; returns where it ends when that is not all of it. */
function addSlot(
  slot: Exclude<Piece, { kind: "literal" }>,
  parts: string[],
  filling: SlotFilling,
): End | undefined {
  if (slot.kind === "responses") return addResponses(parts, filling);
  const precursor = filling.precursors.find(({ agent }) => agent === slot.agent);
  if (precursor === undefined || precursor.state === "gone") return undefined;
  parts.push(precursor.text);
  return precursor.state === "writing" ? { waitsFor: slot.agent } : undefined;
}

/**
 * An answer's number and what stands in front of it are known as soon as it is known that there is an answer, and
 * what became of all before it. An empty answer leaves no gap.
 */
function addResponses(parts: string[], filling: SlotFilling): End | undefined {
  const { separator, item: format } = filling.responses;
  const { line, end } = inSlotOrder(filling);
  let index = 0;
  for (const precursor of line) {
    if (precursor.state === "gone") continue;
    const { agent, state, text } = precursor;
    if (text !== "") {
      const value = { index: String(++index), agent, answer: text };
      let item = index > 1 ? separator : "";
      let answered = false;
      for (const piece of format) {
        if (piece.kind === "answer" && !answered) {
          parts.push(item, text);
          if (state === "writing") return { waitsFor: agent };
          item = "";
          answered = true;
        } else item += piece.kind === "literal" ? piece.text : value[piece.kind];
      }
      parts.push(item);
    }
    if (state === "writing") return { waitsFor: agent };
  }
  return end;
}

/**
 * The precursors whose places are certain, and where the known text ends if others follow. In the order of
 * completion, an answer's place is certain once it is there; that of the last one, while it is still being written.
 */
function inSlotOrder(
  { precursors, slots }: SlotFilling,
): { readonly line: readonly Precursor[]; readonly end: End | undefined } {
  if (slots === "declared") return { line: precursors, end: undefined };
  const answered = precursors.filter((precursor) => precursor.state === "answered");
  const writing = precursors.filter((precursor) => precursor.state === "writing");
  const line = [...answered].sort((a, b) => a.sequence - b.sequence);
  return writing.length > 1
    ? { line, end: { waitsFor: undefined } }
    : { line: [...line, ...writing], end: undefined };
}

/** Parts without white space at their end: templates trim it where nothing follows. */
function trimmedEnd(parts: readonly string[]): string[] {
  const kept = [...parts];
  while (kept.length > 0) {
    const last = kept.pop()!.trimEnd();
    if (last === "") continue;
    kept.push(last);
    break;
  }
  return kept;
}
