import type { Json } from "../../../base/json.ts";
import type { Random } from "../../../base/random.ts";
import type { PrefillSide } from "../../worker/placement.ts";
import type { WorkerRank } from "../../worker/worker_access.ts";

/** Fields that make a prefill server compute a prompt for nobody; only SGLang up to 0.5.10.post1 then caches it. */
const FAKE_HOST = "2.2.2.2";

/** The members by which the two SGLang servers of a pair find each other for one request; both get the same. */
export type BootstrapFields = {
  /** The prefill server's registry, as the decode server reaches it. Without it 0.5.18's decode server dies. */
  readonly bootstrap_host: Json;
  /** `null`: the decode server's own default. */
  readonly bootstrap_port: Json;
  readonly bootstrap_room: Json;
};

/**
 * Where two servers meet for one attempt: 1 … 2^53 − 1, which JSON holds exactly. Never 0: a decode server takes that
 * for "not written yet" and waits for ever. Drawn anew for each attempt, so that no late half meets another request.
 * Divided by a prefill server's ranks, it leaves the rank that reads the prompt.
 */
export function newRoom(random: Random, rank?: WorkerRank): number {
  if (rank === undefined) return 1 + random.int(Number.MAX_SAFE_INTEGER);
  const { index, of } = rank;
  return (1 + random.int(Math.floor(Number.MAX_SAFE_INTEGER / of) - 1)) * of + index;
}

/** The fields of a request for one prompt. */
export function bootstrapFields(prefill: PrefillSide, random: Random): BootstrapFields {
  return {
    bootstrap_host: prefill.bootstrapHost,
    bootstrap_port: prefill.bootstrapPort ?? null,
    bootstrap_room: newRoom(random, prefill.rank),
  };
}

/** The fields of a request for several prompts, each of which meets in a room of its own. */
export function bootstrapLists(prefill: PrefillSide, prompts: number, random: Random): BootstrapFields {
  const rooms = new Set<number>();
  while (rooms.size < prompts) rooms.add(newRoom(random, prefill.rank));
  return {
    bootstrap_host: Array.from(rooms, () => prefill.bootstrapHost),
    bootstrap_port: Array.from(rooms, () => prefill.bootstrapPort ?? null),
    bootstrap_room: [...rooms],
  };
}

/** The fields that make a prefill server work alone. */
export function fakeBootstrapFields(random: Random): BootstrapFields {
  return { bootstrap_host: FAKE_HOST, bootstrap_port: 8998, bootstrap_room: newRoom(random) };
}

/**
 * True for versions that are known to cache what they prefill for the fake host: the releases up to 0.5.10.post1. The
 * ones after it read their cache and write nothing, and may never end; of a development build nobody knows.
 */
export function fakeBootstrapWarms(version: string | undefined): boolean {
  const patch = /^0\.5\.(\d+)(?:\.post\d+)?$/.exec(version ?? "")?.[1];
  return patch !== undefined && Number(patch) >= 3 && Number(patch) <= 10;
}
