import { unixSeconds } from "../../base/clock.ts";
import type { JsonObject } from "../../base/json.ts";
import { type Choice, Collector } from "../engine/choice.ts";
import type { Backend } from "../server/backend.ts";
import { flag, jsonReply, type Reply, type ServedRequest, streamReply } from "../server/reply.ts";
import { brokenStream, failed, refuse, refuseVllmSchema } from "./errors.ts";
import {
  countTokens,
  createdCacheTokens,
  fingerprint,
  finishFields,
  isDue,
  vllmChatLogprobs,
} from "./output.ts";
import {
  checkedPrompt,
  integer,
  modelOf,
  outputBudget,
  requestedTransfer,
  type VllmSampling,
  vllmSampling,
  wrongType,
} from "./request.ts";
import type { VllmRequests } from "./requests.ts";

interface Job {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly sampling: VllmSampling;
  readonly prompt: readonly number[];
  /** Alternatives per token to show; undefined: no log-probabilities. */
  readonly logprobs: number | undefined;
  readonly collector: Collector;
}

/** `POST /v1/chat/completions` of vLLM without tool and reasoning parsers. */
export async function vllmChat(
  request: ServedRequest,
  body: JsonObject,
  backend: Backend,
  requests: VllmRequests,
): Promise<Reply> {
  const model = modelOf(body, backend);
  const sampling = vllmSampling(body);
  const prompt = checkedPrompt(chatPrompt(body, backend), true, sampling, backend);
  const logprobs = flag(body, "logprobs") ? integer(body, "top_logprobs") ?? 0 : undefined;
  const maxTokens = outputBudget(sampling, sampling.maxTokens, prompt.length, logprobs, backend);
  const job: Job = {
    id: `chatcmpl-${requests.idOf(request, body)}`,
    created: unixSeconds(backend.options.clock),
    model,
    sampling,
    prompt,
    logprobs,
    collector: new Collector(),
  };
  const release = await requests.enter(request, job.id, job.collector);
  for (let i = 0; i < sampling.n; i++) {
    backend.start(job.collector, {
      ...sampling,
      index: i,
      promptIndex: 0,
      prompt,
      model,
      seed: i === 0 ? sampling.seed : (sampling.seed ?? 0) + 7919 * i,
      maxTokens,
      holdBack: true,
      logprobs,
      transfer: requestedTransfer(body, job.id),
      cacheLimit: Infinity,
    });
  }
  if (sampling.stream) return streamReply(stream(job, backend, release));
  await job.collector.finished();
  release();
  return failed(job.collector) ?? jsonReply(200, whole(job, backend));
}

/** The prompt of a conversation, as ids. Throws the 400s of messages and tools. */
export function chatPrompt(body: JsonObject, backend: Backend): number[] {
  const messages = body["messages"] ?? null;
  if (messages === null) {
    throw refuseVllmSchema([wrongType("messages", body, "missing", "Field required")]);
  }
  if (!Array.isArray(messages)) {
    throw refuseVllmSchema([wrongType("messages", messages, "list_type", "Input should be a valid list")]);
  }
  if (messages.length === 0) {
    throw refuse("Cannot apply chat template to an empty conversation. Provide at least one message.");
  }
  const tools = body["tools"];
  const toolChoice = body["tool_choice"] ?? "auto";
  if (Array.isArray(tools) && tools.length > 0 && toolChoice !== "none") {
    throw refuse(
      toolChoice === "auto"
        ? '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set'
        : 'tool_choice="required" requires --tool-call-parser to be set',
    );
  }
  return backend.tokenizer.encode(backend.renderChat(messages, body));
}

