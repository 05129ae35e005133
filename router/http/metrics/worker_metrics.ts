import type { MetricsText } from "../../../base/prometheus.ts";
import type { WorkerStatus } from "../../pool/worker.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** A worker, and the model that it serves. */
interface Of {
  readonly model: ServedModel;
  readonly worker: WorkerStatus;
}

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
  gauge(
    "smg_worker_cb_consecutive_failures",
    "Requests that failed since one ended well.",
    ({ counts }) => counts.failedInRow,
  );
  gauge(
    "smg_worker_cb_consecutive_successes",
    "Requests that ended well since one failed.",
    ({ counts }) => counts.goodInRow,
  );
  text.counter(
    "smg_worker_cb_transitions_total",
    "Changes of a breaker's state.",
    workers.flatMap(({ model, worker }) =>
      [...worker.counts.transitions].map(([change, count]) => {
        const [from = "", to = ""] = change.split(" ");
        return [{ worker: nameOf(worker), model: model.name, from, to }, count] as const;
      })
    ),
  );
  writeSums(text, workers);
}

/** Sums over the workers of a kind, as SGLang's gateway has them. */
function writeSums(text: MetricsText, workers: readonly Of[]): void {
  const kinds = [...Map.groupBy(workers, ({ worker }) => worker.role ?? "regular")];
  text.counter(
    "smg_worker_health_checks_total",
    "Health checks by their results.",
    kinds.flatMap(([worker_type, of]) => [
      [{ worker_type, result: "success" }, sum(of, ({ goodChecks }) => goodChecks)] as const,
      [{ worker_type, result: "failure" }, sum(of, ({ badChecks }) => badChecks)] as const,
    ]),
  );
  const chosen = [...Map.groupBy(workers, (of) => `${kindOf(of)}\0${of.model.name}\0${policyOf(of)}`)];
  text.counter(
    "smg_worker_selection_total",
    "Requests and warms that a policy placed.",
    chosen.map(([key, of]) => {
      const [worker_type = "", model = "", policy = ""] = key.split("\0");
      return [
        { worker_type, connection_mode: "http", model, policy },
        sum(of, ({ taken }) => taken),
      ] as const;
    }),
  );
  const pools = Map.groupBy(workers, (of) => `${kindOf(of)}\0${of.model.name}`);
  text.gauge(
    "smg_worker_pool_size",
    "Workers of a model.",
    [...pools].map(([key, { length }]) => {
      const [worker_type = "", model = ""] = key.split("\0");
      return [{ worker_type, connection_mode: "http", model }, length] as const;
    }),
  );
}

function kindOf({ worker }: Of): string {
  return worker.role ?? "regular";
}

function policyOf({ model: { config }, worker: { role } }: Of): string {
  const own = role === "prefill"
    ? config.prefill_policy
    : role === "decode"
    ? config.decode_policy
    : undefined;
  return own ?? config.policy;
}

function sum(of: readonly Of[], value: (counts: WorkerStatus["counts"]) => number): number {
  return of.reduce((all, { worker }) => all + value(worker.counts), 0);
}
