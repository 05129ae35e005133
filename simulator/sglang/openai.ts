import { unixSeconds } from "../../base/clock.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { Collector } from "../engine/choice.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import type { Backend } from "../server/backend.ts";
import {
  flag,
  jsonReply,
  pythonRepr,
  Refusal,
  type Reply,
  type ServedRequest,
  streamReply,
} from "../server/reply.ts";
import { meetingPlaces } from "./bootstrap.ts";
import {
  GenerateRefusal,
  internalError,
  openaiError,
  openaiFailure,
  refuseOpenai,
  refuseSglangSchema,
} from "./errors.ts";
import { breaksOnTopLogprobs, killsScheduler } from "./fatal.ts";
import { dpRankOf, saltOf } from "./ranks.ts";
import { isNewer, metaInfo } from "./meta.ts";
import { chatEvents, completionEvents } from "./openai_stream.ts";
import {
  finishOf,
  type OpenaiJob,
  sglangChatLogprobs,
  sglangCompletionLogprobs,
  sglangUsage,
} from "./output.ts";
import { checkedLength, literalOf, numberList, stringList } from "./request.ts";
import type { SglangRequests } from "./requests.ts";

const ROLES = ["system", "assistant", "tool", "function", "developer", "latest_reminder"];

/** `POST /v1/completions` of SGLang. */
export function sglangCompletions(
  request: ServedRequest,
  body: JsonObject,
  backend: Backend,
  requests: SglangRequests,
): Promise<Reply> {
  const wanted = body["max_tokens"] === undefined || body["max_tokens"] === null ? 16 : body["max_tokens"];
  if (typeof wanted === "number" && wanted <= 0) {
    throw refuseSglangSchema("/v1/completions", [
      `{'type': 'value_error', 'loc': ('body', 'max_tokens'), 'msg': 'Value error, max_tokens must be positive', 'input': ${
        pythonRepr(wanted)
      }, 'ctx': {'error': ValueError('max_tokens must be positive')}}`,
    ]);
  }
  const logprobs = typeof body["logprobs"] === "number" ? body["logprobs"] : undefined;
  return serve(
    request,
    "completions",
    body,
    completionPrompts(body, backend),
    wanted,
    logprobs,
    backend,
    requests,
  );
}

/** `POST /v1/chat/completions` of SGLang. */
export function sglangChat(
  request: ServedRequest,
  body: JsonObject,
  backend: Backend,
  requests: SglangRequests,
): Promise<Reply> {
  const messages = body["messages"] ?? null;
  if (!Array.isArray(messages)) {
    throw refuseSglangSchema("/v1/chat/completions", [
      `{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': ${
        pythonRepr({ ...body, tool_choice: body["tool_choice"] ?? "none" })
      }}`,
    ]);
  }
  const wrong = messages.flatMap((message, i) => roleErrors(message, i));
  if (wrong.length > 0) throw refuseSglangSchema("/v1/chat/completions", wrong);
  if (messages.length === 0) throw refuseOpenai("Messages cannot be empty.");
  const ids = body["input_ids"];
  const prompt = Array.isArray(ids)
    ? numberList(ids)
    : backend.tokenizer.encode(backend.renderChat(messages, body));
  const wanted = body["max_completion_tokens"] ?? body["max_tokens"] ?? null;
  const top = body["top_logprobs"];
  const logprobs = flag(body, "logprobs") ? (typeof top === "number" ? top : 0) : undefined;
  return serve(request, "chat", body, [prompt], wanted, logprobs, backend, requests);
}

