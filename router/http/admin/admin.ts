import { Hono } from "hono";
import type { Gauge } from "../../../base/prometheus.ts";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";

/** Metrics for an operator's tools. */
export function adminRoutes(http: HttpServices): Hono<Env> {
  return new Hono<Env>().get(
    "/metrics",
    guarded(http.keys, "api", { summary: "Metrics in Prometheus' text format.", contentType: "text/plain" }),
    () =>
      new Response(http.metrics.render(gauges(http)), {
        headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
      }),
  );
}

function gauges(http: HttpServices): Gauge[] {
  const workers = [...http.models.values()].flatMap((model) =>
    model.pool.workers().map((status) => ({
      labels: { model: model.name, worker: status.id },
      status,
    }))
  );
  const single = (name: string, help: string, value: number): Gauge => ({
    name,
    help,
    values: [{ labels: {}, value }],
  });
  return [
    single("canopy_requests_in_flight", "Requests that are being served.", http.drain.inFlight),
    single("canopy_places_in_use", "Runs and relayed requests that hold a place.", http.admission.running),
    single("canopy_requests_queued", "Requests that wait for a place.", http.admission.waiting),
    {
      name: "canopy_worker_in_flight",
      help: "Requests in flight at a worker.",
      values: workers.map(({ labels, status }) => ({ labels, value: status.inFlight })),
    },
    {
      name: "canopy_worker_up",
      help: "1 while a worker may get work.",
      values: workers.map(({ labels, status }) => ({
        labels,
        value: status.breaker !== "open" && (status.health === "healthy" || status.health === "unknown")
          ? 1
          : 0,
      })),
    },
  ];
}
