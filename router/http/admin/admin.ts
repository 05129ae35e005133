import { Hono } from "hono";
import { MetricsText } from "../../../base/prometheus.ts";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import { naming } from "../gate/naming.ts";
import type { HttpServices } from "../gate/services.ts";
import { writeWorkerMetrics } from "../metrics/worker_metrics.ts";
import type { WorkerStatus } from "../../pool/worker.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Metrics for an operator's tools. */
export function adminRoutes(http: HttpServices): Hono<Env> {
  return new Hono<Env>().get(
    "/metrics",
    guarded(http, "api", { summary: "Metrics in Prometheus' text format.", contentType: "text/plain" }),
    (call) =>
      call.body(routerMetrics(http, naming(http, call)), 200, {
        "content-type": "text/plain; version=0.0.4; charset=utf-8",
      }),
  );
}

/** All metrics in Prometheus' text format. */
export function routerMetrics(
  http: Pick<HttpServices, "metrics" | "drain" | "admission" | "models">,
  nameOf: (worker: WorkerStatus) => string,
): string {
  const text = new MetricsText();
  http.metrics.write(text);
  text.gauge("canopy_requests_in_flight", "Requests that are being served.", http.drain.inFlight);
  text.gauge("canopy_places_in_use", "Runs and relayed requests that hold a place.", http.admission.running);
  text.gauge("canopy_requests_queued", "Requests that wait for a place.", http.admission.waiting);
  const { allowed, rejected } = http.admission.counts;
  text.counter("smg_http_rate_limit_total", "Requests that got a place, and those turned away.", [
    [{ result: "allowed" }, allowed],
    [{ result: "rejected" }, rejected],
  ]);
  writeWorkerMetrics(text, http.models.values(), nameOf);
  text.gauge(
    "canopy_tokenizer",
    "1 for who makes the tokens of a model's prompts: the router, or its engine, which is asked ahead or never.",
    [...http.models.values()].map((model) => [{ model: model.name, by: tokensBy(model) }, 1] as const),
  );
  return text.toString();
}

function tokensBy({ tokenizer, askTokens }: ServedModel): "router" | "engine_asked" | "engine" {
  if (tokenizer !== undefined) return "router";
  return askTokens === undefined ? "engine" : "engine_asked";
}
