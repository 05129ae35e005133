import { badRequest } from "../../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { responsesFormatSchema } from "../../../cfgs/schema/config.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import type { Sampling } from "../../engines/engine.ts";
import { refuseDeadly } from "../../engines/guards/refuse_deadly.ts";
import { fieldError, isSet, shown, within } from "../gate/fields.ts";
import { findServedModel, modelNotFound } from "../gate/find_model.ts";
import type { HttpServices } from "../gate/services.ts";
import type { AgentSpec } from "./build_graph.ts";
import { type AgentBody, parametersSchema, requestAgentSchema } from "./request_schema.ts";
import { holdsSlot, openMessage, splitAtSlots } from "./slots.ts";
import { readMessages } from "../openai/chat_request.ts";
import { readSampling } from "../openai/sampling.ts";
import { mergeSampling, samplingOf } from "../../moa/graph/sampling.ts";
import { type DraftMessage, parseResponsesFormat, type PromptTemplate } from "../../moa/graph/template.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Fields of an agent that are no parameters of its generation. */
const OWN_FIELDS = ["reads", "responses", "min_responses", "deadline_ms", "on_deadline", "early_exit"];

/** Fields of a whole request, or without a place in the answer; `readSampling` would pass over them. */
const REFUSED = [
  ...["stream", "stream_options", "n", "best_of", "suffix", "echo", "canopy", "logprobs", "top_logprobs"],
  ...["tools", "tool_choice", "parallel_tool_calls"],
];

/** Settings of all agents that do not say otherwise. */
export interface AgentDefaults {
  readonly sampling: Sampling;
  readonly onDeadline: AgentSpec["onDeadline"];
  readonly earlyExit: AgentSpec["earlyExit"];
}

/** Reads one agent of a request. Throws 400 naming the field at fault, within `agents.ID`. */
export function readAgent(
  http: HttpServices,
  id: string,
  body: unknown,
  defaults: AgentDefaults,
): AgentSpec {
  const field = `agents.${id}`;
  if (!isJsonObject(body)) {
    throw badRequest(field, `${field} must be an object: current value is ${shown(body)}`);
  }
  return within(field, () => {
    const parsed = requestAgentSchema.safeParse(body);
    if (!parsed.success) throw fieldError(parsed.error, body);
    const request = parsed.data;
    const model = engineModel(http, request.model);
    const { template, promptField } = readPrompt(request, body);
    const fields = Object.entries(body).filter(([name]) => !OWN_FIELDS.includes(name));
    const sampling = samplingFor(model, defaults.sampling, readParameters(Object.fromEntries(fields)));
    checkSampling(model, template, sampling);
    return {
      id,
      field,
      promptField: `${field}.${promptField}`,
      model: model.name,
      template,
      sampling,
      reads: request.reads ?? [],
      minResponses: request.min_responses ?? undefined,
      deadlineMs: request.deadline_ms ?? undefined,
      onDeadline: request.on_deadline ?? defaults.onDeadline,
      earlyExit: request.early_exit ?? defaults.earlyExit,
    };
  });
}

/** The engine model of an agent. Throws 400. */
export function engineModel(http: HttpServices, name: string): ServedModel {
  const model = findServedModel(http, name);
  if (model !== undefined) return model;
  if (http.moa.graphs.has(name)) {
    throw badRequest("model", `model is ${shown(name)}, a virtual model: an agent needs an engine model`);
  }
  throw badRequest("model", `model is not served: ${modelNotFound(name).message}`, "model_not_found");
}

/** The parameters of a model's config, then those of all agents, then the agent's own: the last one wins. */
export function samplingFor(model: ServedModel, common: Sampling, own: Sampling): Sampling {
  return mergeSampling(mergeSampling(samplingOf(model.config.sampling ?? {}), common), own);
}

/** Throws 400 for parameters that the agent's engine does not take, or would not survive. */
export function checkSampling(model: ServedModel, template: PromptTemplate, sampling: Sampling): void {
  const { extra, ...own } = sampling;
  const most = model.engine.capabilities.maxStopStrings;
  if (own.stop !== undefined && most !== undefined && own.stop.length > most) {
    throw badRequest(
      "stop",
      `stop holds ${own.stop.length} strings: the engine of ${model.name} takes at most ${most}`,
    );
  }
  refuseDeadly({
    engine: model.config.engine,
    version: model.engine.capabilities.version,
    vocabSize: model.tokenizer?.vocabSize,
    path: template.kind === "raw" ? "/v1/completions" : "/v1/chat/completions",
    body: { ...extra, ...own },
  });
}

/** The parameters of one generation. Throws 400 naming the field that is none, or that a graph cannot honour. */
export function readParameters(body: JsonObject): Sampling {
  for (const name of REFUSED) {
    const value = body[name];
    if (!isSet(value) || value === false || ((name === "n" || name === "best_of") && value === 1)) continue;
    throw badRequest(
      name,
      `${name} is not supported: an agent of a graph answers once, with a text`,
      "unsupported_parameter",
    );
  }
  const parsed = parametersSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  return readSampling({ ...parsed.data, model: "" }, body);
}

function readPrompt(
  request: AgentBody,
  body: JsonObject,
): { template: PromptTemplate; promptField: "prompt" | "messages" } {
  const { prompt } = request;
  if (isSet(prompt) && isSet(request.messages)) {
    throw badRequest("messages", "messages cannot be given together with prompt: leave one of them out");
  }
  // What a client writes is text, unless it says that it expects answers there.
  const withResponses = isSet(request.reads);
  const responses = parseResponsesFormat(responsesFormatSchema.parse(request.responses ?? {}));
  if (isSet(request.messages)) {
    const messages = readMessages(body["messages"] ?? []).map((message, at) =>
      within(`messages[${at}]`, () => openChatMessage(message, withResponses))
    );
    return { template: { kind: "messages", messages, responses }, promptField: "messages" };
  }
  if (!isSet(prompt)) {
    throw badRequest("prompt", "prompt is required: give it, or messages", "missing_field");
  }
  if (typeof prompt === "object" && "text" in prompt) {
    const text = splitAtSlots(prompt.text, withResponses);
    return { template: { kind: "raw", text, responses }, promptField: "prompt" };
  }
  const { system, user } = typeof prompt === "string" ? { system: undefined, user: prompt } : prompt;
  const messages: DraftMessage[] = [];
  if (system !== undefined) messages.push(openMessage("system", splitAtSlots(system, withResponses)));
  if (user !== undefined) messages.push(openMessage("user", splitAtSlots(user, withResponses)));
  return { template: { kind: "messages", messages, responses }, promptField: "prompt" };
}

/** A message whose text may have slots; of a list of parts, the last one. */
function openChatMessage(message: ChatMessage, withResponses: boolean): DraftMessage {
  const { content } = message;
  const open = (text: string, parts: typeof content[]): DraftMessage => {
    const pieces = splitAtSlots(text, withResponses);
    const isOpen = pieces.some((piece) => piece.kind !== "literal");
    return isOpen ? { kind: "open", base: message, parts, pieces } : { kind: "whole", message };
  };
  if (typeof content === "string") return open(content, []);
  if (!Array.isArray(content)) return { kind: "whole", message };
  const texts = content.map((part) =>
    isJsonObject(part) && typeof part["text"] === "string" ? part["text"] : ""
  );
  const early = texts.slice(0, -1).findIndex(holdsSlot);
  if (early >= 0) {
    const name = `content[${early}].text`;
    throw badRequest(name, `${name} has a slot: only the last part of a message's content can have slots`);
  }
  return open(texts.at(-1) ?? "", content.slice(0, -1));
}
