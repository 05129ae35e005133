import { type Clock, unixSeconds } from "../../base/clock.ts";
import { badRequest, CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { Random } from "../../base/random.ts";
import type { IncomingResponse, OutgoingRequest } from "../../base/transport.ts";
import { type AnswerJob, Answers } from "./answers.ts";
import type { TextTokenizer } from "./detokenizer.ts";
import { metricsText } from "./server_metrics.ts";
import { type EmbeddedWork, StreamedAnswer, wholeAnswer } from "./server_output.ts";
import {
  readDetokenize,
  readEmbeddedChat,
  readEmbeddedCompletion,
  readTokenize,
  type RequestReader,
  type TextRequest,
} from "./server_request.ts";
import type { SamplingDefaults } from "../model/model_files.ts";
import type { Generator, SequenceRequest } from "../scheduler/generator.ts";

export interface EmbeddedServerOptions {
  /** The name under which requests ask for it. */
  readonly model: string;
  readonly generator: Generator;
  readonly tokenizer: TextTokenizer;
  /** Ids that end an answer, the model's own end first. */
  readonly endIds: readonly number[];
  readonly defaults?: SamplingDefaults;
  readonly clock: Clock;
  readonly random: Random;
}

const utf8 = new TextEncoder();
const fromUtf8 = new TextDecoder();

/**
 * A generator behind vLLM's HTTP interface, without a port: requests are handed to it as the transport has them, and
 * whoever asks cannot tell the difference. A client that leaves ends its sequences.
 */
export class EmbeddedServer {
  readonly #options: EmbeddedServerOptions;
  readonly #reader: RequestReader;

  constructor(options: EmbeddedServerOptions) {
    this.#options = options;
    const { model, tokenizer, generator, defaults } = options;
    const { vocabSize, maxContextTokens } = generator.facts;
    this.#reader = { model, tokenizer, vocabSize, maxContextTokens, defaults: defaults ?? {} };
  }

  /** Answers a request; the signal aborts when its client has left. */
  handle(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    return this.#route(request, signal).catch((error: unknown) => {
      if (signal.aborted) throw error;
      return errorResponse(error);
    });
  }

  async #route(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    const { pathname } = new URL(request.url);
    const { generator, model, tokenizer } = this.#options;
    switch (`${request.method} ${pathname}`) {
      case "GET /health":
      case "GET /ping":
        return response(200, "", "text/plain");
      case "GET /v1/models":
        return json(200, this.#models());
      case "GET /metrics":
        return response(
          200,
          metricsText(model, generator.counts()),
          "text/plain; version=0.0.4; charset=utf-8",
        );
      case "POST /v1/completions":
        return await this.#generate(request, readEmbeddedCompletion(bodyOf(request), this.#reader), signal);
      case "POST /v1/chat/completions":
        return await this.#generate(request, readEmbeddedChat(bodyOf(request), this.#reader), signal);
      case "POST /tokenize": {
        const { ids, strings } = readTokenize(bodyOf(request), this.#reader);
        return json(200, {
          count: ids.length,
          max_model_len: generator.facts.maxContextTokens,
          tokens: ids,
          token_strs: strings ? ids.map((id) => tokenizer.decode([id])) : null,
        });
      }
      case "POST /detokenize":
        return json(200, { prompt: tokenizer.decode(readDetokenize(bodyOf(request), this.#reader)) });
    }
    throw new CanopyError(`The embedded engine has no ${request.method} ${pathname}`, {
      code: "not_found",
      status: 404,
    });
  }

  async #generate(
    { headers }: OutgoingRequest,
    request: TextRequest,
    signal: AbortSignal,
  ): Promise<IncomingResponse> {
    signal.throwIfAborted();
    const { generator, model, tokenizer, random, clock } = this.#options;
    const answers = new Answers(generator, this.#jobs(request));
    const leave = () => answers.stop(signal.reason);
    signal.addEventListener("abort", leave, { once: true });
    const work: EmbeddedWork = {
      id: `${request.chat ? "chatcmpl" : "cmpl"}-${headers["x-request-id"] ?? random.hex(16)}`,
      created: unixSeconds(clock),
      model,
      tokenizer,
      request,
      answers,
    };
    if (request.stream) {
      return {
        status: 200,
        headers: { "content-type": "text/event-stream; charset=utf-8" },
        body: streamed(work, () => signal.removeEventListener("abort", leave)),
      };
    }
    try {
      await answers.finished();
    } finally {
      signal.removeEventListener("abort", leave);
    }
    return json(200, wholeAnswer(work));
  }

  #jobs(request: TextRequest): AnswerJob[] {
    const { tokenizer, endIds, generator, random } = this.#options;
    const stopIds = new Set([...request.ignoreEnd ? [] : endIds, ...request.stopTokenIds]);
    const seed = request.seed === undefined ? random.hex(16) : String(request.seed);
    return request.prompts.flatMap((promptIds, promptIndex) => {
      const room = generator.facts.maxContextTokens - promptIds.length;
      const maxTokens = Math.min(request.maxTokens ?? room, room);
      if (request.minTokens > maxTokens) {
        throw badRequest(
          "min_tokens",
          `min_tokens is ${request.minTokens}, more than max_tokens=${maxTokens}`,
        );
      }
      return Array.from({ length: request.n }, (_, number): AnswerJob => {
        const sequence: SequenceRequest = {
          promptIds,
          maxTokens,
          minTokens: request.minTokens,
          sampling: { ...request.sampling, seed: number === 0 ? seed : `${seed}/${number}` },
          stopIds,
          logprobs: request.logprobs,
        };
        return {
          request: sequence,
          options: {
            index: promptIndex * request.n + number,
            promptIndex,
            promptIds,
            tokenizer,
            minTokens: request.minTokens,
            stop: request.stop,
            stopIds,
            endId: request.ignoreEnd ? undefined : endIds[0],
            includeStop: request.includeStop,
            skipSpecialTokens: request.skipSpecialTokens,
          },
        };
      });
    });
  }

  #models(): JsonObject {
    const { model, clock, generator } = this.#options;
    return {
      object: "list",
      data: [{
        id: model,
        object: "model",
        created: unixSeconds(clock),
        owned_by: "canopy",
        root: model,
        parent: null,
        max_model_len: generator.facts.maxContextTokens,
      }],
    };
  }
}

/** The bytes of a stream; whoever stops reading ends the sequences. */
async function* streamed(work: EmbeddedWork, over: () => void): AsyncGenerator<Uint8Array, void, void> {
  const { answers } = work;
  const out = new StreamedAnswer(work);
  try {
    for (let answer = await answers.next(); answer !== undefined; answer = await answers.next()) {
      if (answer.failure !== undefined) {
        yield utf8.encode(`data: ${JSON.stringify(errorBody(answer.failure))}\n\ndata: [DONE]\n\n`);
        return;
      }
      yield utf8.encode(out.events(answer));
    }
    yield utf8.encode(out.end());
  } finally {
    over();
    answers.stop(new Error("The client has stopped reading"));
  }
}

function bodyOf({ body }: OutgoingRequest): JsonObject {
  const text = body === undefined ? "" : typeof body === "string" ? body : fromUtf8.decode(body);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw badRequest(undefined, `The body is not JSON: ${messageOf(error)}`, "invalid_json");
  }
  if (isJsonObject(value)) return value;
  throw badRequest(undefined, "The body must be a JSON object", "invalid_json");
}

function json(status: number, body: Json): IncomingResponse {
  return response(status, JSON.stringify(body), "application/json");
}

function response(status: number, text: string, type: string): IncomingResponse {
  const bytes = utf8.encode(text);
  async function* body(): AsyncGenerator<Uint8Array, void, void> {
    await Promise.resolve();
    if (bytes.length > 0) yield bytes;
  }
  return {
    status,
    headers: { "content-type": type, "content-length": String(bytes.length) },
    body: body(),
  };
}

function errorResponse(error: unknown): IncomingResponse {
  return json(CanopyError.is(error) ? error.status : 500, errorBody(error));
}

/** OpenAI's error body. */
function errorBody(error: unknown): JsonObject {
  const known = CanopyError.is(error)
    ? error
    : new CanopyError(`The embedded engine failed: ${messageOf(error)}`, {
      code: "engine_failed",
      status: 500,
    });
  return {
    error: {
      message: known.message,
      type: known.type,
      param: known.param ?? null,
      code: known.code,
    },
  };
}
