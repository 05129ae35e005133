import { badRequest } from "../../../base/errors.ts";
import { isJsonObject } from "../../../base/json.ts";
import type { ModelConfig } from "../../../cfgs/schema/config.ts";
import { type GuardedServer, refuseForSglang, refuseGiven } from "./sglang_guards.ts";
import { olderThan } from "../version.ts";

/** vLLM's own limit since 0.19; SGLang and older versions run out of memory instead. */
const MAX_CHOICES = 16_384;

/** A request for an engine. */
export interface DeadlyRequest extends GuardedServer {
  readonly engine: ModelConfig["engine"];
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
  for (const [field, n] of choiceCounts(body)) {
    if (n > MAX_CHOICES) throw badRequest(field, `\`${field}\` must be at most ${MAX_CHOICES}: got ${n}`);
  }
  if (engine === "sglang" || engine === "sglang-pd") refuseForSglang(request, body);
  if (engine === "sglang-pd") refuseForSglangPair(request.version, body);
  if (engine === "vllm-pd") {
    // A decode server asserts on parameters that do not fit its prompt, or answers with wrong text.
    refuseGiven(body, "kv_transfer_params", "the router sets it itself");
  }
}

/** The prefill servers that die when they are asked for likely tokens besides the chosen ones. */
export function pairDiesOfTopLogprobs(version: string | undefined): boolean {
  return version !== undefined && !olderThan(version, "0.5.10") && olderThan(version, "0.5.18");
}

/** Refuses what makes a prefill/decode pair wait for ever, or kills one of its servers. */
function refuseForSglangPair(version: string | undefined, body: Record<string, unknown>): void {
  refuseGiven(body, "session_params", "sessions do not work with prefill and decode on separate servers");
  for (const [field, n] of choiceCounts(body)) {
    if (n > 1) {
      throw badRequest(field, `\`${field}\` must be 1 with prefill and decode on separate servers: got ${n}`);
    }
  }
  if (!pairDiesOfTopLogprobs(version)) return;
  for (const field of ["top_logprobs_num", "top_logprobs", "logprobs"]) {
    const value = body[field];
    // Of these only the first two may be lists; chat's `logprobs: true` asks for no alternatives.
    if (value !== undefined && value !== null && value !== 0 && typeof value !== "boolean") {
      throw badRequest(
        field,
        `\`${field}\` cannot be used: a prefill server of SGLang ${version} does not survive it`,
      );
    }
  }
}

/** Numbers of choices that a request asks for, by each field that says so. */
function choiceCounts(body: Record<string, unknown>): readonly [field: string, n: number][] {
  const { n, sampling_params: params } = body;
  if (n === undefined && params === undefined) return NO_COUNTS;
  const counts: [string, unknown][] = [["n", n]];
  for (const one of Array.isArray(params) ? params : [params]) {
    if (isJsonObject(one)) counts.push(["sampling_params.n", one.n]);
  }
  return counts.flatMap(([field, count]) => typeof count === "number" ? [[field, count]] : []);
}

/** Of the usual request, which does not speak of it. */
const NO_COUNTS: readonly [string, number][] = [];
