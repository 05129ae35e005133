import type { EarlyExitConfig } from "../cfgs/schema/early_exit.ts";
import { equalAnswers } from "./answers/equal_answers.ts";
import type { FinalAnswer } from "./answers/final_answer.ts";
import { drawFor } from "./metrics/random.ts";

/** Bets against the promise, as parts of the highest one: small ones see small shifts, large ones see large shifts soon. */
const STAKES = [0.1, 0.3, 0.6];
/** Evidence at which the promise counts as broken: under one that is kept it is ever reached with a probability of 1/20. */
const ENOUGH = 20;

/**
 * Watches in service whether exits answer as whole runs do: of some the whole run is awaited, too. Switched off for good
 * once more of them differ than may: by a test that holds at every moment, however long it goes on (betting against the
 * promise; Ville 1939, Waudby-Smith and Ramdas 2024).
 */
export class ExitAudit {
  readonly #share: number;
  readonly #mostWrong: number;
  readonly #wealth = STAKES.map(() => 1 / STAKES.length);
  #exits = 0;
  #audited = 0;
  #different = 0;
  #off = false;

  /** Of settings of scope `run`. */
  constructor({ consensus: { audit, most_wrong: mostWrong } }: EarlyExitConfig) {
    this.#share = audit;
    this.#mostWrong = mostWrong;
  }

  /** True once the promise is broken. */
  get off(): boolean {
    return this.#off;
  }

  get audited(): number {
    return this.#audited;
  }

  /** Of them those whose whole run has answered otherwise. */
  get different(): number {
    return this.#different;
  }

  /**
   * True for a run whose exit is held back: drawn by its seed and the number of exits before it, since a client may send
   * the same seed with all that it asks.
   */
  holdsBack(drawSeed: string): boolean {
    return drawFor({ seed: drawSeed, cluster: "audit", completions: this.#exits++ }) < this.#share;
  }

  /** A whole run has answered whose exit was held back; an answer that cannot be told is another one. */
  compare(exit: FinalAnswer, whole: FinalAnswer | undefined): "same" | "other" {
    const differs = whole === undefined || !equalAnswers(whole, exit);
    this.#audited++;
    if (differs) this.#different++;
    const gain = (differs ? 1 : 0) - this.#mostWrong;
    for (const [index, stake] of STAKES.entries()) this.#wealth[index]! *= 1 + stake / this.#mostWrong * gain;
    this.#off ||= this.#wealth.reduce((sum, one) => sum + one, 0) >= ENOUGH;
    return differs ? "other" : "same";
  }
}
