import type { Random } from "../../base/random.ts";
import { decodeString } from "../wire/json_scan.ts";
import { arrayMember, isAbsent, stringMember, type TopLevel } from "../wire/splice_json.ts";

/** The SGLang paths whose requests decode, and so can be aborted by `rid`. */
const DECODING_PATHS = new Set(["/generate", "/v1/chat/completions", "/v1/completions"]);
/** Members that may hold one prompt or, as an array of strings or arrays, a batch of them. */
const PROMPTS = ["input_ids", "text", "prompt"] as const;

/** The members that `attemptIds` looks at. */
export const REQUEST_ID_MEMBERS: readonly string[] = ["rid", ...PROMPTS];

/** The ids under which SGLang knows one attempt. */
export interface RequestIds {
  readonly rids: readonly string[];
  /** JSON text of the `rid` to write into the body; undefined where the client's own stays. */
  readonly written: string | undefined;
}

/** True when requests to the path can be aborted by id. */
export function takesRequestId(path: string): boolean {
  return DECODING_PATHS.has(path);
}

/**
 * The ids of one attempt: the client's own where it sent any, else fresh ones of fixed length (SGLang aborts by
 * prefix). Each prompt of a batch has its own id: SGLang makes `ID_0`, `ID_1`, … of a single one, and takes a list
 * as it is. The first id of our list is a prefix of the others, so that one abort ordinarily ends them all.
 */
export function attemptIds(body: Uint8Array, top: TopLevel, random: Random): RequestIds {
  const batch = batchSize(body, top);
  if (!isAbsent(body, top, "rid")) {
    const own = stringMember(body, top, "rid");
    if (own === undefined) return { rids: stringItems(body, top), written: undefined };
    const rids = batch === undefined ? [own] : Array.from({ length: batch }, (_, i) => `${own}_${i}`);
    return { rids, written: undefined };
  }
  const rid = `canopy-${random.hex(24)}`;
  const rids = batch === undefined
    ? [rid]
    : Array.from({ length: batch }, (_, i) => i === 0 ? rid : `${rid}.${i}`);
  return { rids, written: JSON.stringify(batch === undefined ? rid : rids) };
}

/** Number of prompts in a body; undefined for a single one that is no list. */
export function batchSize(body: Uint8Array, top: TopLevel): number | undefined {
  for (const name of PROMPTS) {
    const items = arrayMember(body, top, name);
    const first = items?.[0] === undefined ? undefined : body[items[0].start];
    if (items !== undefined && (first === 0x22 /* " */ || first === 0x5b /* [ */)) return items.length;
  }
  return undefined;
}

function stringItems(body: Uint8Array, top: TopLevel): string[] {
  return (arrayMember(body, top, "rid") ?? [])
    .map((item) => decodeString(body, item))
    .filter((rid) => rid !== undefined);
}
