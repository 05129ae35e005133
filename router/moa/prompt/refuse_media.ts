import { badRequest } from "../../../base/errors.ts";
import { isJsonObject } from "../../../base/json.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import type { Question } from "../graph/run_input.ts";
import type { PromptTemplate } from "../graph/template.ts";
import { mediaParts } from "./conversation.ts";

/**
 * Refuses a question with parts that are not text (images, audio, files) for an agent whose prompt is plain text and
 * holds the question: they would be lost. Throws 400 `unsupported_content` that names the first of them.
 */
export function refuseMedia({ id, template }: AgentNode, question: Question): void {
  if (question.kind !== "chat" || !writesOutQuestion(template)) return;
  for (const [index, { content }] of question.messages.entries()) {
    const [first] = mediaParts(content);
    if (first === undefined || !Array.isArray(content)) continue;
    const field = `messages[${index}].content[${content.indexOf(first)}]`;
    const type = isJsonObject(first) ? JSON.stringify(first["type"] ?? null).slice(0, 60) : "unknown";
    throw badRequest(
      field,
      `${field} is of type ${type}, and the prompt of agent ${id} is plain text, which can hold text only: ` +
        `leave the part out, or give the agent a chat prompt ({"user": …} instead of {"text": …})`,
      "unsupported_content",
    );
  }
}

/** True for a template that makes the question part of a raw text. */
function writesOutQuestion(template: PromptTemplate): boolean {
  if (template.kind === "raw") return template.text.some(({ kind }) => kind === "question");
  return template.kind === "moa-vllm" && template.text.includes("[input_prompts]");
}
