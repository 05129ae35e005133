import { deadlineSignal } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import { answerWork } from "../../../bench/evaluation/answer_work.ts";
import type { AskMode } from "../../../bench/evaluation/eval_record.ts";
import { meanOf } from "../../../bench/statistics/statistics.ts";
import { streamChat } from "../../kit/client.ts";
import type { Io } from "../../kit/io.ts";
import type { EvalTarget } from "./eval_targets.ts";

/** Longest answer where neither the user nor the protocol sets one. */
export const DEFAULT_MAX_TOKENS = 4096;

/** Asks models and graphs over HTTP, by the names that modes give them; `maxTokens` stands above the protocol's limit. */
export function askServer(
  targets: ReadonlyMap<string, EvalTarget>,
  { maxTokens, timeoutMs }: { readonly maxTokens: number | undefined; readonly timeoutMs: number },
  { transport, clock }: Pick<Io, "transport" | "clock">,
): AskMode {
  return async (name, { messages, stop, temperature, maxTokens: limit }, { seed, logprobs, signal }) => {
    const { server, model, graph } = targets.get(name)!;
    const startMs = clock.now();
    const deadline = deadlineSignal(
      clock,
      timeoutMs,
      new Error(`No answer within ${timeoutMs / 1000} s`),
      signal,
    );
    let text = "";
    let ttftMs: number | undefined;
    let finish: string | undefined;
    const values: number[] = [];
    let tokens = { prompt_tokens: 0, completion_tokens: 0 };
    let canopy: JsonObject | undefined;
    try {
      const body = {
        model,
        messages: messages.map((message) => ({ ...message })),
        seed,
        max_tokens: maxTokens ?? limit ?? DEFAULT_MAX_TOKENS,
        ...stop === undefined || stop.length === 0 ? {} : { stop: [...stop] },
        ...logprobs === true ? { logprobs: true } : {},
        ...temperature === undefined ? {} : { temperature },
        ...graph === true ? { canopy: { include: ["usage"] } } : {},
      };
      for await (const event of streamChat(transport, server, body, deadline.signal)) {
        if (event.type === "usage") tokens = { ...tokens, ...event.usage };
        if (event.type === "canopy") canopy = event.canopy;
        if (event.type === "logprobs") values.push(...event.values);
        if (event.type === "finish") finish = event.reason;
        if (event.type !== "text") continue;
        ttftMs ??= clock.now() - startMs;
        text += event.text;
      }
    } finally {
      deadline.release();
    }
    const latencyMs = clock.now() - startMs;
    return {
      text,
      finish,
      meanLogprob: values.length === 0 ? undefined : meanOf(values),
      ttftMs,
      latencyMs,
      promptTokens: tokens.prompt_tokens,
      completionTokens: tokens.completion_tokens,
      work: answerWork(name, tokens, canopy),
    };
  };
}
