import type { Clock } from "../../../base/clock.ts";
import {
  Counter,
  type Distribution,
  type DistributionValues,
  type FamilyValues,
  Histogram,
  type Labels,
  type MetricsText,
} from "../../../base/prometheus.ts";
import { endpointOf } from "./endpoint_of.ts";
import { GATEWAY_BUCKETS_S } from "./http_metrics.ts";

/** One request for a model, whose answer is timed. */
export interface TimedRequest {
  /** Name of an engine model or a graph. */
  readonly model: string;
  readonly backend: "regular" | "pd" | "graph";
  readonly path: string;
  readonly stream: boolean;
}

/** Times an answer. */
export interface AnswerTimer {
  /** The first piece of a stream is here. */
  first(): void;
  /** The answer has ended; `ok`, or what became of it. */
  ended(outcome: string): void;
}

/** The series of one kind of request. */
interface ModelSeries {
  readonly labels: Labels;
  readonly requests: { value: number };
  readonly duration: { readonly value: Distribution };
}

/** What `ModelMetrics` has counted, as another thread can be sent it. */
export interface ModelCounts {
  readonly requests: FamilyValues<number>;
  readonly errors: FamilyValues<number>;
  readonly seconds: FamilyValues<DistributionValues>;
  readonly ttft: FamilyValues<DistributionValues>;
}

/** One of very many: an object of a class has no functions of its own. */
class SeriesTimer implements AnswerTimer {
  readonly #metrics: ModelMetrics;
  readonly #series: ModelSeries;
  readonly #isStream: boolean;
  readonly #startedMs: number;

  constructor(metrics: ModelMetrics, series: ModelSeries, isStream: boolean, startedMs: number) {
    this.#metrics = metrics;
    this.#series = series;
    this.#isStream = isStream;
    this.#startedMs = startedMs;
  }

  first(): void {
    if (this.#isStream) this.#metrics.began(this.#series, this.#metrics.secondsSince(this.#startedMs));
  }

  ended(outcome: string): void {
    this.#series.duration.value.observe(this.#metrics.secondsSince(this.#startedMs));
    if (outcome !== "ok") this.#metrics.failed(this.#series, outcome);
  }
}

/** Requests for models, with their latencies: ours, and under the names of SGLang's gateway. */
export class ModelMetrics {
  readonly #clock: Clock;
  readonly #requests = new Counter("smg_router_requests_total", "Requests for models.");
  readonly #errors = new Counter(
    "smg_router_request_errors_total",
    "Requests for models that did not end well.",
  );
  readonly #seconds = new Histogram(
    "smg_router_request_duration_seconds",
    "Time from a request for a model to the end of its answer.",
    GATEWAY_BUCKETS_S,
  );
  readonly #ttft = new Histogram(
    "smg_router_ttft_seconds",
    "Time from a request for a model to the first piece of its stream.",
    GATEWAY_BUCKETS_S,
  );

  readonly #series = new Map<string, ModelSeries>();
  /** What was begun last: most requests are like the one before. */
  #latest: { readonly request: TimedRequest; readonly series: ModelSeries } | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts a request and begins to time its answer. */
  begin(request: TimedRequest): AnswerTimer {
    const series = this.#seriesOf(request);
    series.requests.value++;
    return new SeriesTimer(this, series, request.stream, this.#clock.now());
  }

  /** Time since `startedMs`, in seconds. */
  secondsSince(startedMs: number): number {
    return (this.#clock.now() - startedMs) / 1000;
  }

  /** Takes in the time until the first piece of a stream. */
  began({ labels }: ModelSeries, seconds: number): void {
    this.#ttft.observe(labels, seconds);
  }

  /** Takes in that an answer did not end well. */
  failed({ labels }: ModelSeries, outcome: string): void {
    this.#errors.add({ ...labels, error_type: outcome });
  }

  #seriesOf(request: TimedRequest): ModelSeries {
    const { model, backend, path, stream } = request;
    const latest = this.#latest?.request;
    if (
      latest?.model === model && latest.path === path && latest.stream === stream &&
      latest.backend === backend
    ) return this.#latest!.series;
    const key = `${backend} ${stream} ${path} ${model}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      const labels = {
        router_type: "http",
        backend_type: backend,
        connection_mode: "http",
        model,
        endpoint: endpointOf(path),
      };
      const requests = this.#requests.series({ ...labels, streaming: String(stream) });
      series = { labels, requests, duration: this.#seconds.series(labels) };
      this.#series.set(key, series);
    }
    this.#latest = { request, series };
    return series;
  }

  values(): ModelCounts {
    return {
      requests: this.#requests.values(),
      errors: this.#errors.values(),
      seconds: this.#seconds.values(),
      ttft: this.#ttft.values(),
    };
  }

  absorb({ requests, errors, seconds, ttft }: ModelCounts): void {
    this.#requests.absorb(requests);
    this.#errors.absorb(errors);
    this.#seconds.absorb(seconds);
    this.#ttft.absorb(ttft);
  }

  write(text: MetricsText): void {
    for (const family of [this.#requests, this.#errors, this.#seconds, this.#ttft]) family.write(text);
  }
}
