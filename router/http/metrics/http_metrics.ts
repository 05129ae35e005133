import type { Clock } from "../../../base/clock.ts";
import {
  Counter,
  type Distribution,
  type DistributionValues,
  type FamilyValues,
  Histogram,
  type MetricsText,
} from "../../../base/prometheus.ts";

/** Upper bounds in seconds, those of SGLang's gateway. */
export const GATEWAY_BUCKETS_S: readonly number[] = [
  ...[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10],
  ...[15, 30, 45, 60, 90, 120, 180, 240],
];

const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]);

/** The series of one kind of answer. */
interface HttpSeries {
  readonly requests: { value: number };
  readonly responses: { value: number };
  readonly seconds: { readonly value: Distribution };
}

/** What `HttpMetrics` has counted, as another thread can be sent it. */
export interface HttpCounts {
  readonly requests: FamilyValues<number>;
  readonly responses: FamilyValues<number>;
  readonly seconds: FamilyValues<DistributionValues>;
  readonly active: number;
}

/** Counts of HTTP requests under the names of SGLang's gateway, so that its dashboards work. */
export class HttpMetrics {
  readonly #clock: Clock;
  readonly #requests = new Counter("smg_http_requests_total", "Requests that arrived.");
  readonly #responses = new Counter("smg_http_responses_total", "Requests by the head of their answer.");
  readonly #seconds = new Histogram(
    "smg_http_request_duration_seconds",
    "Time from a request to the head of its answer.",
    GATEWAY_BUCKETS_S,
  );
  readonly #series = new Map<string, HttpSeries>();
  /** What was counted last: most requests are like the one before. */
  #latest: { readonly method: string; readonly path: string; readonly series: HttpSeries } | undefined;
  /** Requests whose answer has not begun. */
  active = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Counts one request; `path`: that of its route, `startedMs`: its arrival, in clock ms. */
  count(
    { method, path, startedMs }: { method: string; path: string; startedMs: number },
    head: Response,
  ): void {
    const series = this.#seriesOf(method, path, head);
    series.requests.value++;
    series.responses.value++;
    series.seconds.value.observe((this.#clock.now() - startedMs) / 1000);
  }

  #seriesOf(asked: string, path: string, head: Response): HttpSeries {
    const { status } = head;
    const latest = this.#latest;
    if (status === 200 && latest?.path === path && latest.method === asked) return latest.series;
    const error_code = status < 400 ? "" : head.headers.get("x-smg-error-code") ?? "";
    const method = METHODS.has(asked) ? asked : "other";
    const key = `${method} ${path} ${status} ${error_code}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      const at = { method, path };
      series = {
        requests: this.#requests.series(at),
        seconds: this.#seconds.series(at),
        responses: this.#responses.series({ path, status_code: String(status), error_code }),
      };
      this.#series.set(key, series);
    }
    if (status === 200) this.#latest = { method: asked, path, series };
    return series;
  }

  values(): HttpCounts {
    return {
      requests: this.#requests.values(),
      responses: this.#responses.values(),
      seconds: this.#seconds.values(),
      active: this.active,
    };
  }

  absorb({ requests, responses, seconds, active }: HttpCounts): void {
    this.#requests.absorb(requests);
    this.#responses.absorb(responses);
    this.#seconds.absorb(seconds);
    this.active += active;
  }

  write(text: MetricsText): void {
    for (const family of [this.#requests, this.#responses, this.#seconds]) family.write(text);
    text.gauge("smg_http_connections_active", "Requests whose answer has not begun.", this.active);
  }
}
