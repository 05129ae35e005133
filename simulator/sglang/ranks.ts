import type { JsonObject } from "../../base/json.ts";
import type { Backend } from "../server/backend.ts";

/** The rank that the next request without one gets. */
const TURNS = new WeakMap<Backend, number>();

/**
 * The data-parallel rank that a request is for, which it may say under the field's old and new name; else they take
 * turns. Undefined for a server without ranks. A sentence for a rank that the server does not have.
 */
export function dpRankOf(body: JsonObject, backend: Backend): number | undefined | string {
  const size = backend.options.dpSize ?? 1;
  const given = body["routed_dp_rank"] ?? body["data_parallel_rank"];
  if (typeof given === "number") {
    return given >= 0 && given < size ? given : `routed_dp_rank=${given} is out of range [0, ${size})`;
  }
  if (size === 1) return undefined;
  const turn = TURNS.get(backend) ?? 0;
  TURNS.set(backend, turn + 1);
  return turn % size;
}

/** Keeps prefixes of requests apart in the cache: those of other keys, and of other ranks. */
export function saltOf(body: JsonObject, dpRank: number | undefined): string {
  const keys = [body["extra_key"], body["cache_salt"]].filter((key) => typeof key === "string");
  return [...keys, ...(dpRank === undefined ? [] : [`rank ${dpRank}`])].join("/");
}
