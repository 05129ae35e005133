import { type Sample, sumOfSamples } from "./metrics_text.ts";

/** What /metrics said at a time of the browser's clock, in ms. */
export interface Snapshot {
  readonly atMs: number;
  readonly samples: readonly Sample[];
}

/** A point of a chart; a gap where nothing was there to be measured. */
export interface ChartPoint {
  readonly atMs: number;
  readonly value: number | undefined;
}

/** One live chart: what it shows is the change of counters between two looks at /metrics. */
export interface ChartKind {
  readonly title: string;
  readonly unit: string;
  /** The counters that it is made of. */
  readonly from: string;
  valueOf(before: Snapshot, after: Snapshot): number | undefined;
}

/** Snapshots that are kept: ten minutes, one each two seconds. */
const MOST_SNAPSHOTS = 300;

/** The live charts. */
export const CHART_KINDS: readonly ChartKind[] = [
  {
    title: "First token of a virtual or engine model, median",
    unit: "s",
    from: "smg_router_ttft_seconds",
    valueOf: (before, after) =>
      quantileBetween(before, after, { name: "smg_router_ttft_seconds", share: 0.5 }),
  },
  ...([["median", 0.5], ["99th percentile", 0.99]] as const).map(([name, share]): ChartKind => ({
    title: `Between two tokens of a root's answer, ${name}`,
    unit: "s",
    from: "canopy_inter_token_seconds",
    valueOf: (before, after) => quantileBetween(before, after, { name: "canopy_inter_token_seconds", share }),
  })),
  {
    title: "Duration of runs, median",
    unit: "s",
    from: "canopy_run_duration_seconds",
    valueOf: (before, after) =>
      quantileBetween(before, after, { name: "canopy_run_duration_seconds", share: 0.5 }),
  },
  {
    title: "Tokens written by agents of ended runs",
    unit: "per s",
    from: "canopy_tokens_total, kind completion",
    valueOf: (before, after) => rate(before, after, "canopy_tokens_total", { kind: "completion" }),
  },
  {
    title: "Prompt tokens found in a cache",
    unit: "%",
    from: "canopy_tokens_total, kinds cached and prompt",
    valueOf: (before, after) => {
      const prompt = change(before, after, "canopy_tokens_total", { kind: "prompt" });
      const cached = change(before, after, "canopy_tokens_total", { kind: "cached" });
      return prompt > 0 ? 100 * cached / prompt : undefined;
    },
  },
  {
    title: "Early exits",
    unit: "per s",
    from: "canopy_exit_decisions_total, decision exit",
    valueOf: (before, after) => rate(before, after, "canopy_exit_decisions_total", { decision: "exit" }),
  },
  {
    title: "Requests under way",
    unit: "",
    from: "canopy_requests_in_flight",
    valueOf: (_, { samples }) => sumOfSamples(samples, "canopy_requests_in_flight"),
  },
];

/** The snapshots with one more, the oldest dropped; after a restart of the router counting begins anew. */
export function withSnapshot(all: readonly Snapshot[], next: Snapshot): readonly Snapshot[] {
  const last = all.at(-1);
  const name = "smg_http_requests_total";
  const restarted = last !== undefined && sumOfSamples(next.samples, name) < sumOfSamples(last.samples, name);
  return restarted ? [next] : [...all, next].slice(-MOST_SNAPSHOTS);
}

/** The points of a chart: one for each two neighbours. */
export function chartPoints(kind: ChartKind, all: readonly Snapshot[]): readonly ChartPoint[] {
  return all.slice(1).map((after, at) => ({
    atMs: after.atMs,
    value: kind.valueOf(all[at] ?? after, after),
  }));
}

type Labels = Readonly<Record<string, string>>;

function change(before: Snapshot, after: Snapshot, name: string, labels: Labels): number {
  return sumOfSamples(after.samples, name, labels) - sumOfSamples(before.samples, name, labels);
}

function rate(before: Snapshot, after: Snapshot, name: string, labels: Labels): number | undefined {
  const seconds = (after.atMs - before.atMs) / 1_000;
  return seconds > 0 ? change(before, after, name, labels) / seconds : undefined;
}

/** A quantile of what a histogram counted between the two, within its bucket in proportion; undefined for nothing. */
function quantileBetween(
  before: Snapshot,
  after: Snapshot,
  { name, share }: { readonly name: string; readonly share: number },
): number | undefined {
  const bucket = `${name}_bucket`;
  const bounds = [
    ...new Set(after.samples.flatMap((sample) => sample.name === bucket ? sample.labels["le"] ?? [] : [])),
  ]
    .map((le) => ({ le, bound: le === "+Inf" ? Infinity : Number(le) }))
    .sort((a, b) => a.bound - b.bound);
  const counts = bounds.map(({ le }) => change(before, after, bucket, { le }));
  const wanted = share * (counts.at(-1) ?? 0);
  if (wanted <= 0) return undefined;
  const at = counts.findIndex((count) => count >= wanted);
  const [low, high] = [bounds[at - 1]?.bound ?? 0, bounds[at]?.bound ?? 0];
  if (!Number.isFinite(high)) return low;
  const below = counts[at - 1] ?? 0;
  return low + (high - low) * (wanted - below) / ((counts[at] ?? 0) - below);
}
