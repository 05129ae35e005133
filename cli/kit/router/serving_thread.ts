import { startThread, type Thread, type ThreadFile } from "../../../ml/onnx/thread.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import type { FromServingThread, ToServingThread } from "../../../router/threads/messages.ts";
import type { ServingEvents } from "../../../router/threads/leading_router.ts";
import type { ServingOptions } from "../../../router/threads/serving_router.ts";

/** All that a thread is told when it starts. */
export interface ServingThreadData {
  readonly config: Config;
  readonly options: ServingOptions;
  readonly address: { readonly host: string; readonly port: number };
}

const file: ThreadFile = {
  url: new URL("./serving_worker.ts", import.meta.url),
  bundled: "./cli/kit/router/serving_worker.ts",
};

/** Starts `serving_worker.ts`, a thread that serves clients. */
export function startServingThread(data: ServingThreadData, events: ServingEvents): Thread<ToServingThread> {
  return startThread<ToServingThread, FromServingThread>(file, data, events);
}
