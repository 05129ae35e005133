import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import { type Choice, Collector } from "../engine/choice.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import type { Backend } from "../server/backend.ts";
import {
  type Events,
  flag,
  jsonReply,
  type Reply,
  type ServedRequest,
  streamReply,
} from "../server/reply.ts";
import { meetingPlaces } from "./bootstrap.ts";
import { failureEvents, generateError, generateFailure, GenerateRefusal, internalError } from "./errors.ts";
import { StreamedEvents } from "./events.ts";
import { breaksOnTopLogprobs, killsScheduler } from "./fatal.ts";
import { streamsIncrementally } from "./info.ts";
import { dpRankOf, saltOf } from "./ranks.ts";
import { isNewer, type LogprobRequest, metaInfo, type RequestTimes } from "./meta.ts";
import { checkedLength, checkGenerateSchema, numberList, samplingParams } from "./request.ts";
import type { SglangRequests } from "./requests.ts";

/** Tokens of the prompt that the detokeniser of old versions looks back at. */
const LOOK_BACK_TOKENS = 5;

/** One item of a batch, expanded to its samples. */
interface Item {
  readonly rid: string;
  readonly prompt: readonly number[];
  readonly promptIndex: number;
  readonly start: (collector: Collector, index: number) => Choice;
}

interface Job {
  readonly dpRank: number | undefined;
  readonly items: readonly Item[];
  /** The answer is a list: a batch, or several samples. */
  readonly list: boolean;
  readonly logprobs: LogprobRequest | undefined;
  readonly promptIds: boolean;
  readonly times: RequestTimes;
  readonly collector: Collector;
}

/** `POST /generate`. Requests that make a real server hang or die leave this promise pending. */
export async function generate(
  request: ServedRequest,
  body: JsonObject,
  backend: Backend,
  requests: SglangRequests,
): Promise<Reply> {
  checkGenerateSchema(body, backend.version);
  const session = sessionOf(body);
  if (session !== undefined && backend.pd?.role === "decode" && !isNewer(backend.version)) {
    return backend.die();
  }
  const stream = flag(body, "stream");
  const receivedMs = backend.options.clock.now();
  let job: Job;
  try {
    if (session !== undefined && isNewer(backend.version)) {
      throw new GenerateRefusal(`Invalid request: session id ${session} does not exist`);
    }
    job = plan(body, backend, requests, receivedMs);
  } catch (error) {
    if (!(error instanceof GenerateRefusal)) throw error;
    return refusal(error, stream);
  }
  if (killsScheduler(job.items.map(({ prompt }) => prompt), backend)) return backend.die();
  if (backend.full) {
    return generateError(503, "The request queue is full.");
  }
  const rids = job.items.map(({ rid }) => rid);
  const started = requests.enter(request, rids, stream, () => {
    for (const [index, item] of job.items.entries()) item.start(job.collector, index);
  });
  if (stream) return streamReply(events(job, started, backend, requests));
  await started;
  await job.collector.finished();
  requests.done(rids);
  if ((job.logprobs?.top ?? 0) > 0 && breaksOnTopLogprobs(backend)) return backend.die();
  const failed = generateFailure(job.collector.choices);
  if (failed !== undefined) return failed;
  const answers = job.items.map((item, i) => answer(job, item, job.collector.choices[i]!, backend));
  return jsonReply(200, job.list ? answers : answers[0] ?? null);
}

function plan(body: JsonObject, backend: Backend, requests: SglangRequests, receivedMs: number): Job {
  const { prompts, batch } = promptsOf(body, backend);
  const given = body["sampling_params"] ?? {};
  const withLogprobs = flag(body, "return_logprob");
  const start = typeof body["logprob_start_len"] === "number" ? body["logprob_start_len"] : -1;
  const top = typeof body["top_logprobs_num"] === "number" ? body["top_logprobs_num"] : 0;
  const dpRank = dpRankOf(body, backend);
  if (typeof dpRank === "string") throw new GenerateRefusal(dpRank);
  const salt = saltOf(body, dpRank);
  const session = sessionOf(body) !== undefined;
  const places = meetingPlaces(body, prompts.length);
  const items: Item[] = [];
  let samples = 1;
  for (const [promptIndex, prompt] of prompts.entries()) {
    const params = Array.isArray(given) ? given[promptIndex] ?? {} : given;
    const sampling = samplingParams(isJsonObject(params) ? params : {}, backend.version);
    samples = Math.max(samples, sampling.n);
    const maxTokens = checkedLength(prompt.length, sampling.maxTokens, backend);
    const own = ridOf(body["rid"] ?? null, promptIndex, batch) ?? backend.randomHex(32);
    for (let i = 0; i < sampling.n; i++) {
      const rid = i === 0 ? own : `${own}_${i}`;
      items.push({
        rid,
        prompt,
        promptIndex,
        start: (collector, index) =>
          requests.start(rid, collector, {
            ...sampling,
            index,
            promptIndex,
            prompt,
            maxTokens,
            model: backend.model,
            seed: i === 0 ? sampling.seed : (sampling.seed ?? 0) + 7919 * i,
            salt,
            holdBack: false,
            logprobs: withLogprobs ? top : undefined,
            cacheLimit: withLogprobs && start >= 0 ? start : Infinity,
            bootstrap: { ...places[promptIndex]!, rid, sample: i, samples: sampling.n, session },
          }),
      });
    }
  }
  requests.checkFree(items.map(({ rid }) => rid));
  return {
    items,
    dpRank,
    list: batch || samples > 1,
    logprobs: withLogprobs
      ? {
        start,
        top,
        tokenIds: Array.isArray(body["token_ids_logprob"])
          ? numberList(body["token_ids_logprob"])
          : undefined,
        text: flag(body, "return_text_in_logprobs"),
      }
      : undefined,
    promptIds: flag(body, "return_prompt_token_ids"),
    times: { receivedMs, dispatchedMs: receivedMs },
    collector: new Collector(),
  };
}

