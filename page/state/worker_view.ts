import { listField, numberAt, textField } from "./json_fields.ts";
import { type Sample, sumOfSamples } from "./metrics_text.ts";

/** A worker as GET /workers shows it. */
export interface WorkerView {
  readonly id: string;
  readonly model: string;
  readonly engine: string;
  /** `regular`, `prefill` or `decode`. */
  readonly role: string;
  readonly url: string;
  readonly health: string;
  readonly breaker: string;
  readonly inFlight: number;
  readonly served: number;
  readonly failures: number;
  /** Why it is not well, or was not. */
  readonly lastError: string;
}

/** The workers of an answer of GET /workers, those of a model together. */
export function workersOf(answer: unknown): readonly WorkerView[] {
  const workers = listField(answer, "workers").map((worker) => ({
    id: textField(worker, "id") || textField(worker, "url"),
    model: textField(worker, "model"),
    engine: textField(worker, "engine"),
    role: textField(worker, "worker_type"),
    url: textField(worker, "url"),
    health: textField(worker, "health") || "unknown",
    breaker: textField(worker, "breaker"),
    inFlight: numberAt(worker, "in_flight") ?? 0,
    served: numberAt(worker, "served") ?? 0,
    failures: numberAt(worker, "failures") ?? 0,
    lastError: textField(worker, "last_error"),
  }));
  return [...Map.groupBy(workers, ({ model }) => model).values()].flat();
}

/** A model's share in the work of runs, from /metrics. */
export interface ModelTokens {
  readonly model: string;
  readonly calls: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  readonly warmTokens: number;
  /** Undefined where it has no price. */
  readonly cost: number | undefined;
}

/** The counter of costs. */
const COST = "canopy_cost_total";

/** Tokens of runs by model. */
export function modelTokens(samples: readonly Sample[]): readonly ModelTokens[] {
  const calls = samples.filter(({ name }) => name === "canopy_agent_calls_total");
  return calls.map(({ labels: { model = "" }, value }) => {
    const tokens = (kind: string) => sumOfSamples(samples, "canopy_tokens_total", { model, kind });
    const costs = samples.filter(({ name, labels }) => name === COST && labels["model"] === model);
    return {
      model,
      calls: value,
      promptTokens: tokens("prompt"),
      cachedTokens: tokens("cached"),
      completionTokens: tokens("completion"),
      warmTokens: tokens("warm"),
      cost: costs.length === 0 ? undefined : sumOfSamples(costs, COST),
    };
  });
}
