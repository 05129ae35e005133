import type { ModelTokenizer } from "../../../ml/tokenizers/tokenizer.ts";
import type { Prompt } from "../../engines/engine.ts";
import type { Graph } from "../graph/graph_types.ts";
import type { ResponsesFormat } from "../graph/template.ts";
import type { Layout, Slot } from "./splice_layout.ts";

/** A precursor, as its successor's prompt sees it. */
export type Precursor =
  /** `text`: what its answer will certainly begin with. `worker`: where it is being written, once that is known. */
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

/** The beginning of a prompt's text that is known, in parts that come and go as a whole. */
export interface KnownText {
  readonly parts: readonly string[];
  /** The precursor that writes at its end; undefined where none does. */
  readonly waitsFor: string | undefined;
  /** Nothing is missing. */
  readonly complete: boolean;
}

/**
 * What an answer will certainly begin with, of an output that is still being written: the answer without reasoning
 * (as `answerText` makes it), less what may turn out to be white space at its end or the beginning of a tag.
 * `reasonsFirst`: the model's own prompt opens a `<think>` block, so nothing is answer before that is closed.
 */
export function answerSoFar(
  output: string,
  graph: Pick<Graph, "compat" | "stripReasoning">,
  reasonsFirst: boolean,
): string {
  if (!graph.stripReasoning || graph.compat === "moa-vllm") return output.trim();
  const close = output.indexOf("</think>");
  const open = output.indexOf("<think>");
  if (reasonsFirst && close < 0 && open < 0) return "";
  const closesFirst = close >= 0 && (open < 0 || close < open);
  const visible = closesFirst ? output.slice(close + "</think>".length) : output;
  const answer = open < 0 ? visible : visible.replaceAll(/<think>[^]*?(?:<\/think>|$)/g, "");
  return withoutTagStart(answer).trim();
}

/** True when a prompt ends within a `<think>` block: what comes first is reasoning. */
export function opensReasoning(prompt: Prompt, tokenizer: ModelTokenizer | undefined): boolean {
  if (prompt.kind === "chat" || (prompt.kind === "tokens" && tokenizer === undefined)) return false;
  const end = prompt.kind === "text"
    ? prompt.text.slice(-64)
    : tokenizer?.decode(prompt.ids.slice(-24)) ?? "";
  return end.lastIndexOf("<think>") > end.lastIndexOf("</think>");
}

/** Lays the answers out as far as they are known. Precursors are in declared order. */
export function knownText(
  layout: Layout,
  precursors: readonly Precursor[],
  format: ResponsesFormat,
  order: Graph["slots"],
): KnownText {
  const parts: string[] = [];
  for (const part of layout.parts) {
    if (part.kind === "fixed") {
      parts.push(part.text);
      continue;
    }
    const before = parts.length;
    const end = addSlot(part, parts, precursors, format, order);
    const text = layout.trims ? parts.slice(before).join("") : "x";
    // What is at the edge of a slot may be at the edge of a message.
    if (text.trimStart() !== text) parts.length = before;
    if (end !== undefined || text === "" || text.trim() !== text) {
      return { parts: trimmedEnd(parts), waitsFor: end?.waitsFor, complete: false };
    }
  }
  return { parts, waitsFor: undefined, complete: true };
}

/** Where a prompt's known text ends. */
interface End {
  readonly waitsFor: string | undefined;
}

/** Adds what is known of a slot; returns where it ends when that is not all of it. */
function addSlot(
  slot: Slot,
  parts: string[],
  precursors: readonly Precursor[],
  format: ResponsesFormat,
  order: Graph["slots"],
): End | undefined {
  if (slot.kind === "responses") return addResponses(parts, precursors, format, order);
  const precursor = precursors.find(({ agent }) => agent === slot.agent);
  if (precursor === undefined || precursor.state === "gone") return undefined;
  parts.push(precursor.text);
  return precursor.state === "writing" ? { waitsFor: slot.agent } : undefined;
}

/**
 * An answer's number and what stands in front of it are known as soon as it is known that there is an answer, and
 * what became of all before it.
 */
function addResponses(
  parts: string[],
  precursors: readonly Precursor[],
  format: ResponsesFormat,
  order: Graph["slots"],
): End | undefined {
  const { line, end } = inSlotOrder(precursors, order);
  let index = 0;
  for (const precursor of line) {
    if (precursor.state === "gone") continue;
    const { agent, state, text } = precursor;
    if (text !== "") {
      const value = { index: String(++index), agent, answer: text };
      let item = index > 1 ? format.separator : "";
      let answered = false;
      for (const piece of format.item) {
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
  precursors: readonly Precursor[],
  order: Graph["slots"],
): { readonly line: readonly Precursor[]; readonly end: End | undefined } {
  if (order === "declared") return { line: precursors, end: undefined };
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

/** A text less the beginning of a tag at its end. */
function withoutTagStart(text: string): string {
  const at = text.lastIndexOf("<");
  if (at < 0) return text;
  const rest = text.slice(at);
  return "<think>".startsWith(rest) || "</think>".startsWith(rest) ? text.slice(0, at) : text;
}
