import { isJsonObject, type Json } from "../../../base/json.ts";
import type { Turns } from "../../../base/turns.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import { ControlTokens, isUnmarked, TURN_LENGTH } from "../../../ml/tokenizers/control_tokens.ts";
import type { ModelControlTokens, ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { Piece } from "../graph/template.ts";
import type { AgentAnswer } from "./answer.ts";
import type { Precursor } from "./answer_layout.ts";
import type { OpenPrompt } from "./open_prompt.ts";

/** Texts in which control tokens are taken apart where the engine tokenises: agents' answers, users' too, or none. */
export type NeutralisedTexts = NonNullable<AgentGraph["neutralisedTexts"]>;

/** Control tokens of common chat templates, for models whose tokenizer the router does not know. */
const COMMON_TOKENS = [
  ...["<|im_start|>", "<|im_end|>", "<|im_sep|>", "<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>"],
  ...["<|system|>", "<|tool|>", "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>"],
  ...["<|end_header_id|>", "<|eot_id|>", "<|eom_id|>", "<|python_tag|>", "<|start|>", "<|message|>"],
  ...["<|channel|>", "<|return|>", "<|call|>", "<|constrain|>", "<|observation|>", "[INST]", "[/INST]"],
  ...[
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CALLS]",
    "[AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "<s>",
    "</s>",
  ],
  ...["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>", "<\uff5cUser\uff5c>", "<\uff5cAssistant\uff5c>"],
  ...["<\uff5cbegin\u2581of\u2581sentence\uff5c>", "<\uff5cend\u2581of\u2581sentence\uff5c>"],
];

const UNKNOWN_MODEL = new ControlTokens(COMMON_TOKENS);

/** What a prompt's texts go through, so that none of them writes a control token. */
export interface TextGuard {
  /** `text` for a long one; `answer`: as an agent's answer. What it gives is remembered: afterwards both cost nothing. */
  inTurns(text: string, as: "text" | "answer"): Turns<void>;
  /** A text of the user's; in a conversation also one of the configuration's. */
  text(text: string): string;
  /** `growing`: the certain beginning of one that is still being written. */
  answer(text: string, growing?: boolean): string;
  /** Texts of the configuration go through `text` as well: all that stands inside a message is text. */
  readonly whole: boolean;
}

/** The guard of prompts that the router tokenises: texts are marked. */
export function markingGuard(control: ControlTokens | undefined): TextGuard {
  const known = new Map<string, string>();
  const mark = (text: string, growing?: boolean) => {
    const given = growing === true ? undefined : known.get(text);
    return given ?? control?.mark(text, growing) ?? text;
  };
  return {
    text: (text) => mark(text),
    answer: mark,
    *inTurns(text) {
      if (control !== undefined && !known.has(text)) known.set(text, yield* control.markInTurns(text));
    },
    whole: true,
  };
}

/** The guard of prompts that the engine tokenises: control tokens are taken apart by a space. */
export function neutralisingGuard(tokenizer: ModelTokenizer | undefined, texts: NeutralisedTexts): TextGuard {
  const control = tokenizer === undefined ? UNKNOWN_MODEL : tokenizer.control?.all;
  const known = new Map<string, string>();
  const neutralise = (text: string, growing?: boolean) => {
    const given = growing === true ? undefined : known.get(text);
    return given ?? control?.neutralise(text, growing) ?? text;
  };
  return {
    text: texts === "all" ? (text) => neutralise(text) : (text) => text,
    answer: texts === "none" ? (text) => text : neutralise,
    *inTurns(text, as) {
      if (texts === "none" || (as === "text" && texts !== "all")) return;
      if (control !== undefined && !known.has(text)) known.set(text, yield* control.neutraliseInTurns(text));
    },
    whole: false,
  };
}

/**
 * An open conversation that the router tokenises, guarded. A template may look into texts (for `</think>`, say): where
 * marks at all control tokens would change more than the tokens, only the special ones are marked. `render`: the final
 * text without answers.
 */
