import { CanopyError } from "../../base/errors.ts";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import type { PolicyName } from "../../cfgs/schema/policies.ts";
import { admitted, those } from "./admitted.ts";
import type { PlaceHint } from "./lease.ts";
import { type Claim, claimOf, type Placer, type PlacerOptions } from "./placer.ts";
import { createPolicy } from "./policies/create_policy.ts";
import type { Policy } from "./policies/policy.ts";
import { fullError, unusableError } from "./refusals.ts";
import type { Worker, WorkerShare } from "./worker.ts";
import type { CacheReport, PlacementOutcome, PrefillSide } from "../worker/placement.ts";
import type { WorkerAccess } from "../worker/worker_access.ts";

/** More than workers ever join one model in the life of a router. */
const MAX_ORDINALS = 2 ** 26;

/**
 * Servers of which some prefill and some decode: each request goes to one of either kind, any with any.
 *
 * A request is in its hand-off from its placement until its prefill half is given back. Per pair, no more than
 * `pair_window` requests are: the servers count their time limit for a hand-off from the moment they know the
 * request, so a long queue has to stand here, where no clock runs.
 */
export class PairPlacer implements Placer {
  readonly #options: PlacerOptions;
  #config: ModelConfig;
  #prefillPolicy: Policy;
  #decodePolicy: Policy;
  /** Requests in their hand-off, by `pairKey`; pairs with none are absent. */
  readonly #handOffs = new Map<number, number>();
  /** Clock time of the end of the last hand-off, by `pairKey`. */
  readonly #handedOffAtMs = new Map<number, number>();

  constructor(options: PlacerOptions) {
    this.#options = options;
    this.#config = options.config;
    this.#prefillPolicy = this.#createPolicy("prefill_policy");
    this.#decodePolicy = this.#createPolicy("decode_policy");
  }

  reconfigure(config: ModelConfig): void {
    const before = this.#config;
    this.#config = config;
    const isNew = (which: PolicyOfHalf) => policyOf(before, which) !== policyOf(config, which);
    if (isNew("prefill_policy")) this.#prefillPolicy = this.#createPolicy("prefill_policy");
    if (isNew("decode_policy")) this.#decodePolicy = this.#createPolicy("decode_policy");
  }

