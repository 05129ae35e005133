import type { Clock } from "../../base/clock.ts";
import type { Random } from "../../base/random.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { PlaceHint } from "./lease.ts";
import type { Policy, PolicyRequest } from "./policies/policy.ts";
import type { PoolShare } from "./pool_share.ts";
import type { WorkerRegistry } from "./registry.ts";
import type { Worker } from "./worker.ts";
import type { EngineError } from "../worker/engine_error.ts";
import type { CacheReport, PlacementOutcome, PrefillSide } from "../worker/placement.ts";
import type { WorkerAccess, WorkerRank } from "../worker/worker_access.ts";

/** Options of a placer. */
export interface PlacerOptions {
  /** The model's public name. */
  readonly model: string;
  readonly config: ModelConfig;
  readonly clock: Clock;
  readonly random: Random;
  readonly registry: WorkerRegistry;
  readonly share?: PoolShare | undefined;
}

/** A place that a placer took for one request: a share of one worker, or of both workers of a pair. */
export interface Claim {
  /** The worker; of a pair, its decode half. */
  readonly workerId: string;
  readonly url: string;
  readonly rank?: WorkerRank | undefined;
  readonly prefill?: PrefillSide | undefined;
  /** Of a pair: time since its last hand-off was over, in ms; Infinity before the first. */
  readonly idleMs?: number | undefined;
  /** Called when a worker of which a share is still held is taken out of service. */
  lost?: ((error: EngineError) => void) | undefined;
  /** Gives back what is still held (with a `side`, of that half); false when that is nothing. */
  release(outcome: PlacementOutcome, side?: "prefill" | "decode"): boolean;
  /** Tells the policy by which the prompt's reader was chosen that it has been read, and what was in its cache before. */
  promptRead(found: CacheReport | undefined): void;
}

/** Chooses workers for requests, as whole servers or in pairs. Knows nothing of queues. */
export interface Placer {
  /** True when at least one worker, or one of either half, can take work. */
  readonly ready: boolean;
  /** Throws `no_worker` (503), with a time after which to ask again when the workers are only full. */
  place(hint: PlaceHint): Claim;
  /** Places by other settings from now on. */
  reconfigure(config: ModelConfig): void;
  /** Throws 400 `unsupported_worker` for a role that the model's engine does not have. */
  checkRole(access: WorkerAccess): void;
}

/** A share of a whole server, or of a decode server that works alone; undefined as with `Worker.take`. */
export function claimOf(worker: Worker, policy: Policy, request: PolicyRequest): Claim | undefined {
  const claim: Claim = {
    workerId: worker.id,
    url: worker.url,
    rank: worker.access.rank,
    release: (outcome, side) => side !== "prefill" && share?.release(outcome) === true,
    promptRead: (found) => policy.promptRead?.(worker.ordinal, request, found),
  };
  const share = worker.take(claim);
  return share && claim;
}
