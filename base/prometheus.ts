/** Names and values of a series' labels. */
export type Labels = Readonly<Record<string, string>>;

/** A family of values read at the time of the scrape. */
export interface Gauge {
  readonly name: string;
  readonly help: string;
  readonly values: readonly { readonly labels: Labels; readonly value: number }[];
}

/** Numbers that only grow, by their labels. */
export class Counter {
  readonly #name: string;
  readonly #help: string;
  readonly #values = new Map<string, number>();

  constructor(name: string, help: string) {
    this.#name = name;
    this.#help = help;
  }

  add(labels: Labels, amount = 1): void {
    const text = labelText(labels);
    this.#values.set(text, (this.#values.get(text) ?? 0) + amount);
  }

  render(lines: string[]): void {
    head(lines, this.#name, this.#help, "counter");
    for (const [labels, value] of this.#values) lines.push(`${this.#name}${labels} ${value}`);
  }
}

/** Counts of what was observed up to each of some bounds, by its labels. */
export class Histogram {
  readonly #name: string;
  readonly #help: string;
  readonly #bounds: readonly number[];
  readonly #series = new Map<string, { readonly counts: number[]; sum: number; count: number }>();

  /** `bounds`: upper bounds, ascending. */
  constructor(name: string, help: string, bounds: readonly number[]) {
    this.#name = name;
    this.#help = help;
    this.#bounds = bounds;
  }

  observe(labels: Labels, value: number): void {
    const text = labelText(labels);
    let series = this.#series.get(text);
    if (series === undefined) {
      series = { counts: this.#bounds.map(() => 0), sum: 0, count: 0 };
      this.#series.set(text, series);
    }
    series.sum += value;
    series.count++;
    for (const [at, bound] of this.#bounds.entries()) if (value <= bound) series.counts[at]!++;
  }

  render(lines: string[]): void {
    const name = this.#name;
    head(lines, name, this.#help, "histogram");
    for (const [labels, { counts, sum, count }] of this.#series) {
      const inner = labels.slice(1, -1);
      for (const [at, bound] of this.#bounds.entries()) {
        lines.push(`${name}_bucket{${inner},le="${bound}"} ${counts[at]}`);
      }
      lines.push(`${name}_bucket{${inner},le="+Inf"} ${count}`);
      lines.push(`${name}_sum${labels} ${sum}`, `${name}_count${labels} ${count}`);
    }
  }
}

/** Writes a gauge's values. */
export function renderGauge(lines: string[], { name, help, values }: Gauge): void {
  head(lines, name, help, "gauge");
  for (const { labels, value } of values) lines.push(`${name}${labelText(labels)} ${value}`);
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
