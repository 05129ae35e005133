import { unixSeconds } from "../../base/clock.ts";
import type { Choice } from "../engine/choice.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import type { Backend } from "../server/backend.ts";
import { type Events, flag } from "../server/reply.ts";
import { failureEvents } from "./errors.ts";
import {
  finishOf,
  type OpenaiJob,
  sglangChatLogprobs,
  sglangCompletionLogprobs,
  sglangUsage,
} from "./output.ts";
import type { SglangRequests } from "./requests.ts";

/** The stream of a chat: role, texts, then all endings. */
export async function* chatEvents(
  job: OpenaiJob,
  backend: Backend,
  requests: SglangRequests,
): Events {
  const { collector } = job;
  const head = eventHead(job, "chat.completion.chunk", backend);
  const sparse = versionNumber(backend.version) >= SGLANG.sparseShapes;
  const deltaText = sparse ? sparseDelta : fullDelta;
  const noUsage = sparse ? "" : ',"usage":null';
  const begun = new Set<Choice>();
  let lastRid = job.rids[0]!;
  for (let choice = await collector.next(); choice !== undefined; choice = await collector.next()) {
    const failure = failureEvents(choice, "openai", backend.version);
    if (failure !== undefined) {
      requests.done(job.rids);
      yield* failure;
      return;
    }
    const { index } = choice.options;
    lastRid = job.rids[index]!;
    if (!begun.has(choice)) {
      begun.add(choice);
      yield `${head(lastRid)}{"index":${index},"delta":${
        deltaText("assistant", "")
      },"logprobs":null,"finish_reason":null,"matched_stop":null}]${noUsage}}\n\n`;
    }
    const delta = choice.take();
    if (delta.text === "" && delta.scores.length === 0) continue;
    const scores = job.logprobs === undefined
      ? "null"
      : JSON.stringify(sglangChatLogprobs(delta.scores, job.logprobs, backend));
    yield `${head(lastRid)}{"index":${index},"delta":${
      deltaText(null, delta.text)
    },"logprobs":${scores},"finish_reason":null,"matched_stop":null}]${
      job.continuousUsage ? `,"usage":${JSON.stringify(sglangUsage([choice], backend))}` : noUsage
    }}\n\n`;
  }
  requests.done(job.rids);
  for (const choice of collector.choices) {
    const { finish, matched } = finishOf(choice);
    yield `${head(lastRid)}{"index":${choice.options.index},"delta":${
      deltaText(null, null)
    },"logprobs":null,"finish_reason":"${finish}","matched_stop":${JSON.stringify(matched)}}]${noUsage}}\n\n`;
  }
  if (job.includeUsage) {
    yield `${head(lastRid)}],"usage":${JSON.stringify(sglangUsage(collector.choices, backend))}}\n\n`;
  }
  yield "data: [DONE]\n\n";
}

/** A chat delta that leaves out what it has nothing to say of. */
function sparseDelta(role: string | null, content: string | null): string {
  const named = role === null ? "" : `,"role":${JSON.stringify(role)}`;
  return `{"reasoning_content":null${named}${
    content === null ? "" : `,"content":${JSON.stringify(content)}`
  }}`;
}

/** A chat delta of older versions, with a null for every field that is not used. */
function fullDelta(role: string | null, content: string | null): string {
  return `{"role":${JSON.stringify(role)},"content":${
    JSON.stringify(content)
  },"reasoning_content":null,"tool_calls":null}`;
}

/** The stream of a completion: the last text carries the ending. */
export async function* completionEvents(
  job: OpenaiJob,
  backend: Backend,
  requests: SglangRequests,
): Events {
  const { collector } = job;
  const head = eventHead(job, "text_completion", backend);
  const begun = new Set<Choice>();
  for (let choice = await collector.next(); choice !== undefined; choice = await collector.next()) {
    const failure = failureEvents(choice, "openai", backend.version);
    if (failure !== undefined) {
      requests.done(job.rids);
      yield* failure;
      return;
    }
    const { index, promptIndex } = choice.options;
    const prompt = job.prompts[promptIndex]!;
    const first = !begun.has(choice);
    begun.add(choice);
    const delta = choice.take();
    const text = (first && job.echo ? backend.tokenizer.decode(prompt) : "") + delta.text;
    const scores = JSON.stringify(sglangCompletionLogprobs(job, prompt, delta.scores, first, backend));
    const { finish, matched } = finishOf(choice);
    const ids = flag(job.body, "return_token_ids") ? `,"token_ids":${JSON.stringify(delta.ids)}` : "";
    const usage = job.continuousUsage ? JSON.stringify(sglangUsage([choice], backend)) : "null";
    yield `${head(job.rids[index]!)}{"index":${index},"text":${
      JSON.stringify(text)
    },"logprobs":${scores},"finish_reason":${finish === null ? "null" : `"${finish}"`},"matched_stop":${
      JSON.stringify(matched)
    }${ids}}],"usage":${usage}}\n\n`;
  }
  requests.done(job.rids);
  if (job.includeUsage) {
    yield `${head(job.rids[0]!)}],"usage":${JSON.stringify(sglangUsage(collector.choices, backend))}}\n\n`;
  }
  yield "data: [DONE]\n\n";
}

/** The front of an event; SGLang stamps each with the time it is made. */
function eventHead(job: OpenaiJob, object: string, backend: Backend): (rid: string) => string {
  const model = JSON.stringify(job.model);
  return (rid) =>
    `data: {"id":${JSON.stringify(rid)},"object":"${object}","created":${
      unixSeconds(backend.options.clock)
    },"model":${model},"choices":[`;
}
