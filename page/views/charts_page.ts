import { html } from "htm/preact";
import type { VNode } from "preact";
import { useRef } from "preact/hooks";
import { costText, figure, wholeNumber } from "./numbers.ts";
import type { PageContext } from "./page_context.ts";
import { problem } from "./problem.ts";
import { usePolled } from "./use_polled.ts";
import {
  CHART_KINDS,
  type ChartKind,
  type ChartPoint,
  chartPoints,
  type Snapshot,
  withSnapshot,
} from "../state/chart_series.ts";
import { readMetrics, type Sample, sumOfSamples } from "../state/metrics_text.ts";

const POLL_MS = 2_000;
const WIDTH = 600;
const HEIGHT = 120;

const COST = "canopy_cost_total";

/** Sums since the router's start that stand above the charts: title, name and labels of the counters. */
const TOTALS: readonly (readonly [title: string, name: string, labels: Readonly<Record<string, string>>])[] =
  [
    ["Requests for models", "canopy_requests_total", {}],
    ["Runs ended", "canopy_run_duration_seconds_count", {}],
    ["Agents' calls", "canopy_agent_calls_total", {}],
    ["Prompt tokens", "canopy_tokens_total", { kind: "prompt" }],
    ["Cached", "canopy_tokens_total", { kind: "cached" }],
    ["Read ahead", "canopy_tokens_total", { kind: "warm" }],
    ["Written", "canopy_tokens_total", { kind: "completion" }],
    ["Read by nobody", "canopy_tokens_total", { kind: "wasted" }],
    ["Early exits", "canopy_exit_decisions_total", { decision: "exit" }],
    ["Cost of models with a price", COST, {}],
  ];

/** Live charts of /metrics, from when this view was opened. */
export function ChartsPage({ page }: { readonly page: PageContext }): VNode {
  const snapshots = useRef<readonly Snapshot[]>([]);
  const { value, error } = usePolled(async (signal) => {
    const text = await (await page.api.ask("/metrics", { signal })).text();
    snapshots.current = withSnapshot(snapshots.current, {
      atMs: performance.now(),
      samples: readMetrics(text),
    });
    return snapshots.current;
  }, { everyMs: POLL_MS, key: "charts" });
  const all = value ?? [];
  return html`
    <h1>Charts</h1>
        ${problem(error, page)}
        <h2>Since the start of the router</h2>
        <dl class="facts">${totals(all.at(-1)?.samples ?? [])}</dl>
        <h2>Since this view was opened</h2>
        <p
      class="hint">A run counts when it ends, its root's tokens as they come. Each point is the change between two
          looks at <code>/metrics</code>, two seconds apart.</p>
        <div class="charts">${CHART_KINDS.map((kind) => chart(kind, chartPoints(kind, all)))}</div>
  `;
}

function totals(samples: readonly Sample[]): VNode[] {
  // Without prices there are no costs, which is not the same as none.
  const shown = TOTALS.filter(([, name]) => name !== COST || samples.some((one) => one.name === name));
  return shown.map(([title, name, labels]) => {
    const sum = sumOfSamples(samples, name, labels);
    return html`
      <div>
        <dt>${title}</dt>
        <dd data-metric=${name} data-labels=${JSON.stringify(labels)}>${name === COST
          ? costText(sum)
          : wholeNumber(sum)}</dd>
      </div>
    `;
  });
}

/** A line; where nothing was measured, a gap. */
function chart({ title, unit, from }: ChartKind, points: readonly ChartPoint[]): VNode {
  const known = points.flatMap(({ value }) => value ?? []);
  const most = Math.max(...known, 0);
  const last = known.at(-1);
  const says = last === undefined ? "nothing measured yet" : `${figure(last)} ${unit}`;
  return html`
    <figure key=${title}>
      <figcaption><b>${title}</b>: ${says} <small>${from}</small></figcaption>
      <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-label=${`${title}: ${says}`} preserveAspectRatio="none">
        <line x1="0" x2=${WIDTH} y1=${HEIGHT - 1} y2=${HEIGHT - 1} class="base" />
        <path d=${pathOf(points, most)} class="curve" />
      </svg>
      <small>${known.length === 0 ? "" : `highest: ${figure(most)} ${unit}`}</small>
    </figure>
  `;
}

function pathOf(points: readonly ChartPoint[], most: number): string {
  const x = (at: number) => (WIDTH * (at + 1) / Math.max(points.length, 30)).toFixed(1);
  const y = (value: number) => (HEIGHT - 4 - (HEIGHT - 10) * (most > 0 ? value / most : 0)).toFixed(1);
  let isOpen = false;
  return points.map(({ value }, at) => {
    const step = value === undefined ? "" : isOpen ? `L${x(at)} ${y(value)}` : `M${x(at)} ${y(value)}h2`;
    isOpen = value !== undefined;
    return step;
  }).join("");
}
