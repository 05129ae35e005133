import type { MetricsText } from "../../../base/prometheus.ts";
import type { WorkerStatus } from "../../pool/worker.ts";
import type { ServedModel } from "../../served/served_model.ts";

const BREAKER_STATES = { closed: 0, open: 1, half_open: 2 };

/** Writes the state of all workers: ours, and under the names of SGLang's gateway. `nameOf`: its label `worker`. */
export function writeWorkerMetrics(
  text: MetricsText,
  models: Iterable<ServedModel>,
  nameOf: (worker: WorkerStatus) => string,
): void {
  const workers = [...models].flatMap((model) => model.pool.workers().map((worker) => ({ model, worker })));
  const gauge = (name: string, help: string, value: (worker: WorkerStatus) => number) =>
    text.gauge(
      name,
      help,
      // One server may serve several models: the URL alone would name several series.
      workers.map(({ model, worker }) =>
        [{ worker: nameOf(worker), model: model.name }, value(worker)] as const
      ),
    );
  const own = (name: string, help: string, value: (worker: WorkerStatus) => number) =>
    text.gauge(
      name,
      help,
      workers.map(({ model, worker }) => [{ model: model.name, worker: worker.id }, value(worker)] as const),
    );
  own("canopy_worker_in_flight", "Requests in flight at a worker.", ({ inFlight }) => inFlight);
  own(
    "canopy_worker_up",
    "1 while a worker may get work.",
    ({ breaker, health }) => breaker !== "open" && (health === "healthy" || health === "unknown") ? 1 : 0,
  );
  gauge("smg_worker_health", "1 while a worker is healthy.", ({ health }) => health === "healthy" ? 1 : 0);
  gauge("smg_worker_requests_active", "Requests in flight at a worker.", ({ inFlight }) => inFlight);
  gauge(
    "smg_worker_cb_state",
    "A worker's breaker: 0 closed, 1 open, 2 half open.",
    ({ breaker }) => BREAKER_STATES[breaker],
  );
  text.counter(
    "smg_worker_cb_outcomes_total",
    "Requests to a worker that ended well, and that failed.",
    workers.flatMap(({ model, worker }) => {
      const labels = { worker: nameOf(worker), model: model.name };
      return [
        [{ ...labels, outcome: "success" }, worker.served] as const,
        [{ ...labels, outcome: "failure" }, worker.failures] as const,
      ];
    }),
  );
  const pools = Map.groupBy(workers, ({ model, worker }) => `${worker.role ?? "regular"}\0${model.name}`);
  text.gauge(
    "smg_worker_pool_size",
    "Workers of a model.",
    [...pools].map(([key, { length }]) => {
      const [worker_type = "", model = ""] = key.split("\0");
      return [{ worker_type, connection_mode: "http", model }, length] as const;
    }),
  );
}
