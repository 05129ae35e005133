import { badRequest } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import type { ModelConfig } from "../../cfgs/schema.ts";
import { olderThan } from "./version.ts";

/** What decides whether a request is deadly. */
export interface DeadlyRequest {
  readonly engine: ModelConfig["engine"];
  /** As the server reports it; undefined when unknown: then every version's weakness counts. */
  readonly version: string | undefined;
  /** Ids are 0 … vocabSize − 1; undefined when unknown: then only negative ids are refused. */
  readonly vocabSize: number | undefined;
  /** Such as `/generate` or `/v1/completions`. */
  readonly path: string;
  readonly body: unknown;
}

/**
 * Refuses requests that are known to kill or hang an engine, whoever sent them. Throws a 400 that names the field.
 * Each rule was seen on a real server; requests that the engine itself answers with a 4xx are left to it.
 */
export function refuseDeadly(request: DeadlyRequest): void {
  const { engine, body } = request;
  if (!isJsonObject(body)) return;
  if (engine === "sglang" || engine === "sglang-pd") refuseForSglang(request, body);
  if (engine === "vllm-pd") {
    // A decode server asserts on parameters that do not fit its prompt, or answers with wrong text.
    refuseGiven(body, "kv_transfer_params", "the router sets it itself");
  }
}

function refuseForSglang(request: DeadlyRequest, body: Record<string, unknown>): void {
  const { engine, version, vocabSize } = request;
  // The scheduler indexes its embedding with these: one bad id ends the whole server.
  checkIds("input_ids", body.input_ids, vocabSize);
  checkIds("prompt", body.prompt, vocabSize);
  checkIds("stop_token_ids", body.stop_token_ids, vocabSize);
  checkIds("token_ids_logprob", body.token_ids_logprob, vocabSize);
  checkBias("logit_bias", body.logit_bias, vocabSize);
  const params = Array.isArray(body.sampling_params) ? body.sampling_params : [body.sampling_params];
  for (const sampling of params) {
    if (!isJsonObject(sampling)) continue;
    checkIds("sampling_params.stop_token_ids", sampling.stop_token_ids, vocabSize);
    checkBias("sampling_params.logit_bias", sampling.logit_bias, vocabSize);
  }
  if (version === undefined || olderThan(version, "0.5.23")) {
    // 0.5.18: the scheduler dies as soon as a running request does not use it, too.
    refuseGiven(body, "token_ids_logprob", `SGLang ${version ?? "of unknown version"} does not survive it`);
  }
  for (const field of ["bootstrap_host", "bootstrap_port", "bootstrap_room", "bootstrap_pair_key"]) {
    refuseGiven(body, field, "the router sets it itself");
  }
  if (engine !== "sglang-pd") return;
  refuseGiven(body, "session_params", "sessions do not work with prefill and decode on separate servers");
  for (
    const [field, value] of [
      ["n", body.n],
      ...params.map((p) => ["sampling_params.n", isJsonObject(p) && p.n]),
    ]
  ) {
    if (typeof value === "number" && value > 1) {
      throw badRequest(
        String(field),
        `\`${field}\` must be 1 with prefill and decode on separate servers: got ${value}`,
      );
    }
  }
  if (version !== undefined && !olderThan(version, "0.5.10") && olderThan(version, "0.5.18")) {
    for (const field of ["top_logprobs_num", "top_logprobs"]) {
      const value = body[field];
      if (value !== undefined && value !== null && value !== 0) {
        throw badRequest(
          field,
          `\`${field}\` cannot be used: a prefill server of SGLang ${version} does not survive it`,
        );
      }
    }
  }
}

function refuseGiven(body: Record<string, unknown>, field: string, why: string): void {
  const value = body[field];
  if (value !== undefined && value !== null) {
    throw badRequest(field, `\`${field}\` cannot be used here: ${why}`);
  }
}

/** Checks a list of ids, or a list of such lists; anything else is left to the engine's own validation. */
function checkIds(field: string, value: unknown, vocabSize: number | undefined): void {
  if (!Array.isArray(value)) return;
  value.forEach((item, at) => {
    if (Array.isArray(item)) {
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
  }
}

function isId(id: number, vocabSize: number | undefined): boolean {
  return Number.isInteger(id) && id >= 0 && id < (vocabSize ?? Infinity);
}

function outOfVocabulary(field: string, id: number, vocabSize: number | undefined): Error {
  const range = vocabSize === undefined ? "not be negative" : `be in 0 … ${vocabSize - 1}`;
  return badRequest(field, `Token id ${id} in \`${field}\` is out of vocabulary: ids must ${range}`);
}
