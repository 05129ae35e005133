import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { WorkerStatus } from "./worker.ts";

/** Most workers that a sentence names. */
const MAX_NAMED = 8;

/**
 * The reason why none of a model's workers is known to serve, naming them without their addresses; undefined when
 * one is, or one of either half. A worker that has not answered a check yet is not known to.
 */
export function poolProblem(
  workers: readonly WorkerStatus[],
  { engine }: Pick<ModelConfig, "engine">,
): string | undefined {
  if (!engine.endsWith("-pd")) return problemOf(workers, "worker");
  const half = (role: "prefill" | "decode") =>
    problemOf(workers.filter((worker) => worker.role === role), `${role} server`);
  // vLLM's decode servers work alone where there is nobody to read prompts for them.
  return (engine === "vllm-pd" ? undefined : half("prefill")) ?? half("decode");
}

function problemOf(workers: readonly WorkerStatus[], kind: string): string | undefined {
  if (workers.length === 0) return `it has no ${kind}`;
  const states = workers.map((worker) => ({ id: worker.id, state: stateOf(worker) }));
  if (states.some(({ state }) => state === undefined)) return undefined;
  const named = states.slice(0, MAX_NAMED).map(({ id, state }) => `${id} ${state}`).join(", ");
  return workers.length > MAX_NAMED ? `${named} and ${workers.length - MAX_NAMED} more` : named;
}

function stateOf({ health, breaker, missingModel }: WorkerStatus): string | undefined {
  if (health === "unknown") return "was not heard of yet";
  if (health === "draining") return "is draining";
  if (health === "unhealthy") {
    return missingModel === undefined ? "is out of service" : `does not serve "${missingModel}"`;
  }
  return breaker === "open" ? "has failed too often (its breaker is open)" : undefined;
}
