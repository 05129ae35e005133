import { badRequest } from "../../base/errors.ts";
import type { Random } from "../../base/random.ts";
import { decodeString } from "../wire/json_scan.ts";
import { arrayMember, isAbsent, stringMember, type TopLevel } from "../wire/splice_json.ts";

/** The SGLang paths whose requests decode, and so can be aborted by `rid`. */
const DECODING_PATHS = new Set(["/generate", "/v1/chat/completions", "/v1/completions"]);
/** Members that may hold one prompt or, as an array of strings or arrays, a batch of them. */
const PROMPTS = ["input_ids", "text", "prompt"] as const;

/** The members that `clientRids` and `attemptIds` look at. */
export const REQUEST_ID_MEMBERS: readonly string[] = ["rid", ...PROMPTS];

/** The ids under which SGLang knows one attempt. */
export interface RequestIds {
  /** Begins all of them; no other attempt's ids begin with it. */
  readonly space: string;
  readonly rids: readonly string[];
  /** JSON text of the `rid` to write into the body. */
  readonly written: string;
}

/** True when requests to the path can be aborted by id. */
export function takesRequestId(path: string): boolean {
  return DECODING_PATHS.has(path);
}

/**
 * The client's own ids of a request: one, or one for each prompt; undefined where it gave none. SGLang makes `ID_0`,
 * `ID_1`, … of a single id of several prompts. Throws a 400 for anything else.
 */
export function clientRids(body: Uint8Array, top: TopLevel): string | readonly string[] | undefined {
  if (isAbsent(body, top, "rid")) return undefined;
  const own = stringMember(body, top, "rid");
  if (own === "") return undefined;
  const items = arrayMember(body, top, "rid")?.map((item) => decodeString(body, item));
  const list = items?.filter((item) => item !== undefined);
  if (own === undefined && (list === undefined || list.length < (items?.length ?? 0))) {
    throw badRequest("rid", "rid must be a string, or a list of strings: one for each prompt");
  }
  const batch = batchSize(body, top);
  if (own === undefined) return list;
  return batch === undefined ? own : Array.from({ length: batch }, (_, i) => `${own}_${i}`);
}

/**
 * Fresh ids for one attempt. SGLang aborts by prefix: all ids of an attempt begin with a random part of fixed length,
 * so that none is a prefix of another request's. The first id of a list without names is a prefix of the others, so
 * that one abort ordinarily ends them all; ids that stand for a client's own end with a point, so that each can be
 * aborted alone.
 */
export function attemptIds(
  own: string | readonly string[] | undefined,
  batch: number | undefined,
  random: Random,
): RequestIds {
  const space = `canopy-${random.hex(24)}`;
  if (typeof own === "object") {
    const rids = own.map((_, i) => `${space}.${i}.`);
    return { space, rids, written: JSON.stringify(rids) };
  }
  if (batch === undefined) return { space, rids: [space], written: `"${space}"` };
  const rids = Array.from({ length: batch }, (_, i) => i === 0 ? space : `${space}.${i}`);
  return { space, rids, written: JSON.stringify(rids) };
}

/** How many prompts a body holds; undefined for a single one that is no list. */
export function batchSize(body: Uint8Array, top: TopLevel): number | undefined {
  for (const name of PROMPTS) {
    const items = arrayMember(body, top, name);
    const first = items?.[0] === undefined ? undefined : body[items[0].start];
    if (items !== undefined && (first === 0x22 /* " */ || first === 0x5b /* [ */)) return items.length;
  }
  return undefined;
}
