import type { Json, JsonObject } from "../../base/json.ts";
import type { AnswerDelta, EmbeddedAnswer } from "./answer.ts";
import type { Answers } from "./answers.ts";
import type { TextTokenizer } from "./detokenizer.ts";
import type { TextRequest } from "./server_request.ts";
import type { DrawnToken } from "../scheduler/generator.ts";

/** A request that is being answered. */
export interface EmbeddedWork {
  readonly id: string;
  /** Unix time in seconds. */
  readonly created: number;
  readonly model: string;
  readonly tokenizer: TextTokenizer;
  readonly request: TextRequest;
  readonly answers: Answers;
}

const utf8 = new TextEncoder();

/** The answer in one piece, in vLLM's form. */
export function wholeAnswer(work: EmbeddedWork): JsonObject {
  const { request } = work;
  const { chat } = request;
  const choices = work.answers.list.map((answer) => {
    const { promptIds } = answer.options;
    return {
      index: answer.options.index,
      ...(chat
        ? { message: { role: "assistant", content: answer.text, refusal: null } }
        : { text: echoed(work, answer) + answer.text }),
      logprobs: logprobsOf(work, answer.tokens, 0),
      finish_reason: answer.finish?.reason ?? null,
      stop_reason: answer.finish?.stop ?? null,
      token_ids: request.returnTokenIds ? answer.tokens.map(({ id }) => id) : null,
      ...(chat ? {} : { prompt_token_ids: request.returnTokenIds ? [...promptIds] : null }),
    };
  });
  return {
    id: work.id,
    object: chat ? "chat.completion" : "text_completion",
    created: work.created,
    model: work.model,
    choices,
    usage: usageOf(work),
    ...(chat ? { prompt_token_ids: request.returnTokenIds ? [...request.prompts[0] ?? []] : null } : {}),
  };
}

/** The events of a stream in vLLM's form, and what it ends with. */
export class StreamedAnswer {
  readonly #work: EmbeddedWork;
  readonly #head: JsonObject;
  /** Characters of token names so far, by answer. */
  readonly #begun = new Map<EmbeddedAnswer, number>();

  constructor(work: EmbeddedWork) {
    this.#work = work;
    this.#head = {
      id: work.id,
      object: work.request.chat ? "chat.completion.chunk" : "text_completion",
      created: work.created,
      model: work.model,
    };
  }

  /** What is new of one answer. */
  events(answer: EmbeddedAnswer): string {
    const { request } = this.#work;
    const first = !this.#begun.has(answer);
    const offset = this.#begun.get(answer) ?? 0;
    const delta = answer.take();
    const { index, promptIds } = answer.options;
    const usage = request.continuousUsage ? { usage: this.#runningUsage(answer) } : {};
    let events = "";
    if (request.chat && first) {
      events += event({
        ...this.#head,
        choices: [{ index, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }],
        ...(request.returnTokenIds ? { prompt_token_ids: [...promptIds] } : {}),
      });
    }
    const text = first && request.echo ? echoed(this.#work, answer) + delta.text : delta.text;
    this.#begun.set(answer, offset + namesLength(this.#work, delta));
    return events + event({
      ...this.#head,
      choices: [{
        index,
        ...(request.chat ? { delta: { content: text } } : { text }),
        logprobs: logprobsOf(this.#work, delta.tokens, offset),
        finish_reason: answer.finish?.reason ?? null,
        stop_reason: answer.finish?.stop ?? null,
        ...(first && !request.chat && request.returnTokenIds ? { prompt_token_ids: [...promptIds] } : {}),
        ...(request.returnTokenIds ? { token_ids: delta.tokens.map(({ id }) => id) } : {}),
      }],
      ...usage,
    });
  }

  /** The end of a stream that went well. */
  end(): string {
    const { request } = this.#work;
    const usage = request.includeUsage
      ? event({ ...this.#head, choices: [], usage: usageOf(this.#work) })
      : "";
    return `${usage}data: [DONE]\n\n`;
  }

  #runningUsage(answer: EmbeddedAnswer): JsonObject {
    const prompt = answer.options.promptIds.length;
    const completion = answer.tokens.length;
    return {
      prompt_tokens: prompt,
      total_tokens: prompt + completion,
      completion_tokens: completion,
      prompt_tokens_details: { cached_tokens: answer.cachedTokens },
    };
  }
}

/** Tokens of a request: each prompt once, all answers. */
function usageOf({ answers }: EmbeddedWork): JsonObject {
  let prompt = 0;
  let cached = 0;
  let completion = 0;
  const prompts = new Set<number>();
  for (const { options, tokens, cachedTokens } of answers.list) {
    completion += tokens.length;
    if (prompts.has(options.promptIndex)) continue;
    prompts.add(options.promptIndex);
    prompt += options.promptIds.length;
    cached += cachedTokens;
  }
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached },
  };
}

function event(chunk: JsonObject): string {
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

function echoed({ request, tokenizer }: EmbeddedWork, answer: EmbeddedAnswer): string {
  return request.echo ? tokenizer.decode(answer.options.promptIds) : "";
}

function nameOf({ request, tokenizer }: EmbeddedWork, id: number): string {
  return request.tokensAsIds ? `token_id:${id}` : tokenizer.decode([id]);
}

function namesLength(work: EmbeddedWork, { tokens }: AnswerDelta): number {
  if (work.request.logprobs === undefined || work.request.chat) return 0;
  return tokens.reduce((sum, { id }) => sum + nameOf(work, id).length, 0);
}

function logprobsOf(work: EmbeddedWork, tokens: readonly DrawnToken[], offset: number): JsonObject | null {
  if (work.request.logprobs === undefined) return null;
  return work.request.chat ? chatLogprobs(work, tokens) : completionLogprobs(work, tokens, offset);
}

function completionLogprobs(work: EmbeddedWork, tokens: readonly DrawnToken[], offset: number): JsonObject {
  const offsets: number[] = [];
  let at = offset;
  const tops: Json[] = [];
  const names = tokens.map(({ id, logprob, top }) => {
    const name = nameOf(work, id);
    offsets.push(at);
    at += name.length;
    const alternatives: JsonObject = { [name]: logprob ?? null };
    for (const [other, value] of top) alternatives[nameOf(work, other)] ??= value;
    tops.push(alternatives);
    return name;
  });
  return {
    text_offset: offsets,
    token_logprobs: tokens.map(({ logprob }) => logprob ?? null),
    tokens: names,
    top_logprobs: tops,
  };
}

function chatLogprobs(work: EmbeddedWork, tokens: readonly DrawnToken[]): JsonObject {
  const entry = (id: number, logprob: number | undefined): JsonObject => {
    const token = nameOf(work, id);
    return { token, logprob: logprob ?? null, bytes: [...utf8.encode(token)] };
  };
  return {
    content: tokens.map(({ id, logprob, top }) => ({
      ...entry(id, logprob),
      top_logprobs: top.map(([other, value]) => entry(other, value)),
    })),
  };
}
