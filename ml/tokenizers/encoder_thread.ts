import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../onnx/thread.ts";
import type { ChatMessage, RenderOptions } from "./chat_message.ts";
import type { Encoded, EncodeJob } from "./long_texts.ts";

/** A tokenizer's files as texts, which a thread parses itself. */
export interface EncoderFiles {
  readonly source: string;
  readonly tokenizer: string;
  /** `tokenizer_config.json`; undefined where there is none. */
  readonly config: string | undefined;
  /** Undefined where the model has none. */
  readonly chatTemplate: string | undefined;
}

/** A conversation to render. */
export interface RenderJob {
  readonly messages: readonly ChatMessage[];
  readonly options: RenderOptions;
}

/** The next text, or what to make one of; a thread has one at a time. */
export type ToEncoder = EncodeJob | { readonly ids: Int32Array } | RenderJob | TextPart;

/** A part of the next text, which is too long to be handed over in one turn. */
export interface TextPart {
  readonly part: string;
}

export type FromEncoder =
  | ({ readonly kind: "encoded" } & Encoded<Int32Array>)
  /** Of ids, or of a conversation. */
  | { readonly kind: "text"; readonly text: string }
  /** `refused`: a `text_too_long` is more than the tokenizer's patterns can take. */
  | {
    readonly kind: "failed";
    readonly reason: string;
    readonly refused?: "text_too_long" | "invalid_messages" | undefined;
  };

/** Starts a thread with a tokenizer. */
export type StartEncoder = (
  files: EncoderFiles,
  events: ThreadEvents<FromEncoder>,
) => Thread<ToEncoder>;

const file: ThreadFile = {
  url: new URL("./encoder_worker.ts", import.meta.url),
  bundled: "./ml/tokenizers/encoder_worker.ts",
};

/** Starts `encoder_worker.ts`. The process does not wait for it. */
export const startEncoderThread: StartEncoder = (files, events) => startThread(file, files, events);
