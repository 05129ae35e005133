import type { Clock } from "../../base/clock.ts";
import type { Run } from "../moa/run_types.ts";
import { byModel } from "./openai/usage.ts";

type Labels = Readonly<Record<string, string>>;

/** Upper bounds in seconds of the duration histogram. */
const DURATION_BUCKETS_S = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640];

interface Histogram {
  readonly counts: number[];
  sum: number;
  count: number;
}

/**
 * What GET /metrics shows of requests and runs, in Prometheus' text format. Labels are names from the config and a
 * few fixed words, so the number of series is bounded.
 */
export class Metrics {
  readonly #clock: Clock;
  readonly #requests = new Map<string, number>();
  readonly #agentCalls = new Map<string, number>();
  readonly #tokens = new Map<string, number>();
  readonly #runSeconds = new Map<string, Histogram>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request that has ended. `model`: a configured name, or `unknown`. */
  requestEnded(model: string, outcome: Outcome): void {
    add(this.#requests, labelText({ model, outcome }), 1);
  }

  /** Follows a run to its end and counts what it used. */
  followRun(graph: string, run: Run): void {
    const startedMs = this.#clock.now();
    void run.ended.then(() => {
      this.#observe(graph, (this.#clock.now() - startedMs) / 1000);
      for (const [model, counts] of byModel(run.usage().agents)) {
        add(this.#agentCalls, labelText({ model }), counts.calls);
        const kinds = {
          prompt: counts.promptTokens,
          cached: counts.cachedTokens ?? 0,
          completion: counts.completionTokens,
          reasoning: counts.reasoningTokens,
          wasted: counts.wastedTokens,
        };
        for (const [kind, tokens] of Object.entries(kinds)) {
          add(this.#tokens, labelText({ model, kind }), tokens);
        }
      }
    });
  }

  /** The text of GET /metrics; `gauges` are read now. */
  render(gauges: readonly Gauge[]): string {
    const lines: string[] = [];
    counter(lines, "canopy_requests_total", "Requests that ended, by model and outcome.", this.#requests);
    counter(lines, "canopy_agent_calls_total", "Engine calls of runs, by model.", this.#agentCalls);
    counter(lines, "canopy_tokens_total", "Tokens of runs as the engines counted them.", this.#tokens);
    this.#renderDurations(lines);
    for (const gauge of gauges) {
      head(lines, gauge.name, gauge.help, "gauge");
      for (const { labels, value } of gauge.values) lines.push(`${gauge.name}${labelText(labels)} ${value}`);
    }
    return lines.join("\n") + "\n";
  }

  #observe(graph: string, seconds: number): void {
    const labels = labelText({ graph });
    let histogram = this.#runSeconds.get(labels);
    if (histogram === undefined) {
      histogram = { counts: DURATION_BUCKETS_S.map(() => 0), sum: 0, count: 0 };
      this.#runSeconds.set(labels, histogram);
    }
    histogram.sum += seconds;
    histogram.count++;
    for (const [at, bound] of DURATION_BUCKETS_S.entries()) if (seconds <= bound) histogram.counts[at]!++;
  }

  #renderDurations(lines: string[]): void {
    const name = "canopy_run_duration_seconds";
    head(lines, name, "Time from the start of a run to its end.", "histogram");
    for (const [labels, { counts, sum, count }] of this.#runSeconds) {
      const inner = labels.slice(1, -1);
      for (const [at, bound] of DURATION_BUCKETS_S.entries()) {
        lines.push(`${name}_bucket{${inner},le="${bound}"} ${counts[at]}`);
      }
      lines.push(`${name}_bucket{${inner},le="+Inf"} ${count}`);
      lines.push(`${name}_sum${labels} ${sum}`, `${name}_count${labels} ${count}`);
    }
  }
}

/** How a request ended: `cancelled` by the client or the drain; `stream_error` after the head was sent. */
export type Outcome = "ok" | "client_error" | "server_error" | "cancelled" | "stream_error";

/** A family of values read at the time of the scrape. */
export interface Gauge {
  readonly name: string;
  readonly help: string;
  readonly values: readonly { readonly labels: Labels; readonly value: number }[];
}

function add(family: Map<string, number>, labels: string, amount: number): void {
  family.set(labels, (family.get(labels) ?? 0) + amount);
}

function counter(lines: string[], name: string, help: string, family: ReadonlyMap<string, number>): void {
  head(lines, name, help, "counter");
  for (const [labels, value] of family) lines.push(`${name}${labels} ${value}`);
}

function head(lines: string[], name: string, help: string, type: string): void {
  lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
}

function labelText(labels: Labels): string {
  const parts = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return parts.length === 0 ? "" : `{${parts.join(",")}}`;
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