/** The session that a request wants to continue; no server here has any. */
function sessionOf(body: JsonObject): string | undefined {
  const { session_params: session } = body;
  return isJsonObject(session ?? null) && isJsonObject(session) ? String(session["id"] ?? "") : undefined;
}

function promptsOf(body: JsonObject, backend: Backend): { prompts: number[][]; batch: boolean } {
  const ids = body["input_ids"] ?? null;
  if (Array.isArray(ids)) {
    if (ids.length === 0 || ids.some((one) => Array.isArray(one) && one.length === 0)) {
      throw new GenerateRefusal("input_ids cannot be empty.");
    }
    if (ids.every((id) => Array.isArray(id))) {
      return { prompts: ids.map((id) => numberList(id)), batch: true };
    }
    return { prompts: [numberList(ids)], batch: false };
  }
  const text = body["text"] ?? null;
  if (text === "" || (Array.isArray(text) && text.includes(""))) {
    throw new GenerateRefusal("texts cannot be empty and tokenizer must be initialized");
  }
  if (typeof text === "string") return { prompts: [backend.tokenizer.encode(text)], batch: false };
  if (Array.isArray(text) && text.length > 0) {
    return { prompts: text.map((item) => backend.tokenizer.encode(String(item))), batch: true };
  }
  throw new GenerateRefusal("Either text, input_ids or input_embeds should be provided.");
}

function ridOf(rid: Json, index: number, batch: boolean): string | undefined {
  if (Array.isArray(rid)) return typeof rid[index] === "string" ? rid[index] : undefined;
  if (typeof rid !== "string" || rid === "") return undefined;
  return batch ? `${rid}_${index}` : rid;
}

function refusal(error: GenerateRefusal, stream: boolean): Reply {
  if (!stream) {
    return error.detail === undefined ? internalError() : generateError(400, error.detail);
  }
  const { detail } = error;
  return streamReply((async function* () {
    await Promise.resolve();
    // An exception ends a stream without any event.
    if (detail === undefined) return;
    const body = { error: { message: detail, type: "invalid_request_error", code: 400, retryable: false } };
    yield `data: ${JSON.stringify(body)}\n\n`;
    yield "data: [DONE]\n\n";
  })());
}

function answer(job: Job, item: Item, choice: Choice, backend: Backend): JsonObject {
  const sent = { stream: false, first: true, sentMs: backend.options.clock.now(), dpRank: job.dpRank };
  return {
    text: choice.text,
    output_ids: [...lookBackIds(item.prompt, backend) ?? [], ...choice.ids],
    meta_info: metaInfo(item.rid, choice, item.prompt, job.times, job.logprobs, sent, backend),
    ...(job.promptIds ? { prompt_token_ids: [...item.prompt] } : {}),
  };
}

/** The last tokens of the prompt, which versions before 0.5.6 show in front of the answer's. */
function lookBackIds(prompt: readonly number[], backend: Backend): readonly number[] | undefined {
  return versionNumber(backend.version) < SGLANG.cumulativeIds ? prompt.slice(-LOOK_BACK_TOKENS) : undefined;
}

async function* events(
  job: Job,
  started: Promise<void>,
  backend: Backend,
  requests: SglangRequests,
): Events {
  const { collector } = job;
  await started;
  if ((job.logprobs?.top ?? 0) > 0 && breaksOnTopLogprobs(backend)) return void await backend.die();
  const growing = new Map<Choice, StreamedEvents>();
  for (let choice = await collector.next(); choice !== undefined; choice = await collector.next()) {
    const item = job.items[choice.options.index]!;
    const failure = failureEvents(choice, "generate", backend.version);
    if (failure !== undefined) {
      requests.done(job.items.map(({ rid }) => rid));
      yield* failure;
      return;
    }
    let answer = growing.get(choice);
    if (answer === undefined) {
      const tail = (job.promptIds ? `,"prompt_token_ids":${JSON.stringify(item.prompt)}` : "") +
        (job.list ? `,"index":${choice.options.index}` : "");
      const { clock } = backend.options;
      const sentMs = clock.now();
      const repeats = {
        incremental: streamsIncrementally(backend),
        lookBack: lookBackIds(item.prompt, backend),
      };
      answer = new StreamedEvents(choice, tail, job.logprobs === undefined, repeats, (first) => {
        const sent = { stream: true, first, sentMs, dpRank: job.dpRank };
        return JSON.stringify(
          metaInfo(item.rid, choice!, item.prompt, job.times, job.logprobs, sent, backend),
        );
      });
      growing.set(choice, answer);
    }
    yield answer.next();
    if (choice.finish !== undefined) requests.done([item.rid]);
  }
  yield "data: [DONE]\n\n";
}
