import type { Graph } from "../graph/graph_types.ts";

/** A precursor's answer, ready to be written into a prompt. */
export interface AgentAnswer {
  readonly agent: string;
  readonly text: string;
}

/** What successors read of an agent's output: under `compat: "moa-vllm"` all of it, else without its reasoning. */
export function answerText(output: string, graph: Pick<Graph, "compat" | "stripReasoning">): string {
  if (graph.compat === "moa-vllm") return output;
  return graph.stripReasoning ? stripReasoning(output) : output.trim();
}

/**
 * A text without its `<think>` blocks. A block that is never closed reaches to the end; a `</think>` that was never
 * opened ends a block that the chat template opened, so everything before it goes. White space at both ends goes, too.
 */
export function stripReasoning(text: string): string {
  const close = text.indexOf("</think>");
  const open = text.indexOf("<think>");
  const openedByTemplate = close >= 0 && (open < 0 || close < open);
  const answer = openedByTemplate ? text.slice(close + "</think>".length) : text;
  return answer.replaceAll(/<think>[^]*?(?:<\/think>|$)/g, "").trim();
}
