import type { EngineSequence } from "./sequence.ts";

/** A Prometheus histogram. */
export class EngineHistogram {
  readonly bounds: readonly number[];
  readonly counts: number[];
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = bounds.map(() => 0);
  }

  observe(value: number): void {
    this.sum += value;
    this.count++;
    for (let i = 0; i < this.bounds.length; i++) if (value <= this.bounds[i]!) this.counts[i]!++;
  }
}

const SECONDS = [
  0.001,
  0.005,
  0.01,
  0.02,
  0.04,
  0.06,
  0.08,
  0.1,
  0.25,
  0.5,
  0.75,
  1,
  2.5,
  5,
  7.5,
  10,
  20,
  40,
  80,
];

/** What an engine counts of requests that have ended. */
export class EngineMetrics {
  readonly firstTokenSeconds: EngineHistogram = new EngineHistogram(SECONDS);
  readonly requestSeconds: EngineHistogram = new EngineHistogram(SECONDS);
  readonly queueSeconds: EngineHistogram = new EngineHistogram(SECONDS);
  readonly finished: Map<string, number> = new Map();
  rejected = 0;

  /** Books an ended sequence. */
  record(sequence: EngineSequence, reason: string): void {
    this.finished.set(reason, (this.finished.get(reason) ?? 0) + 1);
    const endMs = sequence.endedMs;
    if (endMs === undefined) return;
    this.requestSeconds.observe((endMs - sequence.arrivedMs) / 1000);
    if (sequence.scheduledMs !== undefined) {
      this.queueSeconds.observe((sequence.scheduledMs - sequence.arrivedMs) / 1000);
    }
    if (sequence.prefilledMs !== undefined) {
      this.firstTokenSeconds.observe((sequence.prefilledMs - sequence.arrivedMs) / 1000);
    }
  }
}

/** Writes the Prometheus text format. */
export class MetricsText {
  #lines: string[] = [];
  readonly #labels: string;

  constructor(labels: Readonly<Record<string, string>>) {
    this.#labels = labelText(labels);
  }

  gauge(
    name: string,
    help: string,
    values: number | readonly (readonly [Record<string, string>, number])[],
  ): void {
    this.#values("gauge", name, help, values);
  }

  counter(
    name: string,
    help: string,
    values: number | readonly (readonly [Record<string, string>, number])[],
  ): void {
    this.#values("counter", name, help, values);
  }

  histogram(name: string, help: string, histogram: EngineHistogram): void {
    this.#head("histogram", name, help);
    for (const [i, bound] of histogram.bounds.entries()) {
      this.#value(`${name}_bucket`, { le: number(bound) }, histogram.counts[i]!);
    }
    this.#value(`${name}_bucket`, { le: "+Inf" }, histogram.count);
    this.#value(`${name}_count`, {}, histogram.count);
    this.#value(`${name}_sum`, {}, histogram.sum);
  }

  toString(): string {
    return this.#lines.join("\n") + "\n";
  }

  #values(
    type: string,
    name: string,
    help: string,
    values: number | readonly (readonly [Record<string, string>, number])[],
  ): void {
    this.#head(type, name, help);
    if (typeof values === "number") this.#value(name, {}, values);
    else for (const [labels, value] of values) this.#value(name, labels, value);
  }

  #head(type: string, name: string, help: string): void {
    this.#lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
  }

  #value(name: string, labels: Readonly<Record<string, string>>, value: number): void {
    const more = labelText(labels);
    const all = more === "" ? this.#labels : this.#labels === "" ? more : `${this.#labels},${more}`;
    this.#lines.push(`${name}{${all}} ${number(value)}`);
  }
}

function labelText(labels: Readonly<Record<string, string>>): string {
  return Object.entries(labels).map(([name, value]) => `${name}="${value}"`).join(",");
}

function number(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}
