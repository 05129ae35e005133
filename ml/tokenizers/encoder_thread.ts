import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../onnx/thread.ts";
import type { Encoded, EncodeJob } from "./long_texts.ts";

/** A tokenizer's files as texts, which a thread parses itself. */
export interface EncoderFiles {
  readonly source: string;
  readonly tokenizer: string;
  /** `tokenizer_config.json`; undefined where there is none. */
  readonly config: string | undefined;
}

/** The next text, or ids to make one of; a thread has one at a time. */
export type ToEncoder = EncodeJob | { readonly ids: Int32Array };

export type FromEncoder =
  | ({ readonly kind: "encoded" } & Encoded)
  | { readonly kind: "decoded"; readonly text: string }
  /** `tooLong`: the text is more than the tokenizer's patterns can take. */
  | { readonly kind: "failed"; readonly reason: string; readonly tooLong: boolean };

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
