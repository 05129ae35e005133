import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import type { Prompt } from "../../engines/engine.ts";
import type { Question } from "../graph/run_input.ts";
import type {
  DraftMessage,
  OpenMessage,
  Piece,
  PromptTemplate,
  ResponsesFormat,
  Segment,
} from "../graph/template.ts";
import type { AgentAnswer } from "./answer.ts";
import { fillPieces } from "./answer_layout.ts";
import { fillMoaVllm } from "./compat_moa_vllm.ts";
import { conversationOf, isSystem, mediaParts, questionText, rawQuestionText } from "./conversation.ts";

/** A prompt before it is tokenised or sent. */
export type FilledPrompt = Exclude<Prompt, { kind: "tokens" }>;

/**
 * A prompt template with a run's question in it and its slots still open. What stands before the first slot is
 * final. Text from users and models is never searched for placeholders: pieces are joined, not replaced.
 */
export type OpenPrompt =
  | {
    readonly kind: "chat";
    readonly messages: readonly DraftMessage[];
    readonly responses: ResponsesFormat;
  }
  | { readonly kind: "raw"; readonly pieces: readonly Piece[]; readonly responses: ResponsesFormat }
  | { readonly kind: "moa-vllm"; readonly text: string; readonly question: string };

/** Writes a run's question into a template. */
export function openPrompt(template: PromptTemplate, question: Question): OpenPrompt {
  switch (template.kind) {
    case "chat": {
      const messages = openMessages(template, conversationOf(question));
      return { kind: "chat", messages, responses: template.responses };
    }
    case "messages":
      return { kind: "chat", messages: template.messages, responses: template.responses };
    case "raw": {
      const pieces = withQuestion(template.text, () => rawQuestionText(question));
      return { kind: "raw", pieces, responses: template.responses };
    }
    case "moa-vllm":
      return { kind: "moa-vllm", text: template.text, question: rawQuestionText(question) };
  }
}

/**
 * Writes the answers into the slots; `answers` are in slot order. A slot whose precursor has no answer (it failed,
 * was dropped or said nothing) vanishes, and `[index]` counts the answers that are there.
 */
export function fillPrompt(prompt: OpenPrompt, answers: readonly AgentAnswer[]): FilledPrompt {
  if (prompt.kind === "moa-vllm") {
    return { kind: "text", text: fillMoaVllm(prompt.text, prompt.question, answers) };
  }
  return fillWith(prompt, (pieces) => fillPieces(pieces, answers, prompt.responses));
}

/** Writes texts made by `textOf` for the pieces of a prompt. */
export function fillWith(
  prompt: Exclude<OpenPrompt, { kind: "moa-vllm" }>,
  textOf: (pieces: readonly Piece[]) => string,
): FilledPrompt {
  if (prompt.kind === "raw") return { kind: "text", text: textOf(prompt.pieces) };
  const messages = prompt.messages.map((draft): ChatMessage => {
    if (draft.kind === "whole") return draft.message;
    const text = textOf(draft.pieces);
    const content = draft.parts.length === 0 ? text : [...draft.parts, { type: "text", text }];
    return { ...draft.base, content };
  });
  return { kind: "chat", messages };
}

function openMessages(
  template: PromptTemplate & { kind: "chat" },
  conversation: readonly ChatMessage[],
): DraftMessage[] {
  const question = () => questionText(conversation);
  const kept = template.user === undefined ? conversation : conversation.filter(isSystem);
  const messages: DraftMessage[] = kept.map((message) => ({ kind: "whole", message }));
  if (template.user !== undefined) {
    messages.push(openUser(withQuestion(template.user, question), conversation));
  }
  if (template.append !== undefined) {
    appendToLastUser(messages, kept, withQuestion(template.append, question));
  }
  if (template.system === undefined) return messages;
  const pieces = withQuestion(template.system, question);
  const at = kept.findIndex(isSystem);
  const system = kept[at];
  if (system !== undefined) messages[at] = openWithMore(system, pieces);
  else messages.unshift({ kind: "open", base: { role: "system", content: "" }, parts: [], pieces });
  return messages;
}

/** The user message that stands in for the conversation; images and the like of all its turns come first. */
function openUser(pieces: readonly Piece[], conversation: readonly ChatMessage[]): OpenMessage {
  const users = conversation.filter((message) => message.role === "user");
  return {
    kind: "open",
    base: users.at(-1) ?? { role: "user", content: "" },
    parts: conversation.filter((message) => !isSystem(message)).flatMap((turn) => mediaParts(turn.content)),
    pieces,
  };
}

/**
 * Goes on with the user's last message. Where a tool has answered it since, the text is a message of its own at the
 * end: nothing that the model has read changes. An assistant's beginning at the end stays the end, to be continued.
 */
function appendToLastUser(
  messages: DraftMessage[],
  conversation: readonly ChatMessage[],
  pieces: readonly Piece[],
): void {
  const isBeginning = conversation.at(-1)?.role === "assistant";
  const at = isBeginning
    ? conversation.findLastIndex(({ role }) => role === "user")
    : conversation.length - 1;
  const message = conversation[at];
  if (message?.role === "user") messages[at] = openWithMore(message, pieces);
  else {
    const own: DraftMessage = { kind: "open", base: { role: "user", content: "" }, parts: [], pieces };
    messages.splice(isBeginning ? messages.length - 1 : messages.length, 0, own);
  }
}

/** One of the client's messages with more text at its end. */
function openWithMore(message: ChatMessage, pieces: readonly Piece[]): OpenMessage {
  if (Array.isArray(message.content)) {
    return { kind: "open", base: message, parts: message.content, pieces: [literal("\n\n"), ...pieces] };
  }
  const own = typeof message.content === "string" ? message.content : "";
  return {
    kind: "open",
    base: message,
    parts: [],
    pieces: own === "" ? pieces : [fromUser(`${own}\n\n`), ...pieces],
  };
}

function literal(text: string): Piece {
  return { kind: "literal", text };
}

function fromUser(text: string): Piece {
  return { kind: "literal", text, user: true };
}

function withQuestion(segments: readonly Segment[], question: () => string): Piece[] {
  return segments.map((segment) => segment.kind === "question" ? fromUser(question()) : segment);
}