function whole(job: Job, backend: Backend): JsonObject {
  const { sampling, collector } = job;
  const counts = countTokens(collector);
  return {
    id: job.id,
    object: "chat.completion",
    created: job.created,
    model: job.model,
    choices: collector.choices.map((choice) => {
      const { finish, stop } = finishFields(choice);
      return {
        index: choice.options.index,
        message: {
          role: "assistant",
          content: choice.text,
          refusal: null,
          annotations: null,
          audio: null,
          function_call: null,
          reasoning: null,
        },
        logprobs: job.logprobs === undefined
          ? null
          : vllmChatLogprobs(choice.scores, job.logprobs, backend, sampling.tokensAsIds),
        finish_reason: finish,
        stop_reason: stop,
        token_ids: sampling.returnTokenIds ? [...choice.ids] : null,
        routed_experts: null,
      };
    }),
    service_tier: null,
    system_fingerprint: fingerprint(backend),
    usage: {
      prompt_tokens: counts.prompt,
      total_tokens: counts.prompt + counts.completion,
      completion_tokens: counts.completion,
      prompt_tokens_details: {
        cached_tokens: counts.cached,
        created_cache_tokens: createdCacheTokens(collector, backend, counts),
        multimodal_tokens: null,
      },
      completion_tokens_details: null,
    },
    prompt_logprobs: null,
    prompt_token_ids: sampling.returnTokenIds ? [...job.prompt] : null,
    prompt_text: null,
    kv_transfer_params: backend.kv?.paramsOf(collector.choices[0]) ?? null,
    ec_transfer_params: null,
    metrics: null,
  };
}

async function* stream(job: Job, backend: Backend, release: () => void): AsyncGenerator<string, void, void> {
  const { sampling, collector } = job;
  const head = `data: {"id":${
    JSON.stringify(job.id)
  },"object":"chat.completion.chunk","created":${job.created},"model":${
    JSON.stringify(job.model)
  },"choices":[`;
  const last = `,"system_fingerprint":${JSON.stringify(fingerprint(backend))}`;
  const seen = new Map<Choice, number>();
  for (let choice = await collector.next(); choice !== undefined; choice = await collector.next()) {
    const broken = brokenStream(choice);
    if (broken !== undefined) {
      release();
      yield broken;
      return;
    }
    if (seen.size === 0) {
      const ids = sampling.returnTokenIds ? JSON.stringify(job.prompt) : "null";
      const usage = sampling.continuousUsage ? `,"usage":${runningUsage(job, 0)}` : "";
      for (const { options } of collector.choices) {
        yield `${head}{"index":${options.index},"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]${usage},"prompt_token_ids":${ids},"prompt_text":null}\n\n`;
      }
    }
    if (!isDue(choice, seen.get(choice) ?? 0, sampling)) continue;
    const delta = choice.take();
    seen.set(choice, choice.ids.length);
    const { finish, stop } = finishFields(choice);
    const scores = job.logprobs === undefined
      ? "null"
      : JSON.stringify(vllmChatLogprobs(delta.scores, job.logprobs, backend, sampling.tokensAsIds));
    const finishing = finish === null
      ? `"finish_reason":null`
      : `"finish_reason":"${finish}","stop_reason":${JSON.stringify(stop)}`;
    const ids = sampling.returnTokenIds ? JSON.stringify(delta.ids) : "null";
    const usage = sampling.continuousUsage ? `,"usage":${runningUsage(job, choice.ids.length)}` : "";
    yield `${head}{"index":${choice.options.index},"delta":{"content":${
      JSON.stringify(delta.text)
    }},"logprobs":${scores},${finishing},"token_ids":${ids}}]${usage}${
      finish !== null && !sampling.includeUsage ? last : ""
    }}\n\n`;
  }
  release();
  if (sampling.includeUsage) {
    const counts = countTokens(collector);
    const usage = {
      prompt_tokens: counts.prompt,
      total_tokens: counts.prompt + counts.completion,
      completion_tokens: counts.completion,
      prompt_tokens_details: {
        cached_tokens: counts.cached,
        created_cache_tokens: createdCacheTokens(collector, backend, counts),
      },
    };
    yield `${head}],"usage":${JSON.stringify(usage)}${last}}\n\n`;
  }
  yield "data: [DONE]\n\n";
}

function runningUsage(job: Job, completionTokens: number): string {
  return JSON.stringify({
    prompt_tokens: job.prompt.length,
    total_tokens: job.prompt.length + completionTokens,
    completion_tokens: completionTokens,
    completion_tokens_details: null,
  });
}
