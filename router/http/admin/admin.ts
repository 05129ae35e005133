import { Hono } from "hono";
import { MetricsText } from "../../../base/prometheus.ts";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";

/** Metrics for an operator's tools. */
export function adminRoutes(http: HttpServices): Hono<Env> {
  return new Hono<Env>().get(
    "/metrics",
    guarded(http, "api", { summary: "Metrics in Prometheus' text format.", contentType: "text/plain" }),
    (call) =>
      call.body(metricsText(http), 200, { "content-type": "text/plain; version=0.0.4; charset=utf-8" }),
  );
}

function metricsText(http: HttpServices): string {
  const text = new MetricsText();
  http.metrics.write(text);
  text.gauge("canopy_requests_in_flight", "Requests that are being served.", http.drain.inFlight);
  text.gauge("canopy_places_in_use", "Runs and relayed requests that hold a place.", http.admission.running);
  text.gauge("canopy_requests_queued", "Requests that wait for a place.", http.admission.waiting);
  const workers = [...http.models.values()].flatMap((model) =>
    model.pool.workers().map((status) => ({ labels: { model: model.name, worker: status.id }, status }))
  );
  text.gauge(
    "canopy_worker_in_flight",
    "Requests in flight at a worker.",
    workers.map(({ labels, status }) => [labels, status.inFlight] as const),
  );
  text.gauge(
    "canopy_worker_up",
    "1 while a worker may get scope.",
    workers.map(({ labels, status: { breaker, health } }) =>
      [labels, breaker !== "open" && (health === "healthy" || health === "unknown") ? 1 : 0] as const
    ),
  );
  return text.toString();
}
