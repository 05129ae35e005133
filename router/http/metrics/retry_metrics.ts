import {
  Counter,
  type DistributionValues,
  type FamilyValues,
  Histogram,
  type MetricsText,
} from "../../../base/prometheus.ts";
import type { RelayRetries, RetriedRequest } from "../../relay/relay_types.ts";
import { endpointOf } from "./endpoint_of.ts";
import { GATEWAY_BUCKETS_S } from "./http_metrics.ts";

/** What `RetryMetrics` has counted, as another thread can be sent it. */
export interface RetryCounts {
  readonly retries: FamilyValues<number>;
  readonly exhausted: FamilyValues<number>;
  readonly backOff: FamilyValues<DistributionValues>;
}

/** Counts what is tried again, under the names of SGLang's gateway. */
export class RetryMetrics implements RelayRetries {
  readonly #retries = new Counter("smg_worker_retries_total", "Attempts after a first one that failed.");
  readonly #exhausted = new Counter(
    "smg_worker_retries_exhausted_total",
    "Requests that failed although they could have been tried again, had there been attempts or workers left.",
  );
  readonly #backOff = new Histogram(
    "smg_worker_retry_backoff_seconds",
    "Pause before an attempt after a first one.",
    GATEWAY_BUCKETS_S,
  );

  retried(request: RetriedRequest, pauseMs: number): void {
    const labels = labelsOf(request);
    this.#retries.add(labels);
    this.#backOff.observe({ worker_type: labels.worker_type }, pauseMs / 1000);
  }

  exhausted(request: RetriedRequest): void {
    this.#exhausted.add(labelsOf(request));
  }

  values(): RetryCounts {
    return {
      retries: this.#retries.values(),
      exhausted: this.#exhausted.values(),
      backOff: this.#backOff.values(),
    };
  }

  absorb({ retries, exhausted, backOff }: RetryCounts): void {
    this.#retries.absorb(retries);
    this.#exhausted.absorb(exhausted);
    this.#backOff.absorb(backOff);
  }

  write(text: MetricsText): void {
    for (const family of [this.#retries, this.#exhausted, this.#backOff]) family.write(text);
  }
}

function labelsOf({ side, path }: RetriedRequest) {
  return { worker_type: side, endpoint: endpointOf(path) };
}
