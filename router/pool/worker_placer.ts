import { CanopyError } from "../../base/errors.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { admitted, those } from "./admitted.ts";
import type { PlaceHint } from "./lease.ts";
import { type Claim, claimOf, type Placer, type PlacerOptions } from "./placer.ts";
import { createPolicy } from "./policies/create_policy.ts";
import type { Policy } from "./policies/policy.ts";
import { fullError, unusableError } from "./refusals.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";

/** Whole servers: each request goes to one of them. */
export class WorkerPlacer implements Placer {
  readonly #options: PlacerOptions;
  #config: ModelConfig;
  #policy: Policy;

  constructor(options: PlacerOptions) {
    this.#options = options;
    this.#config = options.config;
    this.#policy = this.#createPolicy();
  }

  reconfigure(config: ModelConfig): void {
    const { policy } = this.#config;
    this.#config = config;
    if (policy !== config.policy) this.#policy = this.#createPolicy();
  }

  #createPolicy(): Policy {
    const { random } = this.#options;
    const { policy, workers } = this.#config;
    return createPolicy(policy, { random, lastOrdinal: random.int(Math.max(1, workers.length)) - 1 });
  }

  get ready(): boolean {
    return this.#options.registry.workers.some((worker) => worker.inService);
  }

  place(hint: PlaceHint): Claim {
    const { model, registry: { workers } } = this.#options;
    const { max_in_flight } = this.#config;
    const { exclude } = hint;
    const usable = admitted(those(workers, (worker) => worker.inService && exclude?.has(worker.id) !== true));
    const candidates = those(usable, (worker) => worker.inFlight < max_in_flight);
    if (candidates.length === 0) {
      if (usable.length > 0) {
        throw fullError(model, `every usable worker has ${max_in_flight} requests in flight`);
      }
      throw unusableError(model, "worker", workers, (hint.exclude?.size ?? 0) > 0);
    }
    const claim = claimOf(this.#policy.choose({ candidates, usable }, hint), this.#policy, hint);
    // Another thread was faster: that worker is full now.
    return claim ?? this.place(hint);
  }

  checkRole({ url, role }: WorkerAccess): void {
    if (role === undefined) return;
    throw new CanopyError(
      `Cannot add ${url} as ${role} server: model ${this.#options.model} has whole servers`,
      { code: "unsupported_worker", status: 400, param: "worker_type" },
    );
  }
}
