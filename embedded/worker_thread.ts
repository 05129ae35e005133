import { startThread, type Thread, type ThreadEvents, type ThreadFile } from "../onnx/thread.ts";
import type { DecoderOptions, FromWorker, ToWorker } from "./worker_messages.ts";

/** Starts a thread with a decoder. */
export type StartDecoder = (options: DecoderOptions, events: ThreadEvents<FromWorker>) => Thread<ToWorker>;

const file: ThreadFile = { url: new URL("./worker.ts", import.meta.url), bundled: "./embedded/worker.ts" };

/** Starts `worker.ts`. */
export const startDecoderThread: StartDecoder = (options, events) => startThread(file, options, events);
