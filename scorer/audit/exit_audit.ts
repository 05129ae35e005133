import type { EarlyExitConfig } from "../../cfgs/schema/early_exit.ts";
import { equalAnswers } from "../answers/equal_answers.ts";
import type { FinalAnswer } from "../answers/final_answer.ts";
import { drawFor } from "../metrics/random.ts";
import { FairBets } from "./fair_bets.ts";
import { WorkloadWatch } from "./workload_watch.ts";

/** Evidence at which the promise counts as broken: under one that is kept it is ever reached with a probability of 1/20. */
const ENOUGH = 20;
/** What another workload puts against the promise before anything is known of it: as many to one. */
const SUSPICION = 100;

/** Why all exits are audited for a while: a whole run has answered otherwise; runs come to agree otherwise than they did. */
export type AuditDoubt = "other_answer" | "workload";

/** What an audit has seen: a run's votes with what placed it among equals, or whether a whole run has answered otherwise. */
export type AuditEvent =
  | { readonly kind: "votes"; readonly votes: number; readonly draw: number }
  | { readonly kind: "compared"; readonly differs: boolean };

/**
 * Watches in service whether exits answer as whole runs do: of some the whole run is awaited, too. Switched off for good
 * once more of them differ than may, by bets against the promise, which hold at every moment however long it goes on.
 * Once there is a doubt, every exit is audited until the audits have dispelled it. Which exits are audited depends on
 * what was before them only, so that each audit stays a fair bet.
 */
export class ExitAudit {
  readonly #tell: (event: AuditEvent) => void;
  readonly #usualShare: number;
  readonly #mostWrong: number;
  readonly #workload: WorkloadWatch;
  /** All bets since the beginning, by which exits are switched off. Not more than 1 is ever put in. */
  readonly #evidence: FairBets;
  #stakes = 1;
  /** Bets since nothing spoke against the promise, which only say how many exits are audited. */
  #recent: FairBets;
  #doubt: AuditDoubt | undefined;
  /** Something was put in for this doubt. */
  #hasStaked = false;
  #runs = 0;
  #exits = 0;
  #audited = 0;
  #different = 0;
  #off = false;

  /** Of settings of scope `run`. `tell`: hears of all that it sees itself. */
  constructor(
    { consensus: { audit, most_wrong: mostWrong, usual_votes: usual } }: EarlyExitConfig,
    tell: (event: AuditEvent) => void = () => {},
  ) {
    this.#tell = tell;
    this.#usualShare = audit;
    this.#mostWrong = mostWrong;
    const known = Object.entries(usual ?? {});
    this.#workload = new WorkloadWatch(
      known.map(([votes, runs]) => [votes === "never" ? Infinity : Number(votes), runs]),
    );
    this.#evidence = new FairBets(mostWrong, partOf(this.#stakes));
    this.#recent = new FairBets(mostWrong, 1);
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

  /** Why every exit is audited now; undefined for the usual share. */
  get doubt(): AuditDoubt | undefined {
    return this.#doubt;
  }

  /** Share of the exits that is audited now; 1, too, for runs that were at work when exits were switched off. */
  get share(): number {
    return this.#doubt === undefined ? this.#usualShare : 1;
  }

  /**
   * A run's agents agree for the first time, after so many votes, or its root has answered without that (Infinity). True
   * when its exit is held back: drawn by its seed and the number of exits before it, since a client may send the same
   * seed with all that it asks. What its votes say of the workload counts for those behind it.
   */
  holdsBack(votes: number, drawSeed: string): boolean {
    const agrees = votes < Infinity;
    const drawn = agrees && drawFor({ seed: drawSeed, cluster: "audit", completions: this.#exits++ });
    const isHeldBack = drawn !== false && drawn < this.share;
    const draw = drawFor({ seed: drawSeed, cluster: "audit place", completions: this.#runs++ });
    this.#see({ kind: "votes", votes, draw });
    return isHeldBack;
  }

  /** A whole run has answered whose exit was held back; an answer that cannot be told is another one. */
  compare(exit: FinalAnswer, whole: FinalAnswer | undefined): "same" | "other" {
    const differs = whole === undefined || !equalAnswers(whole, exit);
    this.#see({ kind: "compared", differs });
    return differs ? "other" : "same";
  }

  /** What the audit of the same exits has seen elsewhere. */
  take(event: AuditEvent): void {
    if (event.kind === "compared") return this.#compared(event.differs);
    if (!this.#workload.differs(event.votes, event.draw)) return;
    this.#doubt = "workload";
    this.#recent.add(Math.max(0, SUSPICION - this.#recent.held));
    this.#stake();
  }

  #see(event: AuditEvent): void {
    this.take(event);
    this.#tell(event);
  }

  #compared(differs: boolean): void {
    this.#audited++;
    if (differs) this.#different++;
    if (!this.#off) this.#bet(differs);
  }

  #bet(differs: boolean): void {
    this.#evidence.play(differs);
    this.#off = this.#evidence.held >= ENOUGH;
    this.#recent.play(differs);
    if (this.#recent.held <= 1) this.#dispel();
    else {
      this.#doubt ??= "other_answer";
      this.#stake();
    }
  }

  /** What was put in at first is lost after a long time in which the promise was kept: a grave doubt bets anew, once. */
  #stake(): void {
    if (this.#hasStaked || this.#recent.held < ENOUGH) return;
    this.#hasStaked = true;
    this.#evidence.add(partOf(++this.#stakes));
  }

  #dispel(): void {
    this.#recent = new FairBets(this.#mostWrong, 1);
    this.#doubt = undefined;
    this.#hasStaked = false;
  }
}

/** Parts that come to 1 together: 1/2, 1/6, 1/12 and so on. */
function partOf(stake: number): number {
  return 1 / (stake * (stake + 1));
}
