import { type Clock, unixSeconds } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Random } from "../../base/random.ts";
import type { IncomingResponse, OutgoingRequest } from "../../base/transport.ts";
import { Answers } from "./answers.ts";
import { metricsText } from "./metrics.ts";
import {
  type GenerationPlan,
  readChatJobs,
  readCompletionJobs,
  readDetokenize,
  readTokenize,
  type RequestTarget,
} from "./read_request.ts";
import type { SamplingDefaults } from "../model/model_files.ts";
import type { Generator } from "../scheduler/generator.ts";
import type { ModelTokenizer } from "../../ml/tokenizers/model_tokenizer.ts";
import { textOfIds } from "../../ml/tokenizers/tokenise.ts";
import { parseBody } from "../../router/http/gate/body.ts";
import { asCanopyError } from "../../router/http/gate/errors.ts";
import { errorBody } from "../../router/wire/error_form.ts";
import type { AnswerWriter, EngineFields } from "../../router/http/openai/answer/answer.ts";
import { ChatAnswer } from "../../router/http/openai/answer/chat_answer.ts";
import { CompletionAnswer } from "../../router/http/openai/answer/completion_answer.ts";
import { usageBody } from "../../router/http/openai/run_body.ts";
import { DONE_EVENT, sseEvent } from "../../router/wire/sse.ts";

/** Options of an embedded server. */
export interface EmbeddedServerOptions {
  /** The name under which requests ask for it. */
  readonly model: string;
  readonly generator: Generator;
  readonly tokenizer: ModelTokenizer;
  /** Ids that end an answer, the model's own end first. */
  readonly endIds: readonly number[];
  readonly defaults?: SamplingDefaults | undefined;
  readonly clock: Clock;
  readonly random: Random;
}

const utf8 = new TextEncoder();

/**
 * A generator behind vLLM's HTTP interface, without a port: requests are handed to it as the transport has them, and
 * its client cannot tell the difference. A client that leaves ends its sequences.
 */
export class EmbeddedServer {
  readonly #options: EmbeddedServerOptions;
  readonly #target: RequestTarget;

  constructor(options: EmbeddedServerOptions) {
    this.#options = options;
    const { model, tokenizer, generator: { facts }, endIds, defaults = {}, random, clock } = options;
    this.#target = { model, tokenizer, facts, endIds, defaults, newSeed: () => random.hex(16), clock };
  }

  /** Answers a request; the signal aborts when its client has left. */
  async handle(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    try {
      return await this.#route(request, signal);
    } catch (error) {
      if (signal.aborted) throw error;
      const known = asCanopyError(error);
      return respond(JSON.stringify(errorBody(known)), { status: known.status });
    }
  }

