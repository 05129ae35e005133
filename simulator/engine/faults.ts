import type { Random } from "../../base/random.ts";

/** A fault to inject into the next matching request. */
export interface Fault {
  /** `split` sends every event in two pieces; `kv_failure` and `slow_transfer` strike the transfers of a prefill server, the others requests. */
  readonly kind:
    | "refuse"
    | "status_500"
    | "status_503"
    | "reset"
    | "hang"
    | "truncate"
    | "slow"
    | "split"
    | "kv_failure"
    | "slow_transfer";
  /** Generation requests it applies to before it is used up; Infinity for all requests on every path. */
  count: number;
  /** For `truncate`: events sent before the cut. For `slow` and `slow_transfer`: factor on durations. */
  readonly value?: number;
}

/** A fault that strikes one request. */
export type Strike = Omit<Fault, "count">;

/** Faults that strike at random, each generation request on its own. */
export interface FaultRate {
  readonly probability: number;
  readonly faults: readonly Strike[];
}

/** Decides which requests go wrong: the injected faults first, in their order, then chance. */
export class Faults {
  #injected: Fault[] = [];
  readonly #random: Random;
  readonly #rate: FaultRate | undefined;

  constructor(random: Random, rate: FaultRate | undefined) {
    this.#random = random;
    this.#rate = rate;
  }

  /** Faults with a count of Infinity strike every request until `clear`; others only those that generate. */
  inject(fault: Fault): void {
    this.#injected.push({ ...fault });
  }

  next(generates: boolean): Strike | undefined {
    return this.#injectedOne(({ kind, count }) => !ofTransfer(kind) && (generates || count === Infinity)) ??
      (generates ? this.#chance((kind) => !ofTransfer(kind)) : undefined);
  }

  /** Fault of the next transfer of KV. */
  nextTransfer(): Strike | undefined {
    return this.#injectedOne(({ kind }) => ofTransfer(kind)) ?? this.#chance(ofTransfer);
  }

  /** Takes all injected faults back. */
  clear(): void {
    this.#injected = [];
  }

  #injectedOne(fits: (fault: Fault) => boolean): Strike | undefined {
    const fault = this.#injected.find(fits);
    if (fault === undefined) return undefined;
    fault.count--;
    if (fault.count <= 0) this.#injected = this.#injected.filter((other) => other !== fault);
    return fault;
  }

  #chance(fits: (kind: Fault["kind"]) => boolean): Strike | undefined {
    const faults = this.#rate?.faults.filter(({ kind }) => fits(kind)) ?? [];
    if (this.#rate === undefined || faults.length === 0) return undefined;
    return this.#random.next() >= this.#rate.probability ? undefined : this.#random.pick(faults);
  }
}

function ofTransfer(kind: Fault["kind"]): boolean {
  return kind === "kv_failure" || kind === "slow_transfer";
}
