import type { DecoderOptions, FromDecoder, ToDecoder } from "./worker_messages.ts";
import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../../ml/onnx/thread.ts";

/** Starts a thread with a decoder. */
export type StartDecoder = (options: DecoderOptions, events: ThreadEvents<FromDecoder>) => Thread<ToDecoder>;

const file: ThreadFile = {
  url: new URL("./worker.ts", import.meta.url),
  bundled: "./embedded/thread/worker.ts",
};

/** Starts `worker.ts`. */
export const startDecoderThread: StartDecoder = (options, events) => startThread(file, options, events);
