import { CanopyError } from "../../base/errors.ts";
import type { PoolOptions } from "./pool.ts";
import type { ManagedPool, WorkerStatus } from "./pool_types.ts";
import { fullError, unusableError } from "./refusals.ts";
import { WorkerRegistry } from "./registry.ts";
import { admitted, Selector } from "./selector.ts";
import type { Lease, Worker } from "./worker.ts";
import type { Placement, PlacementHint, PlacementOutcome, PrefillSide } from "../worker/placement.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";

/**
 * Servers of which some prefill and some decode: each request goes to one of either kind, any with any.
 *
 * A request is in its hand-off from its placement until its prefill half is given back. Per pair, no more than
 * `pair_window` requests are: the servers count their time limit for a hand-off from the moment they know the
 * request, so a long queue has to stand here, where no clock runs.
 */
export class PairPool implements ManagedPool {
  readonly model: string;
  readonly #options: PoolOptions;
  readonly #roster: WorkerRegistry;
  readonly #prefillChooser: Selector;
  readonly #decodeChooser: Selector;
  /** Requests in their hand-off, by `pairKey`; pairs with none are absent. */
  readonly #handOffs = new Map<string, number>();

  constructor(options: PoolOptions) {
    const { config, random } = options;
    const most = Math.max(1, 2 * config.workers.length);
    this.model = options.model;
    this.#options = options;
    this.#roster = new WorkerRegistry(options);
    this.#prefillChooser = new Selector(config.policy, random.int(most) - 1);
    this.#decodeChooser = new Selector(config.policy, random.int(most) - 1);
  }

  get ready(): boolean {
    return (this.#inService("prefill").length > 0 || this.#decodesAlone) &&
      this.#inService("decode").length > 0;
  }

  workers(): readonly WorkerStatus[] {
    return this.#roster.workers.map((worker) => worker.status);
  }

  headers(workerId: string): Readonly<Record<string, string>> {
    return this.#roster.find(workerId)?.headers ?? {};
  }

  /** Halves that failed before are avoided, not ruled out: most failures of a pair lie in one hand-off. */
  place(hint: PlacementHint): Placement {
    if (this.#decodesAlone && this.#inService("prefill").length === 0) return this.#placeDecode(hint);
    const prefills = this.#usable("prefill", hint);
    const decodes = this.#usable("decode", hint);
    const { max_in_flight, pair_window } = this.#options.config;
    const roomy = (worker: Worker) => worker.inFlight < max_in_flight;
    const open = (prefill: Worker, decode: Worker) =>
      (this.#handOffs.get(pairKey(prefill, decode)) ?? 0) < pair_window;
    const takers = decodes.filter(roomy);
    const givers = prefills.filter((prefill) =>
      roomy(prefill) && takers.some((decode) => open(prefill, decode))
    );
    if (givers.length === 0) {
      throw fullError(
        this.model,
        `every usable pair has ${pair_window} requests before their first token or a server with ` +
          `${max_in_flight} requests in flight`,
      );
    }
    const prefill = this.#prefillChooser.choose(prefills, givers, hint.stickyKey);
    const free = takers.filter((decode) => open(prefill, decode));
    return this.#take(prefill, this.#decodeChooser.choose(decodes, free, hint.stickyKey));
  }

  start(signal: AbortSignal): void {
    this.#roster.start(signal);
  }

  addWorker(access: WorkerAccess): string {
    if (access.role === undefined) {
      throw new CanopyError(
        `Cannot add ${access.url}: model ${this.model} has pairs; say whether it is a prefill or a decode server`,
        { code: "unsupported_worker", status: 400, param: "worker_type" },
      );
    }
    return this.#roster.add(access);
  }

  removeWorker(id: string): boolean {
    return this.#roster.remove(id);
  }

  setDraining(id: string, draining: boolean): boolean {
    return this.#roster.setDraining(id, draining);
  }

  setDown(id: string, reason: string | undefined): boolean {
    return this.#roster.setDown(id, reason);
  }

  /** vLLM's decode servers read prompts, too, where there is nobody to do it for them. */
  get #decodesAlone(): boolean {
    return this.#options.config.engine === "vllm-pd";
  }

  #placeDecode(hint: PlacementHint): Placement {
    const decodes = this.#usable("decode", hint);
    const limit = this.#options.config.max_in_flight;
    const free = decodes.filter((worker) => worker.inFlight < limit);
    if (free.length === 0) {
      throw fullError(this.model, `every usable decode server has ${limit} requests in flight`);
    }
    const decode = this.#decodeChooser.choose(decodes, free, hint.stickyKey);
    const hold = decode.take();
    return {
      workerId: decode.id,
      url: decode.url,
      release: (outcome, side) => {
        if (side !== "prefill") hold.release(outcome);
      },
    };
  }

  #inService(role: "prefill" | "decode"): Worker[] {
    return this.#roster.workers.filter((worker) => worker.access.role === role && worker.inService);
  }

  /** Halves that may be used, load aside; at least one. Throws `no_worker` (503). */
  #usable(role: "prefill" | "decode", hint: PlacementHint): readonly Worker[] {
    const inService = this.#inService(role);
    if (inService.length === 0) {
      const all = this.#roster.workers.filter((worker) => worker.access.role === role);
      throw unusableError(this.model, `${role} server`, all, false);
    }
    const others = inService.filter((worker) => !hint.exclude?.has(worker.id));
    return admitted(others.length > 0 ? others : inService);
  }

  #take(prefill: Worker, decode: Worker): Placement {
    const key = pairKey(prefill, decode);
    this.#handOffs.set(key, (this.#handOffs.get(key) ?? 0) + 1);
    return new PairPlacement(prefill, decode, () => {
      const left = (this.#handOffs.get(key) ?? 1) - 1;
      if (left === 0) this.#handOffs.delete(key);
      else this.#handOffs.set(key, left);
    });
  }
}

/** A request's hold on both of its servers. */
class PairPlacement implements Placement {
  readonly workerId: string;
  readonly url: string;
  readonly prefill: PrefillSide;
  readonly #prefillHold: Lease;
  readonly #decodeHold: Lease;
  readonly #onHandedOff: () => void;
  /** True once a half was named as the one that failed. */
  #blamed = false;

  constructor(prefill: Worker, decode: Worker, onHandedOff: () => void) {
    this.workerId = decode.id;
    this.url = decode.url;
    this.prefill = {
      workerId: prefill.id,
      url: prefill.url,
      bootstrapHost: prefill.access.bootstrapHost ?? new URL(prefill.url).hostname,
      bootstrapPort: prefill.access.bootstrapPort,
    };
    this.#prefillHold = prefill.take();
    this.#decodeHold = decode.take();
    this.#onHandedOff = onHandedOff;
  }

  release(outcome: PlacementOutcome, side?: "prefill" | "decode"): void {
    if (side !== undefined) {
      if (outcome === "failed") this.#blamed = true;
      if (side === "prefill") this.#releasePrefill(outcome);
      else this.#decodeHold.release(outcome);
      return;
    }
    // One failure counts once: against the half that was named, else against the one whose answer it was.
    this.#releasePrefill(outcome === "failed" ? "aborted" : outcome);
    this.#decodeHold.release(outcome === "failed" && this.#blamed ? "aborted" : outcome);
  }

  #releasePrefill(outcome: PlacementOutcome): void {
    if (this.#prefillHold.release(outcome)) this.#onHandedOff();
  }
}

function pairKey(prefill: Worker, decode: Worker): string {
  return `${prefill.ordinal}-${decode.ordinal}`;
}
