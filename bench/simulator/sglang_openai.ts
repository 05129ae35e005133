import { unixSeconds } from "../../base/clock.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { Backend } from "./backend.ts";
import { type Choice, Collector, type ScoredChoice } from "./choice.ts";
import {
  flag,
  jsonReply,
  pythonRepr,
  Refusal,
  type Reply,
  type ServedRequest,
  streamReply,
} from "./reply.ts";
import { GenerateRefusal, internalError, openaiError, refuseOpenai, refuseSchema } from "./sglang_errors.ts";
import { finishReason, isNewer, metaInfo } from "./sglang_meta.ts";
import { checkedLength, numberList, stringList } from "./sglang_request.ts";
import type { SglangRequests } from "./sglang_requests.ts";
import { promptLogprobs, type ScoredToken } from "./tokens.ts";

/** A request of either OpenAI endpoint, in common terms. */
export interface OpenaiJob {
  readonly kind: "chat" | "completions";
  readonly body: JsonObject;
  readonly created: number;
  readonly model: string;
  readonly prompts: readonly (readonly number[])[];
  readonly rids: readonly string[];
  readonly n: number;
  /** Alternatives per token; undefined: no log-probabilities. */
  readonly logprobs: number | undefined;
  readonly echo: boolean;
  readonly stream: boolean;
  readonly includeUsage: boolean;
  readonly continuousUsage: boolean;
  readonly receivedMs: number;
  readonly collector: Collector;
}

const ROLES = ["system", "assistant", "tool", "function", "developer", "latest_reminder"];
const utf8 = new TextEncoder();

