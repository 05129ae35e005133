import { unixSeconds } from "../../base/clock.ts";
import type { Json, JsonObject } from "../../base/json.ts";
import { type Choice, Collector } from "../engine/choice.ts";
import type { Backend } from "../server/backend.ts";
import { flag, jsonReply, type Reply, type ServedRequest, streamReply } from "../server/reply.ts";
import { promptLogprobs, type ScoredToken } from "../text/tokens.ts";
import { brokenStream, failed } from "./errors.ts";
import {
  countTokens,
  fingerprint,
  finishFields,
  isDue,
  tokenName,
  vllmCompletionLogprobs,
} from "./output.ts";
import {
  checkedPrompt,
  integer,
  modelOf,
  outputBudget,
  promptsOf,
  requestedTransfer,
  type VllmSampling,
  vllmSampling,
} from "./request.ts";
import type { VllmRequests } from "./requests.ts";

interface Job {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly sampling: VllmSampling;
  readonly prompts: readonly (readonly number[])[];
  readonly echo: boolean;
  /** `max_tokens: 0` with `echo`: one token is made and not shown. */
  readonly echoOnly: boolean;
  readonly logprobs: number | undefined;
  readonly promptLogprobs: number | undefined;
  readonly collector: Collector;
}

/** `POST /v1/completions` of vLLM. */
export async function vllmCompletions(
  request: ServedRequest,
  body: JsonObject,
  backend: Backend,
  requests: VllmRequests,
): Promise<Reply> {
  const model = modelOf(body, backend);
  const sampling = vllmSampling(body);
  const echo = flag(body, "echo");
  const logprobs = integer(body, "logprobs");
  const echoOnly = echo && sampling.maxTokens === 0;
  const wanted = echoOnly ? 1 : sampling.maxTokens ?? 16;
  const prompts = promptsOf(body, backend).map(({ ids, fromText }) =>
    checkedPrompt(ids, fromText, sampling, backend)
  );
  const budgets = prompts.map((ids) => outputBudget(sampling, wanted, ids.length, logprobs, backend));
  const job: Job = {
    id: `cmpl-${requests.idOf(request, body)}`,
    created: unixSeconds(backend.options.clock),
    model,
    sampling,
    prompts,
    echo,
    echoOnly,
    logprobs,
    promptLogprobs: integer(body, "prompt_logprobs") ?? (echo ? logprobs : undefined),
    collector: new Collector(),
  };
  const release = await requests.enter(request, job.id, job.collector);
  for (const [promptIndex, prompt] of prompts.entries()) {
    for (let i = 0; i < sampling.n; i++) {
      backend.start(job.collector, {
        ...sampling,
        index: promptIndex * sampling.n + i,
        promptIndex,
        prompt,
        model,
        seed: i === 0 ? sampling.seed : (sampling.seed ?? 0) + 7919 * i,
        maxTokens: budgets[promptIndex]!,
        holdBack: true,
        logprobs,
        transfer: requestedTransfer(body, job.id),
        cacheLimit: (echo && logprobs !== undefined) || job.promptLogprobs !== undefined ? 0 : Infinity,
      });
    }
  }
  if (sampling.stream) return streamReply(stream(job, backend, release));
  await job.collector.finished();
  release();
  return failed(job.collector) ?? jsonReply(200, whole(job, backend));
}