  async #route(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    const { pathname } = new URL(request.url);
    const { generator, model, tokenizer, clock } = this.#options;
    const body = () => parseBody(request.body ?? "", { clock, signal });
    switch (`${request.method} ${pathname}`) {
      case "GET /health":
      case "GET /ping":
        return respond("", { type: "text/plain" });
      case "GET /v1/models":
        return json(this.#models());
      case "GET /metrics":
        return respond(metricsText(model, generator.counts()), {
          type: "text/plain; version=0.0.4; charset=utf-8",
        });
      case "POST /v1/completions":
        return await this.#generate(
          request,
          await readCompletionJobs(await body(), this.#target, signal),
          signal,
        );
      case "POST /v1/chat/completions":
        return await this.#generate(request, await readChatJobs(await body(), this.#target, signal), signal);
      case "POST /tokenize": {
        const { ids, strings } = await readTokenize(await body(), this.#target, signal);
        return json({
          count: ids.length,
          max_model_len: generator.facts.maxContextTokens,
          tokens: [...ids],
          token_strs: strings ? ids.map((id) => tokenizer.decode([id])) : null,
        });
      }
      case "POST /detokenize":
        return json({
          prompt: await textOfIds(readDetokenize(await body(), this.#target), tokenizer, signal),
        });
    }
    throw new CanopyError(`The embedded engine has no ${request.method} ${pathname}`, {
      code: "not_found",
      status: 404,
    });
  }

  async #generate(
    { headers }: OutgoingRequest,
    plan: GenerationPlan,
    signal: AbortSignal,
  ): Promise<IncomingResponse> {
    signal.throwIfAborted();
    const writer = this.#writer(plan, headers["x-request-id"]);
    const answers = new Answers(this.#options.generator, plan.jobs, signal);
    if (plan.stream) {
      return {
        status: 200,
        headers: { "content-type": "text/event-stream; charset=utf-8" },
        body: streamed(answers, plan, writer, signal),
      };
    }
    for await (const event of answers.events()) writer.add(event);
    return json(writer.whole({ usage: usageOf(answers, plan) }));
  }

  #writer(
    { chat, jobs, logprobs, echo, returnTokenIds }: GenerationPlan,
    id: string | undefined,
  ): AnswerWriter {
    const { model, clock, random, tokenizer } = this.#options;
    const promptOf = (index: number) => jobs[index]!.request.promptIds;
    const engine: EngineFields = {
      ofPrompt: (index) => returnTokenIds ? { prompt_token_ids: [...promptOf(index)] } : {},
      ofTokens: (ids) => returnTokenIds && ids.length > 0 ? { token_ids: [...ids] } : {},
      ofEnd: (stopReason) => ({ stop_reason: stopReason ?? null }),
    };
    const head = {
      id: `${chat ? "chatcmpl" : "cmpl"}-${id ?? random.hex(16)}`,
      created: unixSeconds(clock),
      model,
    };
    const choices = jobs.length;
    if (chat) return new ChatAnswer(head, { choices, logprobs, engine });
    return new CompletionAnswer(head, {
      choices,
      logprobs,
      echo: (index) => echo ? tokenizer.decode(promptOf(index)) : "",
      engine,
    });
  }

  #models(): JsonObject {
    const { model, clock, generator: { facts } } = this.#options;
    return {
      object: "list",
      data: [{
        id: model,
        object: "model",
        created: unixSeconds(clock),
        owned_by: "canopy",
        root: model,
        parent: null,
        max_model_len: facts.maxContextTokens,
        // Not vLLM's: for the router's traces.
        computes: {
          file: facts.file,
          ...facts.arithmetic,
          ...(facts.check === undefined ? {} : { check: { ...facts.check } }),
        },
      }],
    };
  }
}

/** The bytes of a stream. A failure is told in an event before the last one. */
async function* streamed(
  answers: Answers,
  plan: GenerationPlan,
  writer: AnswerWriter,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, void> {
  try {
    for await (const event of answers.events()) {
      for (const chunk of writer.chunks(event)) {
        yield sseEvent(plan.continuousUsage ? { ...chunk, usage: usageOf(answers, plan) } : chunk);
      }
    }
    if (plan.includeUsage) yield sseEvent(writer.closing({ usage: usageOf(answers, plan) }));
  } catch (error) {
    if (signal.aborted) throw error;
    yield sseEvent(errorBody(asCanopyError(error)));
  }
  yield DONE_EVENT;
}

/** Tokens so far: each prompt once, all answers. */
function usageOf({ list }: Answers, { choices }: GenerationPlan): JsonObject {
  return usageBody(list.map(({ job, tokens, cachedTokens }) => {
    const first = job.index % choices === 0;
    return {
      promptTokens: first ? job.request.promptIds.length : 0,
      completionTokens: tokens.length,
      cachedTokens: first ? cachedTokens : 0,
      reasoningTokens: 0,
    };
  }));
}

function json(body: JsonObject): IncomingResponse {
  return respond(JSON.stringify(body));
}

function respond(
  text: string,
  { status = 200, type = "application/json" }: { readonly status?: number; readonly type?: string } = {},
): IncomingResponse {
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
