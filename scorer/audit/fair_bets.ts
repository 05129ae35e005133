/** Stakes as parts of the highest one: small ones see small shifts, large ones see large shifts soon. */
const STAKES = [0.05, 0.1, 0.3, 0.6];

/**
 * Bets against a promise that something happens in at most a share of all cases, with several stakes at once. While the
 * promise is kept, what they hold is expected to shrink, so that it is ever `n` times what was put in with a probability
 * of at most 1/n (Ville 1939; Waudby-Smith and Ramdas 2024).
 */
export class FairBets {
  readonly #most: number;
  readonly #parts: number[];

  /** `most`: the promised share, above 0 and below 1; `held`: what is put in. */
  constructor(most: number, held: number) {
    this.#most = most;
    this.#parts = STAKES.map(() => held / STAKES.length);
  }

  /** All that the bets hold now. */
  get held(): number {
    return this.#parts.reduce((sum, part) => sum + part, 0);
  }

  /** Puts more in, from now on. */
  add(held: number): void {
    for (const index of STAKES.keys()) this.#parts[index]! += held / STAKES.length;
  }

  /** One more case, and whether it has happened there. */
  play(happened: boolean): void {
    const gain = (happened ? 1 : 0) / this.#most - 1;
    for (const [index, stake] of STAKES.entries()) this.#parts[index]! *= 1 + stake * gain;
  }
}