export function* guardConversation(
  open: OpenPrompt,
  control: ModelControlTokens | undefined,
  render: (open: OpenPrompt) => Turns<string | undefined>,
): Turns<{ readonly open: OpenPrompt; readonly guard: TextGuard }> {
  const guard = markingGuard(control?.all);
  yield* guardLong(textsOf(open), "text", guard);
  let marks = false;
  const guarded = guardOpen(open, {
    ...guard,
    text: (text) => {
      const marked = guard.text(text);
      marks ||= marked !== text;
      return marked;
    },
  });
  if (!marks || control === undefined || (yield* isSame(render, open, guarded))) {
    return { open: guarded, guard };
  }
  const special = markingGuard(control.special);
  yield* guardLong(textsOf(open), "text", special);
  return { open: guardOpen(open, special), guard: special };
}

/** Has the long ones of some texts guarded, which `guardOpen` and `guardAnswers` then need not do. */
export function* guardLong(
  texts: readonly string[],
  as: "text" | "answer",
  guard: TextGuard,
): Turns<void> {
  for (const text of new Set(texts.filter(({ length }) => length > TURN_LENGTH))) {
    yield* guard.inTurns(text, as);
    yield;
  }
}

/** The texts of an open prompt that go through a guard. */
export function textsOf(open: OpenPrompt): string[] {
  const texts: string[] = [];
  const text = (one: string) => (texts.push(one), one);
  guardOpen(open, { text, answer: text, whole: true, *inTurns() {} });
  return texts;
}

/** True when marks are all that two texts differ in, and for a conversation that the template refuses. */
function* isSame(
  render: (open: OpenPrompt) => Turns<string | undefined>,
  plain: OpenPrompt,
  marked: OpenPrompt,
): Turns<boolean> {
  yield;
  try {
    const text = (yield* render(marked)) ?? "";
    yield;
    const same = (yield* render(plain)) ?? "";
    yield;
    return yield* isUnmarked(text, same);
  } catch {
    return true;
  }
}

/** An open prompt whose texts have gone through a guard. */
export function guardOpen(open: OpenPrompt, guard: TextGuard): OpenPrompt {
  const guardPiece = (piece: Piece): Piece =>
    piece.kind === "literal" && (guard.whole || piece.user === true)
      ? { ...piece, text: guard.text(piece.text) }
      : piece;
  switch (open.kind) {
    case "moa-vllm":
      return { ...open, question: guard.text(open.question) };
    case "raw":
      return { ...open, pieces: open.pieces.map(guardPiece) };
    case "chat":
      return {
        ...open,
        messages: open.messages.map((draft) =>
          draft.kind === "whole" ? { kind: "whole", message: guardMessage(draft.message, guard) } : {
            ...draft,
            base: guardMessage(draft.base, guard),
            parts: draft.parts.map((part) => guardPart(part, guard)),
            pieces: draft.pieces.map(guardPiece),
          }
        ),
      };
  }
}

/** Answers that have gone through a guard. */
export function guardAnswers(answers: readonly AgentAnswer[], guard: TextGuard): AgentAnswer[] {
  return answers.map((answer) => ({ ...answer, text: guard.answer(answer.text) }));
}

/** Precursors whose texts have gone through a guard. */
export function guardPrecursors(precursors: readonly Precursor[], guard: TextGuard): Precursor[] {
  return precursors.map((one) =>
    one.state === "gone" ? one : { ...one, text: guard.answer(one.text, one.state === "writing") }
  );
}

/** A message whose texts (content, reasoning, name) have gone through a guard. */
export function guardMessage(message: ChatMessage, guard: TextGuard): ChatMessage {
  const guarded: ChatMessage = { ...message };
  for (const [name, value] of Object.entries(message)) {
    if (typeof value === "string" && name !== "role") guarded[name] = guard.text(value);
    else if (Array.isArray(value) && name === "content") {
      guarded[name] = value.map((part) => guardPart(part, guard));
    }
  }
  return guarded;
}

function guardPart(part: Json, guard: TextGuard): Json {
  if (typeof part === "string") return guard.text(part);
  return isJsonObject(part) && part["type"] === "text" && typeof part["text"] === "string"
    ? { ...part, text: guard.text(part["text"]) }
    : part;
}
