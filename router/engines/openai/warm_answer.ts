import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import type { WarmResult } from "../engine.ts";
import { parseObject, usageOf } from "./openai_stream.ts";
import { WorkerCall, type WorkerCallOptions } from "../../worker/worker_call.ts";
import { givenUp, invalidAnswer, readComplaint, streamedError } from "../../worker/worker_errors.ts";

/** Longest answer to a warm. */
const MAX_ANSWER_BYTES = 1024 * 1024;

/** Sends a warm that is not streamed and reads its counts. Throws `EngineError`, or the signal's reason. */
export async function warmed(options: WorkerCallOptions): Promise<WarmResult> {
  const call = new WorkerCall(options);
  try {
    for await (const result of readWarm(call, options.workerUrl)) return result;
    throw invalidAnswer(options.workerUrl, "it is empty");
  } finally {
    await call.close();
  }
}

/** Opens the call of a warm and reads its one result. */
export async function* readWarm(
  call: WorkerCall,
  workerUrl: string,
): AsyncGenerator<WarmResult, void, void> {
  await call.open();
  const answer = parseObject(await call.readText(MAX_ANSWER_BYTES), workerUrl);
  call.complete();
  yield countsOf(answer, workerUrl);
}

function countsOf(answer: JsonObject, workerUrl: string): WarmResult {
  if (answer.error !== undefined && answer.error !== null || answer.object === "error") {
    throw streamedError(workerUrl, readComplaint(answer));
  }
  const meta = answer.meta_info;
  if (isJsonObject(meta)) {
    const finish = meta.finish_reason;
    if (isJsonObject(finish) && finish.type === "abort") {
      throw givenUp(
        workerUrl,
        "abort",
        readComplaint({ message: finish.message ?? "", code: finish.status_code ?? 0 }),
      );
    }
    const { prompt_tokens, cached_tokens } = meta;
    if (typeof prompt_tokens === "number") {
      return {
        promptTokens: prompt_tokens,
        cachedTokens: typeof cached_tokens === "number" ? cached_tokens : undefined,
      };
    }
  }
  if (!isJsonObject(answer.usage)) throw invalidAnswer(workerUrl, "it has no usage");
  const { promptTokens, cachedTokens } = usageOf(answer.usage);
  return { promptTokens, cachedTokens };
}
