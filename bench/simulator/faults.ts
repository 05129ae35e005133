import { Random } from "../../base/random.ts";
import type { Fault, SimulatorOptions } from "./simulator_types.ts";

/** A fault that strikes one request. */
export type Strike = Omit<Fault, "count">;

/** Decides which requests go wrong: the injected faults first, in their order, then chance. */
export class Faults {
  #injected: Fault[] = [];
  readonly #random: Random;
  readonly #rate: SimulatorOptions["faultRate"];

  constructor(options: SimulatorOptions) {
    this.#random = new Random(options.seed).stream(`simulator/${options.models[0] ?? ""}/faults`);
    this.#rate = options.faultRate;
  }

  /** Faults with a count of Infinity strike every request until `clear`; others only those that generate. */
  inject(fault: Fault): void {
    this.#injected.push({ ...fault });
  }

  next(generates: boolean): Strike | undefined {
    const fault = this.#injected.find(({ count }) => generates || count === Infinity);
    if (fault !== undefined) {
      fault.count--;
      if (fault.count <= 0) this.#injected = this.#injected.filter((other) => other !== fault);
      return fault;
    }
    if (!generates || this.#rate === undefined || this.#rate.faults.length === 0) return undefined;
    if (this.#random.next() >= this.#rate.probability) return undefined;
    return this.#random.pick(this.#rate.faults);
  }

  /** Takes all injected faults back. */
  clear(): void {
    this.#injected = [];
  }
}
