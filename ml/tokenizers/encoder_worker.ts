import { parentPort, workerData } from "node:worker_threads";
import { messageOf } from "../../base/errors.ts";
import { runEncodeJob } from "./encode_job.ts";
import type { EncoderFiles, FromEncoder, ToEncoder } from "./encoder_thread.ts";
import { HfTokenizer } from "./hf_tokenizer.ts";

// The thread that `EncoderThreads` starts: it may be blocked for as long as a text takes.

const port = parentPort;
if (port === null) throw new Error("This file is started by EncoderThreads, in a thread of its own");
const { source, tokenizer, config }: EncoderFiles = workerData;
const encoder = new HfTokenizer(source, {
  tokenizer: JSON.parse(tokenizer),
  config: config === undefined ? {} : JSON.parse(config),
  chatTemplate: undefined,
});

port.on("message", (job: ToEncoder) => {
  try {
    if ("ids" in job) {
      const message: FromEncoder = { kind: "decoded", text: encoder.decode([...job.ids]) };
      return port.postMessage(message);
    }
    const encoded = runEncodeJob(encoder, job);
    const message: FromEncoder = { kind: "encoded", ...encoded };
    port.postMessage(message, [encoded.ids.buffer as ArrayBuffer]);
  } catch (error) {
    // A runtime's own patterns end with that on a piece of megabytes.
    const tooLong = error instanceof RangeError;
    const message: FromEncoder = { kind: "failed", reason: messageOf(error), tooLong };
    port.postMessage(message);
  }
});
