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

/** What takes a model's requests as one: a worker, or prefill and decode servers that serve them together. */
export interface WorkerGroup {
  readonly model: string;
  readonly engine: string;
  /** How its servers work together; empty for a worker alone. */
  readonly pairing: string;
  /** Prefill servers first. */
  readonly workers: readonly WorkerView[];
}

/** The workers of an answer of GET /workers, those of a model behind each other, both halves of pairs in one group. */
export function workerGroups(answer: unknown): readonly WorkerGroup[] {
  const alone = (worker: WorkerView): WorkerGroup => {
    const { model, engine } = worker;
    return { model, engine, pairing: "", workers: [worker] };
  };
  return [...Map.groupBy(workersIn(answer), ({ model }) => model)].flatMap(([model, workers]) => {
    const prefills = workers.filter(({ role }) => role === "prefill");
    const decodes = workers.filter(({ role }) => role === "decode");
    const halves = [...prefills, ...decodes];
    // Who has not named a model yet belongs to nobody.
    if (model === "" || halves.length === 0) return workers.map(alone);
    const pairing = pairingOf(prefills.length, decodes.length);
    const others = workers.filter((worker) => !halves.includes(worker)).map(alone);
    return [{ model, engine: halves[0]?.engine ?? "", pairing, workers: halves }, ...others];
  });
}

/** Any prefill server works with any decode server. */
function pairingOf(prefills: number, decodes: number): string {
  if (prefills === 1 && decodes === 1) return "a pair";
  const all = `${prefills} prefill, ${decodes} decode`;
  return prefills > 0 && decodes > 0 ? `${all}, any with any` : all;
}

function workersIn(answer: unknown): readonly WorkerView[] {
  return listField(answer, "workers").map((worker) => ({
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
