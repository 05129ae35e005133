import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import type { WarmResult } from "../engine.ts";
import { parseObject, usageOf } from "./openai_stream.ts";
import {
  accepted,
  type CalledWorker,
  restAsText,
  type UpstreamCall,
  usingCall,
} from "../../worker/upstream_call.ts";
import { givenUp, invalidAnswer, readComplaint, streamedError } from "../../worker/worker_errors.ts";

/** Longest answer to a warm. */
const MAX_ANSWER_BYTES = 1024 * 1024;

/** Sends a warm that is not streamed and reads its counts. Throws `EngineError`, or the signal's reason. */
export function warmed(call: UpstreamCall, signal: AbortSignal): Promise<WarmResult> {
  return usingCall(call, signal, async () => {
    await accepted(call);
    const { worker } = call;
    const answer = parseObject(await restAsText(call, MAX_ANSWER_BYTES), worker);
    call.complete();
    return countsOf(answer, worker);
  });
}

function countsOf(answer: JsonObject, worker: CalledWorker): WarmResult {
  if (answer.error !== undefined && answer.error !== null || answer.object === "error") {
    throw streamedError(worker, readComplaint(answer));
  }
  const meta = answer.meta_info;
  if (isJsonObject(meta)) {
    const finish = meta.finish_reason;
    if (isJsonObject(finish) && finish.type === "abort") {
      throw givenUp(
        worker,
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
  if (!isJsonObject(answer.usage)) throw invalidAnswer(worker, "it has no usage");
  const { promptTokens, cachedTokens } = usageOf(answer.usage);
  return { promptTokens, cachedTokens };
}