async function serve(
  request: ServedRequest,
  kind: "chat" | "completions",
  body: JsonObject,
  prompts: readonly (readonly number[])[],
  wanted: Json,
  logprobs: number | undefined,
  backend: Backend,
  requests: SglangRequests,
): Promise<Reply> {
  const n = typeof body["n"] === "number" ? body["n"] : 1;
  const streamOptions = isJsonObject(body["stream_options"]) ? body["stream_options"] : {};
  const own = typeof body["rid"] === "string" && body["rid"] !== "" ? body["rid"] : undefined;
  const rids = prompts.flatMap((_, p) =>
    Array.from({ length: n }, (_, i) => {
      const base = own === undefined ? backend.randomHex(32) : prompts.length > 1 ? `${own}_${p}` : own;
      return own === undefined || i === 0 ? base : `${base}_${i}`;
    })
  );
  const dpRank = dpRankOf(body, backend);
  if (typeof dpRank === "string") throw refuseOpenai(dpRank);
  const job: OpenaiJob = {
    kind,
    dpRank,
    body,
    created: unixSeconds(backend.options.clock),
    model: typeof body["model"] === "string" ? body["model"] : backend.model,
    prompts,
    rids,
    n,
    logprobs,
    echo: flag(body, "echo"),
    stream: flag(body, "stream"),
    includeUsage: flag(streamOptions, "include_usage"),
    continuousUsage: flag(streamOptions, "continuous_usage_stats"),
    receivedMs: backend.options.clock.now(),
    collector: new Collector(),
  };
  let budgets: readonly number[];
  try {
    requests.checkFree(rids);
    const maxTokens = typeof wanted === "number" ? wanted : undefined;
    budgets = prompts.map((prompt) => checkedLength(prompt.length, maxTokens, backend));
  } catch (error) {
    if (!(error instanceof GenerateRefusal)) throw error;
    throw new Refusal(error.detail === undefined ? internalError() : openaiError(400, error.detail));
  }
  if (backend.full) {
    throw new Refusal(openaiError(503, "The request queue is full.", "ServiceUnavailableError"));
  }
  if (killsScheduler(prompts, backend)) return backend.die();
  await requests.enter(request, rids, job.stream, () => start(job, budgets, backend, requests));
  if (job.stream) {
    // From 0.5.10 on the head is sent with the first token, unlike that of /generate.
    if (versionNumber(backend.version) >= SGLANG.errorEvents) await job.collector.started();
    return streamReply(
      job.kind === "chat" ? chatEvents(job, backend, requests) : completionEvents(job, backend, requests),
    );
  }
  await job.collector.finished();
  requests.done(rids);
  if ((logprobs ?? 0) > 0 && breaksOnTopLogprobs(backend)) {
    return kind === "chat" ? backend.die() : internalError();
  }
  return openaiFailure(job.collector.choices) ?? jsonReply(200, whole(job, backend));
}

function start(job: OpenaiJob, budgets: readonly number[], backend: Backend, requests: SglangRequests): void {
  const { body } = job;
  const seed = typeof body["seed"] === "number" ? body["seed"] : undefined;
  const places = meetingPlaces(body, job.prompts.length);
  for (const [index, rid] of job.rids.entries()) {
    const promptIndex = Math.floor(index / job.n);
    const sample = index % job.n;
    requests.start(rid, job.collector, {
      index,
      promptIndex,
      prompt: job.prompts[promptIndex]!,
      maxTokens: budgets[promptIndex]!,
      minTokens: typeof body["min_tokens"] === "number" ? body["min_tokens"] : 0,
      temperature: typeof body["temperature"] === "number" ? body["temperature"] : undefined,
      model: backend.model,
      seed: sample === 0 ? seed : (seed ?? 0) + 7919 * sample,
      stop: stringList(body["stop"] ?? null),
      stopTokenIds: numberList(body["stop_token_ids"] ?? null),
      ignoreEnd: flag(body, "ignore_eos"),
      skipSpecialTokens: body["skip_special_tokens"] !== false,
      includeStop: flag(body, "no_stop_trim"),
      holdBack: false,
      logprobs: job.logprobs,
      logitBias: isJsonObject(body["logit_bias"]) ? body["logit_bias"] : undefined,
      salt: saltOf(body, job.dpRank),
      cacheLimit: job.echo && job.logprobs !== undefined ? 0 : Infinity,
      forcedText: literalOf(body["regex"] ?? null),
      bootstrap: { ...places[promptIndex]!, rid, sample, samples: job.n },
    });
  }
}