/** `POST /v1/completions` of SGLang. */
export function completions(
  request: ServedRequest,
  body: JsonObject,
  backend: Backend,
  requests: SglangRequests,
): Promise<Reply> {
  const wanted = body["max_tokens"] === undefined || body["max_tokens"] === null ? 16 : body["max_tokens"];
  if (typeof wanted === "number" && wanted <= 0) {
    throw refuseSchema("/v1/completions", [
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
export function chat(
  request: ServedRequest,
  body: JsonObject,
  backend: Backend,
  requests: SglangRequests,
): Promise<Reply> {
  const messages = body["messages"] ?? null;
  if (!Array.isArray(messages)) {
    throw refuseSchema("/v1/chat/completions", [
      `{'type': 'missing', 'loc': ('body', 'messages'), 'msg': 'Field required', 'input': ${
        pythonRepr({ ...body, tool_choice: body["tool_choice"] ?? "none" })
      }}`,
    ]);
  }
  const wrong = messages.flatMap((message, i) => roleErrors(message, i));
  if (wrong.length > 0) throw refuseSchema("/v1/chat/completions", wrong);
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
  const job: OpenaiJob = {
    kind,
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
  await requests.enter(request, rids, job.stream, () => start(job, budgets, backend, requests));
  if (job.stream) {
    // The head is sent with the first token, unlike that of /generate.
    await job.collector.started();
    return streamReply(
      job.kind === "chat" ? chatEvents(job, backend, requests) : completionEvents(job, backend, requests),
    );
  }
  await job.collector.finished();
  requests.done(rids);
  return jsonReply(200, whole(job, backend));
}

function start(job: OpenaiJob, budgets: readonly number[], backend: Backend, requests: SglangRequests): void {
  const { body } = job;
  const seed = typeof body["seed"] === "number" ? body["seed"] : undefined;
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
      salt: [body["extra_key"], body["cache_salt"]].filter((key) => typeof key === "string").join("/"),
      cacheLimit: job.echo && job.logprobs !== undefined ? 0 : Infinity,
      forcedText: undefined,
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
        logprobs: completionLogprobs(job, prompt, choice.scores, true, backend),
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
      logprobs: job.logprobs === undefined ? null : chatLogprobs(choice.scores, job.logprobs, backend),
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
    usage: usageOf(collector.choices, backend),
    metadata: {
      weight_version: "default",
      ...(newer ? { weight_versions: [{ version: "default", start: 0, end: tokens }] } : {}),
    },
  };
}

async function* chatEvents(
  job: OpenaiJob,
  backend: Backend,
  requests: SglangRequests,
): AsyncGenerator<string, void, void> {
  const { collector } = job;
  const head = eventHead(job, "chat.completion.chunk", backend);
  const begun = new Set<Choice>();
  let lastRid = job.rids[0]!;
  for (let choice = await collector.next(); choice !== undefined; choice = await collector.next()) {
    const { index } = choice.options;
    lastRid = job.rids[index]!;
    if (!begun.has(choice)) {
      begun.add(choice);
      yield `${
        head(lastRid)
      }{"index":${index},"delta":{"reasoning_content":null,"role":"assistant","content":""},"logprobs":null,"finish_reason":null,"matched_stop":null}]}\n\n`;
    }
    const delta = choice.take();
    if (delta.text === "" && delta.scores.length === 0) continue;
    const scores = job.logprobs === undefined
      ? "null"
      : JSON.stringify(chatLogprobs(delta.scores, job.logprobs, backend));
    yield `${head(lastRid)}{"index":${index},"delta":{"reasoning_content":null,"content":${
      JSON.stringify(delta.text)
    }},"logprobs":${scores},"finish_reason":null,"matched_stop":null}]${
      job.continuousUsage ? `,"usage":${JSON.stringify(usageOf([choice], backend))}` : ""
    }}\n\n`;
  }
  requests.done(job.rids);
  for (const choice of collector.choices) {
    const { finish, matched } = finishOf(choice);
    yield `${
      head(lastRid)
    }{"index":${choice.options.index},"delta":{"reasoning_content":null},"logprobs":null,"finish_reason":"${finish}","matched_stop":${
      JSON.stringify(matched)
    }}]}\n\n`;
  }
  if (job.includeUsage) {
    yield `${head(lastRid)}],"usage":${JSON.stringify(usageOf(collector.choices, backend))}}\n\n`;
  }
  yield "data: [DONE]\n\n";
}

async function* completionEvents(
  job: OpenaiJob,
  backend: Backend,
  requests: SglangRequests,
): AsyncGenerator<string, void, void> {
  const { collector } = job;
  const head = eventHead(job, "text_completion", backend);
  const begun = new Set<Choice>();
  for (let choice = await collector.next(); choice !== undefined; choice = await collector.next()) {
    const { index, promptIndex } = choice.options;
    const prompt = job.prompts[promptIndex]!;
    const first = !begun.has(choice);
    begun.add(choice);
    const delta = choice.take();
    const text = (first && job.echo ? backend.tokenizer.decode(prompt) : "") + delta.text;
    const scores = JSON.stringify(completionLogprobs(job, prompt, delta.scores, first, backend));
    const { finish, matched } = finishOf(choice);
    const ids = flag(job.body, "return_token_ids") ? `,"token_ids":${JSON.stringify(delta.ids)}` : "";
    const usage = job.continuousUsage ? JSON.stringify(usageOf([choice], backend)) : "null";
    yield `${head(job.rids[index]!)}{"index":${index},"text":${
      JSON.stringify(text)
    },"logprobs":${scores},"finish_reason":${finish === null ? "null" : `"${finish}"`},"matched_stop":${
      JSON.stringify(matched)
    }${ids}}],"usage":${usage}}\n\n`;
  }
  requests.done(job.rids);
  if (job.includeUsage) {
    yield `${head(job.rids[0]!)}],"usage":${JSON.stringify(usageOf(collector.choices, backend))}}\n\n`;
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

function finishOf(choice: Choice): { finish: string | null; matched: string | number | null } {
  const reason = finishReason(choice);
  if (!isJsonObject(reason ?? null) || choice.finish === undefined) return { finish: null, matched: null };
  return {
    finish: choice.finish.type,
    matched: choice.finish.type === "stop" ? choice.finish.matched : null,
  };
}

function usageOf(choices: readonly Choice[], backend: Backend): JsonObject {
  let prompt = 0;
  let cached = 0;
  let completion = 0;
  const prompts = new Set<number>();
  for (const choice of choices) {
    completion += choice.ids.length;
    if (prompts.has(choice.options.promptIndex)) continue;
    prompts.add(choice.options.promptIndex);
    prompt += choice.sequence?.promptLength ?? 0;
    cached += choice.sequence?.cachedTokens ?? 0;
  }
  const newer = isNewer(backend.version);
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: cached > 0 || newer ? { cached_tokens: cached } : null,
    reasoning_tokens: 0,
    ...(newer ? { completion_tokens_details: null } : {}),
  };
}

function completionLogprobs(
  job: OpenaiJob,
  prompt: readonly number[],
  scores: readonly ScoredChoice[],
  first: boolean,
  backend: Backend,
): JsonObject | null {
  if (job.logprobs === undefined) return null;
  const all: { id: number; logprob: number | null; top: readonly ScoredToken[] | null }[] = [
    ...(first && job.echo ? promptLogprobs(backend.speech, prompt, 0, job.logprobs) : []),
    ...scores,
  ];
  return {
    text_offset: all.map(() => -1),
    token_logprobs: all.map(({ logprob }) => logprob),
    tokens: all.map(({ id }) => backend.tokenizer.decode([id])),
    top_logprobs: all.map(({ logprob, top }) => {
      if (logprob === null) return null;
      const named: JsonObject = {};
      for (const other of top ?? []) named[backend.tokenizer.decode([other.id])] = other.logprob;
      return named;
    }),
  };
}

function chatLogprobs(scores: readonly ScoredChoice[], count: number, backend: Backend): JsonObject {
  const entry = (id: number, logprob: number): JsonObject => {
    const token = backend.tokenizer.decode([id]);
    return { token, bytes: [...utf8.encode(token)], logprob };
  };
  return {
    content: scores.map(({ id, logprob, top }) => ({
      ...entry(id, logprob),
      top_logprobs: top.slice(0, count).map((other) => entry(other.id, other.logprob)),
    })),
  };
}

function completionPrompts(body: JsonObject, backend: Backend): number[][] {
  const prompt = body["prompt"] ?? null;
  if (typeof prompt === "string" && prompt !== "") return [backend.tokenizer.encode(prompt)];
  if (Array.isArray(prompt) && prompt.length > 0) {
    if (prompt.every((item) => typeof item === "number")) return [numberList(prompt)];
    if (prompt.every((item) => Array.isArray(item))) return prompt.map((item) => numberList(item));
    if (prompt.every((item) => typeof item === "string")) {
      return prompt.map((item) => backend.tokenizer.encode(item));
    }
  }
  throw refuseOpenai("Prompt cannot be empty");
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
