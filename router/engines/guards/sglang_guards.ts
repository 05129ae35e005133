import { badRequest } from "../../../base/errors.ts";
import { isJsonObject } from "../../../base/json.ts";
import { refersOnlyToItself } from "./schema_refs.ts";
import { olderThan } from "../version.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Members by which the two servers of a pair meet, and one that would lead a server to a peer of the client's choice. */
export const BOOTSTRAP_MEMBERS = [
  "bootstrap_host",
  "bootstrap_port",
  "bootstrap_room",
  "bootstrap_pair_key",
] as const;

/** The server that a request is for. */
export interface GuardedServer {
  /** As the server reports it; undefined when unknown: then every version's weakness counts. */
  readonly version: string | undefined;
  /** Ids are 0 … vocabSize − 1; undefined when unknown: then only negative ids are refused. */
  readonly vocabSize: number | undefined;
}

/** Largest 32-bit float; SGLang's tensors hold nothing larger. */
const MAX_FLOAT32 = 3.4028234663852886e38;
/** Without the vocabulary's size: no vocabulary is smaller, and no client has use for more alternatives. */
const MAX_ALTERNATIVES = 1000;
const ALTERNATIVES = ["logprobs", "top_logprobs", "top_logprobs_num"];
const NONE: readonly number[] = [];

/**
 * Refuses what ended, or would end, the scheduler of a SGLang server: the HTTP process lives on for a minute and every
 * request hangs. Each rule was seen on real servers (0.5.18 and 0.5.23, on CPUs; GPU kernels may be hardier).
 */
export function refuseForSglang({ version, vocabSize }: GuardedServer, body: Fields): void {
  // The scheduler indexes its embedding with these: one bad id ends the whole server.
  checkIds("input_ids", body.input_ids, vocabSize);
  checkIds("prompt", body.prompt, vocabSize);
  checkIds("token_ids_logprob", body.token_ids_logprob, vocabSize);
  checkSampling("", body, vocabSize);
  const { sampling_params: params } = body;
  for (const sampling of Array.isArray(params) ? params : params === undefined ? [] : [params]) {
    if (isJsonObject(sampling)) checkSampling("sampling_params.", sampling, vocabSize);
  }
  for (const field of ALTERNATIVES) {
    for (const count of numbersOf(body[field])) {
      const most = vocabSize ?? MAX_ALTERNATIVES;
      if (count > most) throw badRequest(field, `\`${field}\` must be at most ${most}: got ${count}`);
    }
  }
  for (const start of numbersOf(body.logprob_start_len)) {
    if (start < -1) {
      throw badRequest("logprob_start_len", `\`logprob_start_len\` must be at least -1: got ${start}`);
    }
  }
  refuseGiven(body, "positional_embed_overrides", "SGLang does not survive it");
  if (version === undefined || olderThan(version, "0.5.23")) {
    // The scheduler dies as soon as a running request does not use it, too.
    refuseGiven(body, "token_ids_logprob", `SGLang ${version ?? "of unknown version"} does not survive it`);
  }
  for (const field of BOOTSTRAP_MEMBERS) {
    refuseGiven(body, field, "the router sets it itself");
  }
}

/** Refuses a field that is given at all. */
export function refuseGiven(body: Fields, field: string, why: string): void {
  const value = body[field];
  if (value !== undefined && value !== null) {
    throw badRequest(field, `\`${field}\` cannot be used here: ${why}`);
  }
}

function checkSampling(prefix: string, sampling: Fields, vocabSize: number | undefined): void {
  checkIds(`${prefix}stop_token_ids`, sampling.stop_token_ids, vocabSize);
  checkBias(`${prefix}logit_bias`, sampling.logit_bias, vocabSize);
  const { top_k: topK, repetition_penalty: penalty } = sampling;
  if (typeof topK === "number" && Math.abs(topK) >= 2 ** 31) {
    throw badRequest(`${prefix}top_k`, `\`${prefix}top_k\` must be less than 2^31: got ${topK}`);
  }
  // A penalty that is 0 as a 32-bit float makes every probability of a repeated token infinite.
  if (typeof penalty === "number" && Math.fround(penalty) === 0) {
    throw badRequest(
      `${prefix}repetition_penalty`,
      `\`${prefix}repetition_penalty\` must be greater than 0 as a 32-bit float: got ${penalty}`,
    );
  }
  const schema = schemaOf(sampling);
  if (schema !== undefined && refersOnlyToItself(schema.value)) {
    const field = prefix + schema.field;
    throw badRequest(field, `\`${field}\` has a $ref that leads only to itself: nothing could ever match it`);
  }
}

/** The JSON schema that an answer must match: OpenAI's place for it, or SGLang's own (a text). */
function schemaOf(sampling: Fields): { field: string; value: unknown } | undefined {
  const { response_format: format, json_schema: text } = sampling;
  if (isJsonObject(format) && isJsonObject(format.json_schema)) {
    return { field: "response_format.json_schema.schema", value: format.json_schema.schema };
  }
  if (typeof text !== "string") return undefined;
  try {
    return { field: "json_schema", value: JSON.parse(text) };
  } catch {
    return undefined; // the engine's own 400
  }
}

function numbersOf(value: unknown): readonly number[] {
  // Most requests say nothing of it.
  if (value === undefined) return NONE;
  return (Array.isArray(value) ? value : [value]).filter((item) => typeof item === "number");
}

/** Checks a list of ids, or a list of such lists; anything else is left to the engine's own validation. */
function checkIds(field: string, value: unknown, vocabSize: number | undefined): void {
  if (!Array.isArray(value)) return;
  value.forEach((item, at) => {
    if (Array.isArray(item)) {
      if (item.length === 0) throw badRequest(`${field}[${at}]`, `\`${field}[${at}]\` must not be empty`);
      const inner = item.findIndex((id) => isBadId(id, vocabSize));
      if (inner >= 0) throw outOfVocabulary(`${field}[${at}][${inner}]`, item[inner], vocabSize);
    } else if (isBadId(item, vocabSize)) throw outOfVocabulary(`${field}[${at}]`, item, vocabSize);
  });
}

function isBadId(id: unknown, vocabSize: number | undefined): id is number {
  return typeof id === "number" && !isId(id, vocabSize);
}

function checkBias(field: string, value: unknown, vocabSize: number | undefined): void {
  if (!isJsonObject(value)) return;
  for (const key in value) {
    const id = Number(key);
    if (!Number.isNaN(id) && !isId(id, vocabSize)) throw outOfVocabulary(`${field}.${key}`, id, vocabSize);
    const bias = Number(value[key]);
    if (!(Math.abs(bias) <= MAX_FLOAT32)) {
      throw badRequest(`${field}.${key}`, `\`${field}.${key}\` must be a finite number: got ${value[key]}`);
    }
  }
}

function isId(id: number, vocabSize: number | undefined): boolean {
  return Number.isInteger(id) && id >= 0 && id < (vocabSize ?? Infinity);
}

function outOfVocabulary(field: string, id: number, vocabSize: number | undefined): Error {
  const range = vocabSize === undefined ? "not be negative" : `be in 0 … ${vocabSize - 1}`;
  return badRequest(field, `Token id ${id} in \`${field}\` is out of vocabulary: ids must ${range}`);
}
