import { MinuteWindow } from "./minute_window.ts";
import { LocalTally, type Tally } from "./tally.ts";

/** What the holder of one key has asked for. */
export interface KeyCounts {
  /** Requests that have begun. */
  readonly requests: MinuteWindow;
  readonly tokens: MinuteWindow;
  /** Requests under way. */
  readonly running: Tally;
}

/** The counts of all keys, which outlast a change of the configuration. */
export interface KeyTable {
  /** The counts of a key by the hash of it, in hexadecimal digits; undefined where no room is left for another key. */
  of(hash: string): KeyCounts | undefined;
}

/** Counts of one thread. */
export class LocalKeyTable implements KeyTable {
  readonly #counts = new Map<string, KeyCounts>();

  of(hash: string): KeyCounts {
    let counts = this.#counts.get(hash);
    if (counts === undefined) {
      counts = { requests: new MinuteWindow(), tokens: new MinuteWindow(), running: new LocalTally() };
      this.#counts.set(hash, counts);
    }
    return counts;
  }
}

/** Counts in memory that threads share: a key has the same place in all of them, whichever sees it first. */
export class SharedKeyTable implements KeyTable {
  readonly #cells: BigInt64Array;
  readonly #running: (place: number) => Tally;
  readonly #places: number;

  /** `cells`: `cellsOf(places)` of them, all 0 at first; `running`: the tally of a place. */
  constructor(cells: BigInt64Array, running: (place: number) => Tally, places: number) {
    this.#cells = cells;
    this.#running = running;
    this.#places = places;
  }

  static cellsOf(places: number): number {
    return places * (1 + 2 * MinuteWindow.cells);
  }

  of(hash: string): KeyCounts | undefined {
    const place = this.#placeOf(hash);
    if (place === undefined) return undefined;
    const windowAt = (index: number) => {
      const start = this.#places + index * MinuteWindow.cells;
      return new MinuteWindow(this.#cells.subarray(start, start + MinuteWindow.cells));
    };
    return {
      requests: windowAt(2 * place),
      tokens: windowAt(2 * place + 1),
      running: this.#running(place),
    };
  }

  /** The first place from the hash's own on that is this key's, or nobody's: then it is this key's from now on. */
  #placeOf(hash: string): number | undefined {
    const part = BigInt.asIntN(64, BigInt(`0x${hash.slice(0, 16)}`));
    const id = part === 0n ? 1n : part;
    const first = Number(BigInt.asUintN(32, id)) % this.#places;
    for (let tries = 0; tries < this.#places; tries++) {
      const place = (first + tries) % this.#places;
      const found = Atomics.compareExchange(this.#cells, place, 0n, id);
      if (found === 0n || found === id) return place;
    }
    return undefined;
  }
}
