import type { Clock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import { WarmToll } from "./warm_toll.ts";

/** Least share of the streams' time that warms must cost before it is asked whether they are worth it. */
const SUSPECT_SHARE = 0.05;
/** Prompts of each kind that a verdict needs, and the weight that each new one takes from those before it. */
const VERDICT = { prompts: 2, decay: 0.8 };
/** Warms are held back where what they cost is at least this part of what they save. */
const COST_SHARE = 0.75;
/**
 * How long warms are held back: twice as long each time that the verdict is the same again, and for so many prompts at
 * least, however rare they are.
 */
const HOLD = { leastMs: 120_000, mostMs: 1_920_000, prompts: 16 };
/** Time after a verdict that warming pays in which it is not asked again. */
const PAYS_MS = 600_000;

/** One final prompt that was answered, where a precursor wrote on the worker that read it. */
export interface WorthSample {
  /** True where warms were held back while its precursors wrote there. */
  readonly held: boolean;
  readonly promptTokens: number;
  readonly firstTokenMs: number;
  /** Tokens that warms computed on the same worker while the last precursor wrote there. */
  readonly delayingTokens: number;
}

/**
 * Whether warms are worth what they cost, from the runs' own times: what each token of a warm costs the streams of its
 * worker, times those that came while a prompt's last precursor wrote there, against the time to the first token that
 * warmed prompts save. Where warms cost the streams little nothing is asked; where they cost much, every other run is
 * left cold until both are known.
 */
export class WarmWorth {
  readonly toll: WarmToll = new WarmToll();
  readonly #clock: Clock;
  #hold: { readonly untilMs: number; prompts: number; readonly figures: JsonObject } | undefined;
  #nextHoldMs = HOLD.leastMs;
  #paysUntilMs = 0;
  /** Warms cost the streams much: kept until they are found to pay, since nothing is seen of it while they are held. */
  #isSuspect = false;
  #isCold = false;
  #warmed = emptySums();
  #cold = emptySums();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** To be asked once for each run: why its warms are held back while precursors write; undefined where they are not. */
  begin(): JsonObject | undefined {
    if (this.#isHeld) return this.#hold?.figures;
    if (!this.#isSuspect || this.#cold.count >= VERDICT.prompts) return undefined;
    this.#isCold = !this.#isCold;
    return this.#isCold ? { for: "comparison", reason: "left cold to compare with" } : undefined;
  }

  /** A final prompt has been read. */
  answered({ held, promptTokens, firstTokenMs, delayingTokens }: WorthSample): void {
    // Of a run that began before the verdict.
    if (!held && this.#isHeld) return;
    const sums = held ? this.#cold : this.#warmed;
    for (const name of ["weight", "tokens", "ms", "delaying"] as const) sums[name] *= VERDICT.decay;
    sums.count++;
    sums.weight++;
    sums.tokens += promptTokens;
    sums.ms += firstTokenMs;
    sums.delaying += delayingTokens;
    if (held && this.#hold !== undefined) this.#hold.prompts--;
    if (!held && this.#clock.now() >= this.#paysUntilMs && this.toll.share >= SUSPECT_SHARE) {
      this.#isSuspect = true;
    }
    if (!this.#isHeld && this.#isSuspect) this.#judge();
  }

  get #isHeld(): boolean {
    return this.#hold !== undefined && (this.#hold.prompts > 0 || this.#clock.now() < this.#hold.untilMs);
  }

  #judge(): void {
    const [warmed, cold] = [this.#warmed, this.#cold];
    if (Math.min(warmed.count, cold.count) < VERDICT.prompts || cold.tokens === 0) return;
    const costMs = this.toll.msPerToken * warmed.delaying / warmed.weight;
    const gainMs = (cold.ms / cold.tokens * warmed.tokens - warmed.ms) / warmed.weight;
    const nowMs = this.#clock.now();
    // What is warmed must be seen anew each time; what is cold is seen while warms are held back.
    this.#warmed = emptySums();
    if (costMs < COST_SHARE * gainMs) {
      this.#isSuspect = false;
      this.#paysUntilMs = nowMs + PAYS_MS;
      this.#nextHoldMs = HOLD.leastMs;
      this.#cold = emptySums();
      return;
    }
    this.#hold = {
      untilMs: nowMs + this.#nextHoldMs,
      prompts: HOLD.prompts,
      figures: {
        for: "precursors",
        reason: "warms cost the precursors what they save",
        cost_ms: rounded(costMs),
        gain_ms: rounded(gainMs),
      },
    };
    this.#nextHoldMs = Math.min(HOLD.mostMs, 2 * this.#nextHoldMs);
  }
}

function emptySums() {
  return { count: 0, weight: 0, tokens: 0, ms: 0, delaying: 0 };
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
