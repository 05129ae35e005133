import type { ClusterNode } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import type { Piece } from "../graph/template.ts";
import { questionText, textOf } from "./conversation.ts";
import type { OpenPrompt } from "./prompt.ts";
import type { RunPrompts } from "./run_prompts.ts";

/**
 * What a cluster's members were asked, as plain text: the run's question, or the first member's own prompt where each
 * agent has one of its own.
 */
export function questionOf(
  question: RunInput["question"],
  { agents: [member] }: ClusterNode,
  prompts: RunPrompts,
): string {
  const text = question.kind === "text" ? question.text : questionText(question.messages);
  return text !== "" || member === undefined ? text : promptText(prompts.open(member));
}

/** The user's text in a prompt, without what is written into its slots. */
function promptText(open: OpenPrompt): string {
  switch (open.kind) {
    case "chat":
      return open.messages.flatMap((message) => {
        if (message.kind === "open") return [literals(message.pieces)];
        return message.message.role === "system" ? [] : [textOf(message.message.content)];
      }).join("\n\n");
    case "raw":
      return literals(open.pieces);
    case "moa-vllm":
      return open.question;
  }
}

function literals(pieces: readonly Piece[]): string {
  return pieces.map((piece) => piece.kind === "literal" ? piece.text : "").join("");
}
