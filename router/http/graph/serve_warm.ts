import { badRequest } from "../../../base/errors.ts";
import { turnByTurn, type Turns } from "../../../base/turns.ts";
import type { Json, JsonObject } from "../../../base/json.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import { refuseDeadly } from "../../engines/guards/refuse_deadly.ts";
import { refuseSprawl } from "../gate/body.ts";
import { fieldError, isSet } from "../gate/fields.ts";
import { findServedModel, modelNotFound, onlyServedModel } from "../gate/find_model.ts";
import type { ReadRequest } from "../gate/read_request.ts";
import type { RequestScope } from "../gate/request_scope.ts";
import type { HttpServices } from "../gate/services.ts";
import {
  type PrefillRequest,
  prefillRequestSchema,
  type WarmRequest,
  warmRequestSchema,
} from "./request_schema.ts";
import { splitAtSlots } from "./slots.ts";
import { requireWarming, warm, type WarmedPrefix } from "./warm.ts";
import { readMessages } from "../openai/chat_request.ts";
import { readSampling } from "../openai/sampling.ts";
import { wirePrompt } from "../../moa/prompt/wire_prompt.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** By this header relayed requests say which of them belong together. */
const STICKY_HEADER = "x-smg-routing-key";

/** Serves POST /v1/warm. Throws `CanopyError`. */
export async function serveWarm(http: HttpServices, { call, body, scope }: ReadRequest): Promise<Response> {
  await turnByTurn(http.clock, refuseSprawl(body), scope.signal);
  const parsed = warmRequestSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const request = parsed.data;
  const model = warmable(http, request.model, scope);
  const { session: _, ...parameters } = body;
  const like = readSampling(request, parameters);
  const prompt = await turnByTurn(http.clock, readPrompt(request, body, { model, like }), scope.signal);
  guard(model, body, prompt);
  const order = { model, prompt, like, stickyKey: request.session ?? call.req.header(STICKY_HEADER) };
  const { promptTokens, cachedTokens, worker } = await withPlace(
    http,
    scope,
    () => warm(order, scope.signal),
  );
  scope.pass?.spend(promptTokens);
  return json(scope, {
    object: "warm",
    model: request.model,
    prompt_tokens: promptTokens,
    cached_tokens: cachedTokens ?? null,
    worker,
  });
}

/** Serves POST /prefill_only: the same in SGLang's form. Throws `CanopyError`. */
export async function servePrefill(
  http: HttpServices,
  { call, body, scope }: ReadRequest,
): Promise<Response> {
  await turnByTurn(http.clock, refuseSprawl(body), scope.signal);
  const parsed = prefillRequestSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const request = parsed.data;
  const model = warmable(http, request.model ?? onlyServedModel(http)?.name, scope);
  const { prompts, isList } = readPrefixes(request);
  guard(model, body, prompts[0]!);
  const like = { extra: body };
  const stickyKey = request.session ?? call.req.header(STICKY_HEADER);
  const answers = await withPlace(http, scope, async () => {
    const done: Json[] = [];
    for (const [at, prompt] of prompts.entries()) {
      const warmed = await warm({ model, prompt, like, stickyKey }, scope.signal);
      scope.pass?.spend(warmed.promptTokens);
      done.push(prefillBody(warmed, idOf(request, at) ?? `prefill-${http.random.hex(16)}`));
    }
    return done;
  });
  return json(scope, isList ? answers : answers[0] ?? null);
}

function warmable(http: HttpServices, name: string | undefined, scope: RequestScope): ServedModel {
  if (name === undefined) {
    throw badRequest("model", "model is required: GET /v1/models lists the models", "missing_field");
  }
  const model = findServedModel(http, name);
  if (model === undefined) {
    if (http.moa.graphs.has(name)) {
      throw badRequest("model", `model ${name} is a virtual model: warm the engine models of its agents`);
    }
    throw modelNotFound(name);
  }
  scope.model = model.name;
  requireWarming(model);
  return model;
}

/** Control tokens in messages stay what they are, as in the chat request that follows, which the engine tokenises. */
function* readPrompt(
  request: WarmRequest,
  body: JsonObject,
  { model, like }: { readonly model: ServedModel; readonly like: Sampling },
): Turns<Prompt | Promise<Prompt>> {
  const { prompt } = request;
  if (isSet(prompt) && isSet(request.messages)) {
    throw badRequest("messages", "messages cannot be given together with prompt: leave one of them out");
  }
  if (isSet(request.messages)) {
    const messages = readMessages(body["messages"] ?? []);
    return yield* wirePrompt({ kind: "chat", messages }, model, like);
  }
  if (!isSet(prompt)) {
    throw badRequest("prompt", "prompt is required: give it, or messages", "missing_field");
  }
  return typeof prompt === "string" ? { kind: "text", text: prompt } : { kind: "tokens", ids: prompt };
}

function readPrefixes(request: PrefillRequest): { prompts: Prompt[]; isList: boolean } {
  const { text, input_ids: ids } = request;
  if (isSet(text) === isSet(ids)) {
    throw badRequest("text", "text is required, or input_ids, and not both", "missing_field");
  }
  if (isSet(text)) {
    const texts = typeof text === "string" ? [text] : text;
    const prompts = texts.map((one, at): Prompt => {
      const [first] = splitAtSlots(one, false);
      if (first?.kind === "literal") return { kind: "text", text: first.text };
      const name = typeof text === "string" ? "text" : `text[${at}]`;
      throw badRequest(name, `${name} begins with a slot: there is nothing to prefill yet`);
    });
    return { prompts, isList: typeof text !== "string" };
  }
  const lists: Prompt[] = [];
  for (const id of ids ?? []) if (typeof id !== "number") lists.push({ kind: "tokens", ids: id });
  if (lists.length > 0) return { prompts: lists, isList: true };
  const single = (ids ?? []).filter((id) => typeof id === "number");
  return { prompts: [{ kind: "tokens", ids: single }], isList: false };
}

function guard(model: ServedModel, body: JsonObject, prompt: Prompt): void {
  const vocabSize = model.tokenizer?.vocabSize;
  refuseDeadly({
    engine: model.config.engine,
    version: model.engine.capabilities.version,
    vocabSize,
    path: prompt.kind === "chat" ? "/v1/chat/completions" : "/v1/completions",
    body,
  });
}

async function withPlace<Result>(
  http: HttpServices,
  scope: RequestScope,
  task: () => Promise<Result>,
): Promise<Result> {
  const release = await http.admission.take(scope.signal);
  try {
    return await task();
  } finally {
    release();
  }
}

function idOf({ rid }: PrefillRequest, at: number): string | undefined {
  return typeof rid === "string" ? rid : rid?.[at];
}

function prefillBody({ promptTokens, cachedTokens, worker }: WarmedPrefix, id: string): JsonObject {
  return {
    text: "",
    output_ids: [],
    meta_info: {
      id,
      finish_reason: { type: "length", length: 0 },
      prompt_tokens: promptTokens,
      completion_tokens: 0,
      cached_tokens: cachedTokens ?? 0,
      worker,
    },
  };
}

function json(scope: RequestScope, body: Json): Response {
  scope.end("ok");
  return new Response(JSON.stringify(body), { headers: { "content-type": "application/json" } });
}
