import type { Random } from "../../base/random.ts";

/**
 * What can go wrong with a worker, the same under the virtual clock and over real processes:
 *
 * - `kill`: its process ends, its connections are reset, and another one serves there later;
 * - `upgrade`: the same, and the new process has another version;
 * - `impostor`: the same, and the new process serves another model until it is replaced in its turn;
 * - `pause`: the process stands still (SIGSTOP), connections stay open and new ones are taken;
 * - `reset`: all open connections are reset, and the process works on;
 * - `half_open`: the network to it is gone: nothing arrives, neither bytes nor an end;
 * - `slow`: everything that it says comes late;
 * - `status_500`, `status_503`, `refuse`, `hang`, `truncate`: so many of the next generations, by its own fault;
 * - `bootstrap_lost`: so many of the next hand-offs of a pair fail;
 * - `slow_transfer`: so many of them take long;
 * - `drain`, `leave`: no illness, but an operator's change: it gets no more work, or is taken away and added again.
 */
export const BLOWS = [
  "kill",
  "upgrade",
  "impostor",
  "pause",
  "reset",
  "half_open",
  "slow",
  "status_500",
  "status_503",
  "refuse",
  "hang",
  "truncate",
  "bootstrap_lost",
  "slow_transfer",
  "drain",
  "leave",
] as const;

export type BlowKind = (typeof BLOWS)[number];

/** Blows of which `count` requests are struck; the others last for a time. */
const COUNTED: ReadonlySet<BlowKind> = new Set<BlowKind>([
  "status_500",
  "status_503",
  "refuse",
  "hang",
  "truncate",
  "bootstrap_lost",
  "slow_transfer",
]);

/** An operator's changes: requests that are under way must not notice them. */
const HARMLESS: ReadonlySet<BlowKind> = new Set<BlowKind>(["drain", "leave"]);

/** Blows that only a prefill server of SGLang can have. */
const OF_TRANSFERS: ReadonlySet<BlowKind> = new Set<BlowKind>(["bootstrap_lost", "slow_transfer"]);

/** Something that happens to some workers at the same moment. */
export interface Blow {
  readonly kind: BlowKind;
  readonly atMs: number;
  /** The workers' numbers: one, both halves of a pair, or all. */
  readonly workers: readonly number[];
  readonly lastsMs: number;
  /** Requests that are struck; 1 for a blow that lasts for a time. */
  readonly count: number;
  /** Events before a cut, factor of a delay. */
  readonly value: number;
}

/** The workers that blows can fall on. */
export interface Targets {
  readonly workers: number;
  /** Numbers of the prefill server and the decode server of each pair; empty for whole servers. */
  readonly pairs: readonly (readonly [prefill: number, decode: number])[];
  /** True for SGLang's pairs. */
  readonly bootstrap: boolean;
}

export function isCounted(kind: BlowKind): boolean {
  return COUNTED.has(kind);
}

export function isHarmless(kind: BlowKind): boolean {
  return HARMLESS.has(kind);
}

/** So many blows of all kinds at random moments before `untilMs`, each of up to `longestMs`. */
export function randomBlows(
  random: Random,
  { workers, pairs, bootstrap }: Targets,
  { blows, untilMs, longestMs }: { blows: number; untilMs: number; longestMs: number },
): readonly Blow[] {
  const all = Array.from({ length: workers }, (_, worker) => worker);
  return Array.from({ length: blows }, () => {
    const kind = random.pick(BLOWS.filter((kind) => bootstrap || !OF_TRANSFERS.has(kind)));
    const scope = random.int(8);
    const struck = OF_TRANSFERS.has(kind)
      ? [random.pick(pairs)[0]]
      : scope === 0
      ? all
      : scope <= 2 && pairs.length > 0
      ? random.pick(pairs)
      : [random.int(workers)];
    return {
      kind,
      atMs: random.int(untilMs),
      workers: struck,
      lastsMs: 50 + random.int(longestMs),
      count: isCounted(kind) ? 1 + random.int(3) : 1,
      value: 1 + random.int(8),
    };
  }).sort((a, b) => a.atMs - b.atMs);
}
