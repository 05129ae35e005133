import { badRequest, CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import { noEarlyExit } from "../../../cfgs/schema/early_exit.ts";
import type { Sampling } from "../../engines/engine.ts";
import { fieldError, isSet, shown, within } from "../gate/fields.ts";
import { onlyServedModel } from "../gate/find_model.ts";
import type { HttpServices } from "../gate/services.ts";
import { type AgentSpec, buildRequestGraph } from "./build_graph.ts";
import { checkSampling, engineModel, readParameters, samplingFor } from "./read_agent.ts";
import { ID } from "./read_graph.ts";
import { defaultPrefill, type ShellRequest, shellRequestSchema } from "./request_schema.ts";
import { holdsSlot, splitAtSlots } from "./slots.ts";
import type { AgentGraph } from "../../moa/graph/graph_types.ts";
import { parseResponsesFormat, type PromptTemplate } from "../../moa/graph/template.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** SGLang's names of parameters, and OpenAI's. */
const RENAMED: Readonly<Record<string, string>> = {
  max_new_tokens: "max_tokens",
  min_new_tokens: "min_tokens",
  sampling_seed: "seed",
};

/** SGLang's limit where a request sets none. */
const DEFAULT_MAX_TOKENS = 128;

const FORMAT = parseResponsesFormat({ item: "[answer]", separator: "\n" });

/** A batch of named texts that read each other. */
export interface ShellPlan {
  readonly graph: AgentGraph;
  /** The names, in the order of the batch. */
  readonly names: readonly string[];
  /** The answer is a list, as the texts were. */
  readonly isList: boolean;
  readonly stream: boolean;
}

/** True for a body of /generate that the router must splice; without slots it is an engine's business alone. */
export function isShellRequest({ text }: JsonObject): boolean {
  if (typeof text === "string") return holdsSlot(text);
  return Array.isArray(text) && text.some((one) => typeof one === "string" && holdsSlot(one));
}

/** Reads a batch in SGLang's form. Throws 400 naming the field at fault. */
export function readShellRequest(http: HttpServices, body: JsonObject): ShellPlan {
  for (const [name, value] of Object.entries(body)) {
    if (!isSet(value) || value === false || Object.hasOwn(shellRequestSchema.shape, name)) continue;
    throw badRequest(
      name.slice(0, 100),
      `${name.slice(0, 100)} is not supported in a request with slots: leave it out`,
      "unsupported_parameter",
    );
  }
  const parsed = shellRequestSchema.safeParse(body);
  if (!parsed.success) throw fieldError(parsed.error, body);
  const request = parsed.data;
  const texts = typeof request.text === "string" ? [request.text] : request.text;
  const names = readNames(request, texts.length);
  const isList = typeof request.text !== "string";
  const specs = texts.map((text, at): AgentSpec => {
    const field = isList ? `text[${at}]` : "text";
    const model = modelOf(http, request, at, texts.length);
    const template: PromptTemplate = { kind: "raw", text: splitAtSlots(text, false), responses: FORMAT };
    const own = parametersOf(body["sampling_params"] ?? {}, at, texts.length, model, template);
    return {
      id: names[at]!,
      field,
      promptField: field,
      model: model.name,
      template,
      sampling: samplingFor(model, { max_tokens: DEFAULT_MAX_TOKENS }, own),
      reads: [],
      minResponses: undefined,
      deadlineMs: undefined,
      onDeadline: "drop",
      earlyExit: noEarlyExit,
    };
  });
  const graph = buildRequestGraph(specs, {
    minResponses: 1,
    slots: "declared",
    stripReasoning: false,
    deadlineMs: undefined,
    incrementalPrefill: {
      mode: defaultPrefill.mode,
      chunkTokens: defaultPrefill.chunk_tokens,
      maxStallMs: defaultPrefill.max_stall_ms,
    },
    onOverflow: "cut_middle",
  });
  return { graph, names, isList, stream: request.stream === true };
}

/** One name for each text; a single one is numbered from 0 in a batch, as SGLang does. */
function readNames({ rid, text }: ShellRequest, count: number): string[] {
  const names = typeof rid !== "string"
    ? rid
    : typeof text === "string"
    ? [rid]
    : text.map((_, at) => `${rid}_${at}`);
  if (names.length !== count) {
    throw badRequest("rid", `rid must hold one name for each text: it holds ${names.length}, of ${count}`);
  }
  const seen = new Set<string>();
  for (const [at, name] of names.entries()) {
    const field = typeof rid === "string" ? "rid" : `rid[${at}]`;
    if (!ID.test(name)) {
      throw badRequest(
        field,
        `${field} must be 1 to 128 letters, digits, _, ., :, / and -: it is ${shown(name)}`,
      );
    }
    if (seen.has(name)) throw badRequest(field, `${field} is ${shown(name)}, as another one is`);
    seen.add(name);
  }
  return names;
}

function modelOf(http: HttpServices, { model }: ShellRequest, at: number, count: number): ServedModel {
  if (Array.isArray(model)) {
    const name = model[at];
    if (model.length !== count || name === undefined) {
      throw badRequest("model", `model must hold one for each text: it holds ${model.length}, of ${count}`);
    }
    try {
      return engineModel(http, name);
    } catch (error) {
      if (!CanopyError.is(error)) throw error;
      throw badRequest(`model[${at}]`, `model[${at}]: ${error.message}`, error.code);
    }
  }
  if (isSet(model)) return engineModel(http, model);
  const only = onlyServedModel(http);
  if (only !== undefined) return only;
  throw badRequest("model", "model is required: GET /v1/models lists the models", "missing_field");
}

/** The parameters of one text. Throws 400 with SGLang's name of the field. */
function parametersOf(
  given: Json,
  at: number,
  count: number,
  model: ServedModel,
  template: PromptTemplate,
): Sampling {
  if (Array.isArray(given) && given.length !== count) {
    throw badRequest(
      "sampling_params",
      `sampling_params must hold one object for each text: it holds ${given.length}, of ${count}`,
    );
  }
  const params = Array.isArray(given) ? given[at] : given;
  if (!isJsonObject(params)) return {};
  return within(
    Array.isArray(given) ? `sampling_params[${at}]` : "sampling_params",
    () =>
      inTheirNames(() => {
        const fields = Object.fromEntries(
          Object.entries(params).map(([name, value]): [string, Json] => [ownName(name), value]),
        );
        const sampling = readParameters(fields);
        checkSampling(model, template, sampling);
        return sampling;
      }),
  );
}

function ownName(name: string): string {
  return Object.hasOwn(RENAMED, name) ? RENAMED[name] ?? name : name;
}

/** Errors name fields as the client did. */
function inTheirNames<Value>(read: () => Value): Value {
  try {
    return read();
  } catch (error) {
    const names = CanopyError.is(error)
      ? Object.entries(RENAMED).find(([, ours]) => ours === error.param)
      : undefined;
    if (!CanopyError.is(error) || names === undefined) throw error;
    const [theirs, ours] = names;
    throw badRequest(theirs, error.message.replaceAll(ours, theirs), error.code);
  }
}
