import type { PlannedEngine } from "../plan/plan_types.ts";

/** Engines of one model and role: pods of one workload. */

export interface Workload {
  readonly name: string;
  readonly engines: readonly [PlannedEngine, ...PlannedEngine[]];
}
/** Labels by which pods are found, by services and by `--discover kubernetes`. */

export function labelsOf({ name, engines: [first] }: Workload): Record<string, string> {
  return {
    "app.kubernetes.io/name": name,
    "app.kubernetes.io/part-of": "canopy",
    "canopy.dev/model": first.modelKey.replace(/[^\w.-]+/g, "-").slice(0, 63),
    "canopy.dev/role": first.role,
  };
}
/** What a scaler should look at; replicas beyond those of the router's configuration need discovery. */

export function hintsOf({ engines: [first] }: Workload): Record<string, string> {
  const metric = first.family === "vllm"
    ? "vllm:num_requests_waiting"
    : first.role === "prefill"
    ? "sglang:num_prefill_bootstrap_queue_reqs"
    : first.role === "decode"
    ? "sglang:num_decode_prealloc_queue_reqs"
    : "sglang:num_queue_reqs";
  return {
    "prometheus.io/scrape": "true",
    "prometheus.io/port": String(first.port),
    "prometheus.io/path": "/metrics",
    "canopy.dev/scale-on": `${metric} > 8 for 60s`,
    ...(first.bootstrapPort === undefined
      ? {}
      : { "canopy.dev/bootstrap-port": String(first.bootstrapPort) }),
  };
}