function whole(job: OpenaiJob, backend: Backend): JsonObject {
  const { body, collector } = job;
  const newer = isNewer(backend.version);
  const withIds = flag(body, "return_token_ids");
  const withPrompt = flag(body, "return_prompt_token_ids");
  const choices = collector.choices.map((choice, i) => {
    const { finish, matched } = finishOf(choice);
    const prompt = job.prompts[choice.options.promptIndex]!;
    const end = { finish_reason: finish, matched_stop: matched };
    if (job.kind === "completions") {
      return {
        index: i,
        text: (job.echo ? backend.tokenizer.decode(prompt) : "") + choice.text,
        logprobs: sglangCompletionLogprobs(job, prompt, choice.scores, true, backend),
        ...end,
        ...(withIds ? { token_ids: [...choice.ids] } : {}),
        ...(withPrompt ? { prompt_token_ids: [...prompt] } : {}),
      };
    }
    const sent = { stream: false, first: true, sentMs: backend.options.clock.now() };
    const times = { receivedMs: job.receivedMs, dispatchedMs: job.receivedMs };
    return {
      index: i,
      message: {
        role: "assistant",
        content: choice.text,
        reasoning_content: null,
        ...(newer ? {} : { tool_calls: null }),
      },
      logprobs: job.logprobs === undefined ? null : sglangChatLogprobs(choice.scores, job.logprobs, backend),
      ...end,
      ...(withPrompt ? { prompt_token_ids: [...prompt] } : {}),
      ...(withIds ? { response_token_ids: [...choice.ids] } : {}),
      ...(flag(body, "return_meta_info")
        ? { meta_info: metaInfo(job.rids[i]!, choice, prompt, times, undefined, sent, backend) }
        : {}),
    };
  });
  const tokens = collector.choices[0]?.ids.length ?? 0;
  return {
    id: job.rids[0] ?? "",
    object: job.kind === "chat" ? "chat.completion" : "text_completion",
    created: job.created,
    model: job.model,
    choices,
    usage: sglangUsage(collector.choices, backend),
    metadata: {
      weight_version: "default",
      ...(newer ? { weight_versions: [{ version: "default", start: 0, end: tokens }] } : {}),
    },
  };
}

function completionPrompts(body: JsonObject, backend: Backend): number[][] {
  const prompt = body["prompt"] ?? null;
  if (typeof prompt === "string" && prompt !== "") return [backend.tokenizer.encode(prompt)];
  if (Array.isArray(prompt) && prompt.length > 0) {
    if (prompt.every((item) => typeof item === "number")) return [numberList(prompt)];
    if (prompt.every((item) => Array.isArray(item))) {
      prompt.forEach((item, index) => checkIds(item, index));
      return prompt.map((item) => numberList(item));
    }
    if (prompt.every((item) => typeof item === "string")) {
      if (prompt.includes("")) {
        throw refuseOpenai("texts cannot be empty and tokenizer must be initialized");
      }
      return prompt.map((item) => backend.tokenizer.encode(item));
    }
  }
  throw refuseOpenai("Prompt cannot be empty");
}

/** Throws the schema's 400 for a list that does not hold token ids. */
function checkIds(ids: readonly Json[], index: number): void {
  const at = ids.findIndex((id) => !Number.isInteger(id));
  if (at < 0) return;
  throw refuseSglangSchema("/v1/completions", [
    `{'type': 'int_type', 'loc': ('body', 'prompt', 'list[list[int]]', ${index}, ${at}), 'msg': 'Input should be a valid integer', 'input': ${
      pythonRepr(ids[at] ?? null)
    }}`,
  ]);
}

function roleErrors(message: Json, index: number): string[] {
  const role = isJsonObject(message) ? message["role"] ?? null : null;
  if (role === "user" || (typeof role === "string" && ROLES.includes(role.toLowerCase()))) return [];
  const generic = "function-after[validate_thinking_parts_role(), ChatCompletionMessageGenericParam]";
  const user = "function-after[validate_thinking_parts_role(), ChatCompletionMessageUserParam]";
  const allowed = `'role' must be one of ${ROLES.map((name) => `'${name}'`).join(", ")} (case-insensitive).`;
  return [
    `{'type': 'value_error', 'loc': ('body', 'messages', ${index}, '${generic}', 'role'), 'msg': "Value error, ${allowed}", 'input': ${
      pythonRepr(role)
    }, 'ctx': {'error': ValueError("${allowed}")}}`,
    `{'type': 'literal_error', 'loc': ('body', 'messages', ${index}, '${user}', 'role'), 'msg': "Input should be 'user'", 'input': ${
      pythonRepr(role)
    }, 'ctx': {'expected': "'user'"}}`,
  ];
}