function whole(job: Job, backend: Backend): JsonObject {
  const { sampling, collector } = job;
  const counts = countTokens(collector);
  return {
    id: job.id,
    object: "text_completion",
    created: job.created,
    model: job.model,
    choices: collector.choices.map((choice) => {
      const prompt = job.prompts[choice.options.promptIndex]!;
      const { finish, stop } = finishFields(choice);
      const echoed = job.echo ? backend.tokenizer.decode(prompt) : "";
      return {
        index: choice.options.index,
        text: echoed + (job.echoOnly ? "" : choice.text),
        logprobs: logprobsOf(job, choice, choice.scores, true, backend),
        finish_reason: finish,
        stop_reason: stop,
        token_ids: sampling.returnTokenIds ? [...choice.ids] : null,
        prompt_logprobs: promptLogprobList(job, prompt, backend),
        prompt_token_ids: sampling.returnTokenIds ? [...prompt] : null,
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
        created_cache_tokens: null,
        multimodal_tokens: null,
      },
      completion_tokens_details: null,
    },
    kv_transfer_params: backend.kv?.paramsOf(collector.choices[0]) ?? null,
    ec_transfer_params: null,
    metrics: null,
  };
}

async function* stream(job: Job, backend: Backend, release: () => void): AsyncGenerator<string, void, void> {
  const { sampling, collector } = job;
  const head = `data: {"id":${
    JSON.stringify(job.id)
  },"object":"text_completion","created":${job.created},"model":${JSON.stringify(job.model)},"choices":[`;
  const last = `,"system_fingerprint":${JSON.stringify(fingerprint(backend))}`;
  const seen = new Map<Choice, { ids: number; characters: number }>();
  for (let choice = await collector.next(); choice !== undefined; choice = await collector.next()) {
    const broken = brokenStream(choice);
    if (broken !== undefined) {
      release();
      yield broken;
      return;
    }
    const before = seen.get(choice);
    if (!isDue(choice, before?.ids ?? 0, sampling)) continue;
    const delta = choice.take();
    const prompt = job.prompts[choice.options.promptIndex]!;
    const first = before === undefined;
    const echoed = first && job.echo ? backend.tokenizer.decode(prompt) : "";
    const text = echoed + (job.echoOnly ? "" : delta.text);
    const { finish, stop } = finishFields(choice);
    const scores = logprobsOf(job, choice, delta.scores, first, backend, before?.characters ?? 0);
    seen.set(choice, { ids: choice.ids.length, characters: (before?.characters ?? 0) + nameLength(scores) });
    const promptIds = first && (sampling.returnTokenIds || job.echo) ? JSON.stringify(prompt) : "null";
    const ids = sampling.returnTokenIds ? JSON.stringify(delta.ids) : "null";
    const shown = scores === null ? "null" : JSON.stringify(scores);
    const finishing = finish === null
      ? `"finish_reason":null,"stop_reason":null`
      : `"finish_reason":"${finish}","stop_reason":${JSON.stringify(stop)}`;
    const usage = sampling.continuousUsage ? `,"usage":${JSON.stringify(runningUsage(choice))}` : "";
    yield `${head}{"index":${choice.options.index},"text":${
      JSON.stringify(text)
    },"logprobs":${shown},${finishing},"prompt_token_ids":${promptIds},"token_ids":${ids}}]${usage}${
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
      prompt_tokens_details: { cached_tokens: counts.cached },
    };
    yield `${head}],"usage":${JSON.stringify(usage)}${last}}\n\n`;
  }
  yield "data: [DONE]\n\n";
}

function runningUsage(choice: Choice): JsonObject {
  const prompt = choice.sequence?.promptLength ?? 0;
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + choice.ids.length,
    completion_tokens: choice.ids.length,
  };
}

function logprobsOf(
  job: Job,
  choice: Choice,
  scores: readonly { id: number; logprob: number | null; top: readonly ScoredToken[] | null }[],
  first: boolean,
  backend: Backend,
  offset = 0,
): JsonObject | null {
  if (job.logprobs === undefined) return null;
  const prompt = first && job.echo
    ? promptLogprobs(backend.speech, job.prompts[choice.options.promptIndex]!, 0, job.logprobs)
    : [];
  const answer = job.echoOnly ? [] : scores;
  return vllmCompletionLogprobs([...prompt, ...answer], offset, backend, job.sampling.tokensAsIds);
}

function nameLength(scores: JsonObject | null): number {
  const tokens = scores?.["tokens"];
  if (!Array.isArray(tokens)) return 0;
  return tokens.reduce((sum: number, token) => sum + (typeof token === "string" ? token.length : 0), 0);
}

function promptLogprobList(job: Job, prompt: readonly number[], backend: Backend): Json {
  if (job.promptLogprobs === undefined) return null;
  return promptLogprobs(backend.speech, prompt, 0, job.promptLogprobs).map(({ id, logprob, top }) => {
    if (logprob === null) return null;
    const entries: JsonObject = {
      [id]: { logprob, rank: 1000, decoded_token: tokenName(id, backend, false) },
    };
    for (const [rank, other] of (top ?? []).entries()) {
      entries[other.id] ??= {
        logprob: other.logprob,
        rank: rank + 1,
        decoded_token: tokenName(other.id, backend, false),
      };
    }
    return entries;
  });
}
