import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import type { Prompt } from "../../engines/engine.ts";
import type { AgentGraph } from "../graph/graph_types.ts";

/** A precursor's answer, ready to be written into a prompt. */
export interface AgentAnswer {
  readonly agent: string;
  readonly text: string;
}

/** Settings of a graph that decide which part of an output is answer. */
type AnswerRule = Pick<AgentGraph, "compat" | "stripReasoning">;

const OPEN = "<think>";
const CLOSE = "</think>";

/** The part of an agent's output that successors read: under `compat: "moa-vllm"` all of it, else without reasoning. */
export function answerText(output: string, graph: AnswerRule): string {
  if (graph.compat === "moa-vllm") return output;
  return graph.stripReasoning ? stripReasoning(output) : output.trim();
}

/**
 * The certain beginning of `answerText`, of an output that is still being written: less white space at its end, and
 * less the beginning of a tag there. `reasonsFirst`: the agent's prompt opens a `<think>` block, so nothing is answer
 * before that is closed.
 */
export function answerSoFar(output: string, graph: AnswerRule, reasonsFirst: boolean): string {
  if (graph.compat === "moa-vllm") return output;
  if (!graph.stripReasoning) return output.trim();
  if (reasonsFirst && !output.includes(OPEN) && !output.includes(CLOSE)) return "";
  return withoutTagStart(withoutReasoning(output)).trim();
}

/**
 * A text without its `<think>` blocks. A block that is never closed reaches to the end; a `</think>` that was never
 * opened ends a block that the chat template opened, so everything before it goes. White space at both ends goes, too.
 */
export function stripReasoning(text: string): string {
  return withoutReasoning(text).trim();
}

/** True when a prompt ends within a `<think>` block: its output begins with reasoning. */
export function opensReasoning(prompt: Prompt, tokenizer: ModelTokenizer | undefined): boolean {
  if (prompt.kind === "chat" || (prompt.kind === "tokens" && tokenizer === undefined)) return false;
  const end = prompt.kind === "text"
    ? prompt.text.slice(-64)
    : tokenizer?.decode(prompt.ids.slice(-24)) ?? "";
  return end.lastIndexOf(OPEN) > end.lastIndexOf(CLOSE);
}

function withoutReasoning(text: string): string {
  const close = text.indexOf(CLOSE);
  const open = text.indexOf(OPEN);
  const openedByTemplate = close >= 0 && (open < 0 || close < open);
  const visible = openedByTemplate ? text.slice(close + CLOSE.length) : text;
  return open < 0 ? visible : visible.replaceAll(/<think>[^]*?(?:<\/think>|$)/g, "");
}

function withoutTagStart(text: string): string {
  const at = text.lastIndexOf("<");
  if (at < 0) return text;
  const rest = text.slice(at);
  return OPEN.startsWith(rest) || CLOSE.startsWith(rest) ? text.slice(0, at) : text;
}
