import type { Json } from "../../../base/json.ts";
import type { PromptConfig } from "../../../cfgs/schema/config.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";

/** A piece of a prompt template. */
export type Segment =
  /** `user`: text of the client's, not of the configuration's. */
  | { readonly kind: "literal"; readonly text: string; readonly user?: boolean | undefined }
  /** `[input_prompts]`: the client's question. */
  | { readonly kind: "question" }
  /** `[responses]`: the answers of all precursors, each one as `ResponsesFormat` has it. */
  | { readonly kind: "responses" }
  /** `<|answer:ID|>`: the answer of one precursor. */
  | { readonly kind: "answer"; readonly agent: string };

/** Format of one answer where `[responses]` stands, and of what stands between two. */
export interface ResponsesFormat {
  readonly item: readonly (
    | { readonly kind: "literal"; readonly text: string }
    | { readonly kind: "index" | "agent" | "answer" }
  )[];
  readonly separator: string;
}

/** A piece of a prompt's text: only slots still change once a run has begun. */
export type Piece = Exclude<Segment, { kind: "question" }>;

/** A message with slots in its text. */
export interface OpenMessage {
  readonly kind: "open";
  /** All fields but the content. */
  readonly base: ChatMessage;
  /** Content parts that stand before the text: the client's own. */
  readonly parts: readonly Json[];
  readonly pieces: readonly Piece[];
}

/** A message of a chat prompt: one of the client's as it is, or one with slots in its text. */
export type DraftMessage = { readonly kind: "whole"; readonly message: ChatMessage } | OpenMessage;

/** A prompt template, parsed. */
export type PromptTemplate =
  | {
    readonly kind: "chat";
    /** Goes to the end of the client's system message, or makes one. */
    readonly system: readonly Segment[] | undefined;
    /** Stands in for the client's conversation; undefined: the conversation follows as it is. */
    readonly user: readonly Segment[] | undefined;
    /** Goes to the end of the client's last user message, or makes one. */
    readonly append: readonly Segment[] | undefined;
    readonly responses: ResponsesFormat;
  }
  | {
    /** A conversation of its own: nothing of the run's question goes into it. */
    readonly kind: "messages";
    readonly messages: readonly DraftMessage[];
    readonly responses: ResponsesFormat;
  }
  | {
    /** A raw prompt: no chat template is applied to it. */
    readonly kind: "raw";
    readonly text: readonly Segment[];
    readonly responses: ResponsesFormat;
  }
  | {
    /** A raw prompt that is filled by replacing strings, one placeholder after the other, as MoA-vllm does. */
    readonly kind: "moa-vllm";
    readonly text: string;
  };

/** Parses a template; a string is a user message. */
export function parseTemplate(config: PromptConfig): PromptTemplate {
  if (typeof config === "string") return parseTemplate({ user: config, responses: DEFAULT_RESPONSES });
  const responses = parseResponsesFormat(config.responses);
  if ("text" in config) return { kind: "raw", text: parseSegments(config.text), responses };
  return {
    kind: "chat",
    system: config.system === undefined ? undefined : parseSegments(config.system),
    user: config.user === undefined ? undefined : parseSegments(config.user),
    append: config.append === undefined ? undefined : parseSegments(config.append),
    responses,
  };
}

/** All segments of a template, in the order in which they stand in the prompt. */
export function segmentsOf(template: PromptTemplate): readonly Segment[] {
  if (template.kind === "chat") {
    return [...template.system ?? [], ...template.user ?? [], ...template.append ?? []];
  }
  if (template.kind === "messages") {
    return template.messages.flatMap((message) => message.kind === "open" ? message.pieces : []);
  }
  return template.kind === "raw" ? template.text : parseSegments(template.text);
}

/** Splits a text at `[input_prompts]`, `[responses]` and `<|answer:ID|>`. */
export function parseSegments(text: string): Segment[] {
  return split(text, /\[input_prompts\]|\[responses\]|<\|answer:(.+?)\|>/g, (match): Segment => {
    if (match[1] !== undefined) return { kind: "answer", agent: match[1] };
    return { kind: match[0] === "[responses]" ? "responses" : "question" };
  });
}

/** Splits the format of one answer at `[index]`, `[agent]` and `[answer]`. */
export function parseResponsesFormat(config: { item: string; separator: string }): ResponsesFormat {
  const item = split<ResponsesFormat["item"][number]>(
    config.item,
    /\[index\]|\[agent\]|\[answer\]/g,
    ([name]) => ({ kind: name === "[index]" ? "index" : name === "[agent]" ? "agent" : "answer" }),
  );
  return { item, separator: config.separator };
}

const DEFAULT_RESPONSES = { item: "[index]. [answer]", separator: "\n\n" };

function split<S>(
  text: string,
  placeholder: RegExp,
  parse: (match: RegExpExecArray) => S,
): (S | { kind: "literal"; text: string })[] {
  const segments: (S | { kind: "literal"; text: string })[] = [];
  let end = 0;
  for (const match of text.matchAll(placeholder)) {
    if (match.index > end) segments.push({ kind: "literal", text: text.slice(end, match.index) });
    segments.push(parse(match));
    end = match.index + match[0].length;
  }
  if (end < text.length) segments.push({ kind: "literal", text: text.slice(end) });
  return segments;
}
