import { badRequest } from "../../../base/errors.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import { cacheReportOf, promptPrefixOf } from "../../engines/prompt_prefix_of.ts";
import type { ServedModel } from "../../served/served_model.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { PlacementOutcome } from "../../worker/placement.ts";

/** A prompt to be prefilled. */
export interface WarmOrder {
  readonly model: ServedModel;
  readonly prompt: Prompt;
  /** The parameters of the request to come. */
  readonly like: Sampling;
  /** Later requests with this key go to the same worker while it is healthy. */
  readonly stickyKey: string | undefined;
}

/** A prompt that was prefilled. */
export interface WarmedPrefix {
  readonly promptTokens: number;
  readonly cachedTokens: number | undefined;
  /** The worker whose cache holds it; of a pair, the prefill half. */
  readonly worker: string;
}

/** Throws 400 for a model whose engine cannot prefill without generating. */
export function requireWarming(model: ServedModel): void {
  if (model.engine.capabilities.warm !== "none") return;
  throw badRequest(
    "model",
    `model ${model.name} cannot be warmed: its engine (${model.config.engine}) has no safe way to prefill only`,
    "warm_not_supported",
  );
}

/** Prefills a prompt on one worker, on another one if that fails. Throws `CanopyError`, or the signal's reason. */
export async function warm(order: WarmOrder, signal: AbortSignal): Promise<WarmedPrefix> {
  const { model, prompt, like, stickyKey } = order;
  const { gate } = model.pool;
  const exclude = new Set<string>();
  const hint = { stickyKey, prompt: promptPrefixOf(prompt) };
  let lease = gate.leaseNow(hint);
  for (let retriesLeft = model.config.retries;; retriesLeft--) {
    let outcome: PlacementOutcome = "aborted";
    let failure: unknown;
    try {
      signal.throwIfAborted();
      const warmed = await model.engine.warm(prompt, lease, signal, like);
      const { promptTokens, cachedTokens } = warmed;
      lease.promptRead(cacheReportOf(warmed));
      outcome = "ok";
      return { promptTokens, cachedTokens, worker: lease.home };
    } catch (error) {
      signal.throwIfAborted();
      outcome = outcomeOf(error);
      if (retriesLeft <= 0 || !(error instanceof EngineError) || !error.retryable) throw error;
      failure = error;
    } finally {
      lease.release(outcome);
    }
    exclude.add(lease.workerId);
    if (lease.prefill !== undefined) exclude.add(lease.prefill.workerId);
    try {
      lease = gate.leaseNow({ ...hint, exclude });
    } catch {
      throw failure; // no other worker: the failure is what counts
    }
  }
}

/** Whether an error counts against the worker, or is its answer to this request alone. */
function outcomeOf(error: unknown): PlacementOutcome {
  const status = error instanceof EngineError ? error.workerStatus : undefined;
  return status !== undefined && (status < 500 || status === 503) ? "rejected" : "failed";
}
