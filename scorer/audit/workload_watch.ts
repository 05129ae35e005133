/** Bets on the place of a run's votes among those of all before it: that it comes late, or early; more, or less so. */
const BETS = [0.8, 0.4, -0.4, -0.8];
/** Evidence at which the workload counts as another one: by chance alone that takes at least so many runs, on average. */
const ENOUGH = 10_000;

/**
 * Watches without knowing any right answer whether runs still come to agree as they did: by the number of votes that it
 * took, or that it never came to that. A run's place among all before it is as likely to be anywhere as long as they are
 * alike (conformal p-values; Vovk 2021), so that bets on late or early places win only when they are not. The bets
 * begin anew after each loss (a CUSUM of test martingales; Shin, Ramdas and Rinaldo 2024), so that a shift after a long
 * time is seen as soon as an early one.
 */
export class WorkloadWatch {
  /** Runs by their votes; Infinity for those that never agreed. */
  readonly #known: Map<number, number>;
  readonly #held = BETS.map(() => 1);

  /** `known`: runs that are known to be usual, by their votes. */
  constructor(known: Iterable<readonly [votes: number, runs: number]> = []) {
    this.#known = new Map(known);
  }

  /**
   * One more run: it agreed after so many votes, Infinity for never. True once runs differ from those before: then it has
   * forgotten them, and learns what is usual now. `draw`: a number in [0, 1) of the run's own, which places it among equals.
   */
  differs(votes: number, draw: number): boolean {
    const place = this.#placeOf(votes, draw);
    this.#known.set(votes, (this.#known.get(votes) ?? 0) + 1);
    for (const [index, bet] of BETS.entries()) {
      this.#held[index] = Math.max(1, this.#held[index]!) * (1 + bet * (1 - 2 * place));
    }
    if (this.#held.reduce((sum, held) => sum + held, 0) / BETS.length < ENOUGH) return false;
    this.#known.clear();
    this.#held.fill(1);
    return true;
  }

  /** Share of the known runs, with this one, that took more votes; of those that took as many a drawn part. */
  #placeOf(votes: number, draw: number): number {
    let [later, equal, all] = [0, 1, 1];
    for (const [other, runs] of this.#known) {
      if (other > votes) later += runs;
      if (other === votes) equal += runs;
      all += runs;
    }
    return (later + draw * equal) / all;
  }
}
