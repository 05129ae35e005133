/** Names and values of a series' labels. */
export type Labels = Readonly<Record<string, string>>;

/** The value of a family's only series, or the values of several by their labels. */
type Samples<Value> = Value | Iterable<readonly [Labels, Value]>;

/** Observations, counted up to each of some bounds. */
export class Distribution {
  /** Upper bounds, ascending. */
  readonly bounds: readonly number[];
  /** Observations of at most each bound and more than the one before it. */
  readonly counts: number[];
  sum = 0;
  count = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = bounds.map(() => 0);
  }

  /** Counts one observation, or as many equal ones. */
  observe(value: number, times = 1): void {
    this.sum += value * times;
    this.count += times;
    let at = 0;
    while (at < this.bounds.length && !(value <= this.bounds[at]!)) at++;
    if (at < this.bounds.length) this.counts[at]! += times;
  }
}

/** Writes Prometheus' text format, one family of series after the other. */
export class MetricsText {
  readonly #lines: string[] = [];
  readonly #common: string;
  readonly #format: (value: number) => string;

  /** `labels`: of all series. `format`: the spelling of numbers, by default JavaScript's. */
  constructor(options: { labels?: Labels; format?: (value: number) => string } = {}) {
    this.#common = labelText(options.labels ?? {});
    this.#format = options.format ?? String;
  }

  gauge(name: string, help: string, samples: Samples<number>): void {
    this.#numbers("gauge", name, help, samples);
  }

  counter(name: string, help: string, samples: Samples<number>): void {
    this.#numbers("counter", name, help, samples);
  }

  histogram(name: string, help: string, samples: Samples<Distribution>): void {
    this.#head("histogram", name, help);
    for (const [labels, { bounds, counts, sum, count }] of seriesOf(samples)) {
      let upTo = 0;
      for (const [at, bound] of bounds.entries()) {
        upTo += counts[at]!;
        this.#line(`${name}_bucket`, { ...labels, le: this.#format(bound) }, upTo);
      }
      this.#line(`${name}_bucket`, { ...labels, le: "+Inf" }, count);
      this.#line(`${name}_count`, labels, count);
      this.#line(`${name}_sum`, labels, sum);
    }
  }

  toString(): string {
    return this.#lines.join("\n") + "\n";
  }

  #numbers(type: string, name: string, help: string, samples: Samples<number>): void {
    this.#head(type, name, help);
    for (const [labels, value] of seriesOf(samples)) this.#line(name, labels, value);
  }

  #head(type: string, name: string, help: string): void {
    this.#lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`);
  }

  #line(name: string, labels: Labels, value: number): void {
    const all = [this.#common, labelText(labels)].filter((part) => part !== "").join(",");
    this.#lines.push(`${name}${all === "" ? "" : `{${all}}`} ${this.#format(value)}`);
  }
}

/** The values of a family, as another thread can be sent them. */
export type FamilyValues<Value> = readonly (readonly [Labels, Value])[];

/** The numbers of a `Distribution`. */
export type DistributionValues = Pick<Distribution, "counts" | "sum" | "count">;

/** Series by their labels, made when they are first used; all of a family have the same labels in one order. */
class Family<Value> {
  protected readonly name: string;
  protected readonly help: string;
  readonly #first: () => Value;
  readonly #series = new Map<string, { readonly labels: Labels; value: Value }>();

  protected constructor(name: string, help: string, first: () => Value) {
    this.name = name;
    this.help = help;
    this.#first = first;
  }

  /** One of its series, for those who use it often: to find it by its labels costs more than to count. */
  series(labels: Labels): { value: Value } {
    const key = Object.values(labels).join("\0");
    let series = this.#series.get(key);
    if (series === undefined) this.#series.set(key, series = { labels, value: this.#first() });
    return series;
  }

  protected *samples(): Generator<readonly [Labels, Value]> {
    for (const { labels, value } of this.#series.values()) yield [labels, value];
  }
}

/** Numbers that only grow, by their labels. */
export class Counter extends Family<number> {
  constructor(name: string, help: string) {
    super(name, help, () => 0);
  }

  add(labels: Labels, amount = 1): void {
    this.series(labels).value += amount;
  }

  /** Adds what was counted elsewhere. */
  absorb(values: FamilyValues<number>): void {
    for (const [labels, value] of values) this.add(labels, value);
  }

  values(): FamilyValues<number> {
    return [...this.samples()];
  }

  write(text: MetricsText): void {
    text.counter(this.name, this.help, this.samples());
  }
}

/** Distributions by their labels. */
export class Histogram extends Family<Distribution> {
  /** `bounds`: upper bounds, ascending. */
  constructor(name: string, help: string, bounds: readonly number[]) {
    super(name, help, () => new Distribution(bounds));
  }

  observe(labels: Labels, value: number): void {
    this.series(labels).value.observe(value);
  }

  /** Adds what was observed elsewhere, with the same bounds. */
  absorb(values: FamilyValues<DistributionValues>): void {
    for (const [labels, { counts, sum, count }] of values) {
      const own = this.series(labels).value;
      own.sum += sum;
      own.count += count;
      for (const [at, amount] of counts.entries()) own.counts[at]! += amount;
    }
  }

  values(): FamilyValues<DistributionValues> {
    return [...this.samples()].map(([labels, { counts, sum, count }]) => [labels, { counts, sum, count }]);
  }

  write(text: MetricsText): void {
    text.histogram(this.name, this.help, this.samples());
  }
}

function seriesOf<Value extends number | Distribution>(
  samples: Samples<Value>,
): Iterable<readonly [Labels, Value]> {
  return typeof samples === "object" && Symbol.iterator in samples ? samples : [[{}, samples]];
}

/** Labels as they stand between the braces. */
export function labelText(labels: Labels): string {
  return Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`).join(",");
}

function escapeLabel(value: string): string {
  return value.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}