  #createPolicy(which: PolicyOfHalf): Policy {
    const { random } = this.#options;
    const lastOrdinal = random.int(Math.max(1, 2 * this.#config.workers.length)) - 1;
    return createPolicy(policyOf(this.#config, which), { random, lastOrdinal });
  }

  get ready(): boolean {
    return (this.#inService("prefill").length > 0 || this.#decodesAlone) &&
      this.#inService("decode").length > 0;
  }

  /** Halves that failed before are avoided, not ruled out: most failures of a pair lie in one hand-off. */
  place(hint: PlaceHint): Claim {
    if (this.#decodesAlone && this.#inService("prefill").length === 0) return this.#placeDecode(hint);
    const prefills = this.#usable("prefill", hint);
    const decodes = this.#usable("decode", hint);
    const { max_in_flight, pair_window } = this.#config;
    const roomy = (worker: Worker) => worker.inFlight < max_in_flight;
    const open = (prefill: Worker, decode: Worker) => this.#handOffsOf(prefill, decode) < pair_window;
    const takers = those(decodes, roomy);
    const givers = those(
      prefills,
      (prefill) => roomy(prefill) && takers.some((decode) => open(prefill, decode)),
    );
    if (givers.length === 0) {
      throw fullError(
        this.#options.model,
        `every usable pair has ${pair_window} requests before their first token or a server with ` +
          `${max_in_flight} requests in flight`,
      );
    }
    const prefill = this.#prefillPolicy.choose({ candidates: givers, usable: prefills }, hint);
    const free = those(takers, (decode) => open(prefill, decode));
    // Another thread was faster: that pair is full now.
    if (free.length === 0) return this.place(hint);
    const decode = this.#decodePolicy.choose({ candidates: free, usable: decodes }, hint);
    return this.#take(prefill, decode, hint) ?? this.place(hint);
  }

  checkRole({ url, role }: WorkerAccess): void {
    if (role !== undefined) return;
    throw new CanopyError(
      `Cannot add ${url}: model ${this.#options.model} has pairs; say whether it is a prefill or a decode server`,
      { code: "unsupported_worker", status: 400, param: "worker_type" },
    );
  }

  /** vLLM's decode servers read prompts, too, where there is nobody to do it for them. */
  get #decodesAlone(): boolean {
    return this.#config.engine === "vllm-pd";
  }

  #placeDecode(hint: PlaceHint): Claim {
    const decodes = this.#usable("decode", hint);
    const limit = this.#config.max_in_flight;
    const free = decodes.filter((worker) => worker.inFlight < limit);
    if (free.length === 0) {
      throw fullError(this.#options.model, `every usable decode server has ${limit} requests in flight`);
    }
    const decode = this.#decodePolicy.choose({ candidates: free, usable: decodes }, hint);
    return claimOf(decode, this.#decodePolicy, hint) ?? this.#placeDecode(hint);
  }

  #inService(role: "prefill" | "decode"): readonly Worker[] {
    return those(this.#options.registry.ofRole(role), isInService);
  }

  /** Halves that may be used, load aside; at least one. Throws `no_worker` (503). */
  #usable(role: "prefill" | "decode", hint: PlaceHint): readonly Worker[] {
    const inService = this.#inService(role);
    if (inService.length === 0) {
      throw unusableError(
        this.#options.model,
        `${role} server`,
        this.#options.registry.ofRole(role),
        false,
      );
    }
    const { exclude } = hint;
    if (exclude === undefined) return admitted(inService);
    const others = inService.filter((worker) => !exclude.has(worker.id));
    return admitted(others.length > 0 ? others : inService);
  }

  #handOffsOf(prefill: Worker, decode: Worker): number {
    const { share } = this.#options;
    return share?.handOffs(prefill.slot, decode.slot).value ??
      this.#handOffs.get(pairKey(prefill, decode)) ?? 0;
  }

  /** Undefined, and nothing is taken, when another thread was faster. */
  #take(prefill: Worker, decode: Worker, hint: PlaceHint): Claim | undefined {
    const { share } = this.#options;
    const { pair_window } = this.#config;
    const handOffs = share?.handOffs(prefill.slot, decode.slot);
    if (handOffs?.tryAdd(pair_window) === false) return undefined;
    const key = pairKey(prefill, decode);
    const { clock } = this.#options;
    const before = this.#handOffs.get(key) ?? 0;
    const idleMs = before > 0 ? 0 : clock.now() - (this.#handedOffAtMs.get(key) ?? -Infinity);
    const claim = new PairClaim(this, { prefill, decode, hint, idleMs });
    if (!claim.take()) {
      handOffs?.add(-1);
      return undefined;
    }
    this.#handOffs.set(key, before + 1);
    return claim;
  }

  /** A hand-off between two servers is over. */
  handedOff({ prefill, decode }: Pair): void {
    const key = pairKey(prefill, decode);
    this.#options.share?.handOffs(prefill.slot, decode.slot)?.add(-1);
    const left = (this.#handOffs.get(key) ?? 1) - 1;
    if (left === 0) this.#handOffs.delete(key);
    else this.#handOffs.set(key, left);
    this.#handedOffAtMs.set(key, this.#options.clock.now());
  }

  /** A prefill server has read a prompt. */
  promptRead({ prefill, hint }: Pair, found: CacheReport | undefined): void {
    this.#prefillPolicy.promptRead?.(prefill.ordinal, hint, found);
  }
}

/** Two servers, and the request that they are for. */
interface Pair {
  readonly prefill: Worker;
  readonly decode: Worker;
  readonly hint: PlaceHint;
  /** Time for which the pair was idle before. */
  readonly idleMs: number;
}

/** A request's shares of both of its servers. */
class PairClaim implements Claim {
  readonly workerId: string;
  readonly url: string;
  readonly rank: Claim["rank"];
  readonly prefill: PrefillSide;
  readonly idleMs: number;
  lost: Claim["lost"];
  #prefillShare: WorkerShare | undefined;
  #decodeShare: WorkerShare | undefined;
  readonly #placer: PairPlacer;
  readonly #pair: Pair;
  /** True once a half was named as the one that failed. */
  #blamed = false;

  constructor(placer: PairPlacer, pair: Pair) {
    const { prefill, decode, idleMs } = pair;
    this.workerId = decode.id;
    this.url = decode.url;
    this.rank = decode.access.rank;
    this.prefill = prefill.prefillSide;
    this.idleMs = idleMs;
    this.#placer = placer;
    this.#pair = pair;
  }

  /** Takes a share of both; false, and nothing is taken, when another thread was faster. */
  take(): boolean {
    const { prefill, decode } = this.#pair;
    const prefillShare = prefill.take(this);
    const decodeShare = prefillShare && decode.take(this);
    if (decodeShare === undefined) {
      prefillShare?.release("aborted");
      return false;
    }
    this.#prefillShare = prefillShare;
    this.#decodeShare = decodeShare;
    return true;
  }

  promptRead(found: CacheReport | undefined): void {
    this.#placer.promptRead(this.#pair, found);
  }

  release(outcome: PlacementOutcome, side?: "prefill" | "decode"): boolean {
    if (side !== undefined) {
      if (outcome === "failed") this.#blamed = true;
      return side === "prefill" ? this.#releasePrefill(outcome) : this.#releaseDecode(outcome);
    }
    // One failure counts once: against the half that was named, else against the one whose answer it was.
    const prefillFreed = this.#releasePrefill(outcome === "failed" ? "aborted" : outcome);
    const decodeFreed = this.#releaseDecode(outcome === "failed" && this.#blamed ? "aborted" : outcome);
    return prefillFreed || decodeFreed;
  }

  #releasePrefill(outcome: PlacementOutcome): boolean {
    const freed = this.#prefillShare?.release(outcome) === true;
    if (freed) this.#placer.handedOff(this.#pair);
    return freed;
  }

  #releaseDecode(outcome: PlacementOutcome): boolean {
    return this.#decodeShare?.release(outcome) === true;
  }
}

const isInService = (worker: Worker) => worker.inService;

type PolicyOfHalf = "prefill_policy" | "decode_policy";

function policyOf(config: ModelConfig, which: PolicyOfHalf): PolicyName {
  return config[which] ?? config.policy;
}

/** A number for each pair: there are several look-ups for each request. */
function pairKey(prefill: Worker, decode: Worker): number {
  return prefill.ordinal * MAX_ORDINALS + decode.ordinal;
}
