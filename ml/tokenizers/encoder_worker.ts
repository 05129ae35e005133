import { parentPort, workerData } from "node:worker_threads";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { runEncodeJob } from "./encode_job.ts";
import type { EncoderFiles, FromEncoder, ToEncoder } from "./encoder_thread.ts";
import { HfTokenizer } from "./hf_tokenizer.ts";

// The thread that `EncoderThreads` starts: it may be blocked for as long as a text takes.

const port = parentPort;
if (port === null) throw new Error("This file is started by EncoderThreads, in a thread of its own");
const { source, tokenizer, config, chatTemplate }: EncoderFiles = workerData;
const encoder = new HfTokenizer(source, {
  tokenizer: JSON.parse(tokenizer),
  config: config === undefined ? {} : JSON.parse(config),
  chatTemplate,
});

/** The parts of a text that have come. */
let begun = "";

const say = (message: FromEncoder, transfer: ArrayBuffer[] = []) => port.postMessage(message, transfer);

function refusalOf(error: unknown): Extract<FromEncoder, { kind: "failed" }>["refused"] {
  if (CanopyError.is(error) && error.code === "invalid_messages") return error.code;
  // A runtime's own patterns end with that on a piece of megabytes.
  return error instanceof RangeError ? "text_too_long" : undefined;
}

port.on("message", (job: ToEncoder) => {
  try {
    if ("ids" in job) {
      return say({ kind: "text", text: encoder.decode([...job.ids]) });
    }
    if ("messages" in job) {
      return say({ kind: "text", text: encoder.renderChat(job.messages, job.options) });
    }
    if ("part" in job) return void (begun += job.part);
    const text = begun + job.text;
    begun = "";
    const encoded = runEncodeJob(encoder, { ...job, text });
    say({ kind: "encoded", ...encoded }, [encoded.ids.buffer as ArrayBuffer]);
  } catch (error) {
    say({ kind: "failed", reason: messageOf(error), refused: refusalOf(error) });
  }
});
