/**
 * Ends a text at the first of several stop strings, as engines do: the stop itself and what follows it are cut, and
 * text that may be the beginning of a stop is held back until that is known.
 */
export class StopFilter {
  readonly #stops: readonly string[];
  #held = "";
  #found: string | undefined;

  constructor(stops: readonly string[]) {
    this.#stops = stops;
  }

  /** True once a stop was found: nothing comes out any more. */
  get stopped(): boolean {
    return this.#found !== undefined;
  }

  /** The stop string that ended the text; undefined before. */
  get found(): string | undefined {
    return this.#found;
  }

  /** Takes more text in; gives what can be sent now. */
  push(text: string): string {
    if (this.#found !== undefined) return "";
    const pending = this.#held + text;
    let end = pending.length;
    for (const stop of this.#stops) {
      const at = pending.indexOf(stop);
      if (at < 0 || at >= end) continue;
      end = at;
      this.#found = stop;
    }
    if (!this.stopped) end -= heldTail(pending, this.#stops);
    this.#held = this.stopped ? "" : pending.slice(end);
    return pending.slice(0, end);
  }

  /** The text has ended: gives what was held back. */
  flush(): string {
    const rest = this.#held;
    this.#held = "";
    return rest;
  }
}

/** Length of the longest end of `text` that may be the beginning of a stop string. */
export function heldTail(text: string, stops: readonly string[]): number {
  let longest = 0;
  for (const stop of stops) {
    for (let length = Math.min(stop.length - 1, text.length); length > longest; length--) {
      if (text.endsWith(stop.slice(0, length))) longest = length;
    }
  }
  return longest;
}
