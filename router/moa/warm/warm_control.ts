import type { Clock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import { WarmTurns } from "./warm_turns.ts";
import { WarmWorth } from "./warm_worth.ts";
import type { PromptReads } from "../../pool/gate.ts";

/** Final prompts that a verdict needs, and the weight that each new one takes from those before it. */
const VERDICT = { prompts: 8, controls: 3, decay: 0.9 };
/** Least share of the warmed tokens that must be found in the cache, and most of the time that warming may leave. */
const GAIN = { cachedShare: 0.5, timeShare: 0.9 };
/** Time for which a model is not warmed after warming did not pay or failed. */
const OFF_MS = 60_000;
/** Failures in a row after which warming is off. */
const MAX_FAILURES = 4;
/** Prompts that are left cold to compare with, where the engine does not say what it found in its cache. */
const CONTROLS: readonly number[] = [1, 4, 8, 15];
const CONTROL_EVERY = 32;
/** A warm is slow when it takes so many times longer than expected, and this much on top. */
const SLOW = { factor: 2.5, marginMs: 10 };
/**
 * A short warm costs at least the least that was seen in such a time: load makes samples longer, nothing makes
 * them shorter, and a mean would take a lasting load for what is usual.
 */
const LEAST_OF_MS = 300_000;
const MAX_PAUSE_MS = 5000;
/** Pause after warmed tokens were found evicted; it doubles while that goes on. */
const EVICTED_PAUSE_MS = { least: 1000, most: 30_000 };
/** Warmed tokens count as evicted when a warm computes more again than this part of what is new in it. */
const AGAIN_SHARE = 0.5;
/** Tokens of a warm while nothing is known of the engine's speed. */
const FIRST_TOKENS = 256;
/** Warms of fewer new tokens tell what a warm costs at least, longer ones what a token costs. */
const FEW_TOKENS = 64;
/** No token is free: where a long warm took no longer than a short one, its tokens were lost in the noise. */
const LEAST_TOKEN_MS = 1e-4;

interface WorkerLoad {
  slowInARow: number;
  evictionsInARow: number;
  /** Tokens that warms have computed. */
  warmedTokens: number;
}

/** One warm that was answered. */
export interface WarmSample {
  /** Tokens that it computed. */
  readonly newTokens: number;
  /** Of these, the ones that an earlier warm had computed already. */
  readonly againTokens: number;
  readonly ms: number;
}

/** One final prompt that was answered. */
export interface PromptSample {
  readonly promptTokens: number;
  /** Undefined when the engine does not say. */
  readonly cachedTokens: number | undefined;
  /** Tokens that warms had sent before; 0 for a control. */
  readonly warmedTokens: number;
  readonly firstTokenMs: number;
}

/**
 * Decides when a model's prompts are warmed: not while its workers have real prompts to read, not while warms take far longer
 * than usual, and for a while not at all after it was measured that they do not pay. One for all runs.
 */
export class WarmControl {
  /** Turns to warm on each worker. */
  readonly turns: WarmTurns;
  /** What warms cost the streams beside them, and what they save. */
  readonly worth: WarmWorth;
  readonly #clock: Clock;
  readonly #workers = new Map<string, WorkerLoad>();
  /** Ms of a warm with few new tokens: the least of this period and of the one before. */
  #base = { leastMs: Infinity, beforeMs: Infinity, untilMs: 0 };
  /** Ms per token on top, near the least that was seen lately. */
  #tokenMs: number | undefined;
  #failures = 0;
  #off: { readonly untilMs: number; readonly figures: JsonObject } | undefined;
  #prompts = 0;
  #warmed = emptySums();
  #cold = emptySums();

  constructor(clock: Clock, prompts: PromptReads) {
    this.#clock = clock;
    this.turns = new WarmTurns(clock, prompts);
    this.worth = new WarmWorth(clock);
  }

  /** The reason why no prompt is warmed at present, with the figures that decided it; undefined while they are. */
  get off(): JsonObject | undefined {
    if (this.#off !== undefined && this.#clock.now() >= this.#off.untilMs) {
      this.#off = undefined;
      this.#failures = 0;
      this.#warmed = emptySums();
      this.#cold = emptySums();
    }
    return this.#off?.figures;
  }

  /** True when the next prompt is to be left cold to compare with. */
  takeControl(reportsCached: boolean): boolean {
    if (reportsCached) return false;
    const index = this.#prompts++;
    return CONTROLS.includes(index) || (index > CONTROLS.at(-1)! && index % CONTROL_EVERY === 0);
  }

  /** Most new tokens of a warm that stalls the other streams of its worker for at most `ms`. */
  tokensWithin(ms: number): number {
    if (this.#tokenMs === undefined) return FIRST_TOKENS;
    return Math.max(0, ms - (this.#baseMs ?? 0)) / Math.max(LEAST_TOKEN_MS, this.#tokenMs);
  }

  /**
   * New tokens from which on a warm is worth that it stops the `streams` of its server. What it computes would stop
   * them later; what it costs them is the step of its own. With a + b n ms for n tokens, k warms of a prompt of L tokens
   * cost the streams k a each, and leave b L / k to the end: the sum is least for L / k = sqrt(L streams a / b). One that
   * saves less than twice what it costs is left out.
   */
  worthwhile(promptTokens: number, streams: number): number {
    if (this.#baseMs === undefined || this.#tokenMs === undefined) return FIRST_TOKENS * streams;
    const evenTokens = streams * this.#baseMs / Math.max(LEAST_TOKEN_MS, this.#tokenMs);
    return Math.ceil(Math.max(2 * evenTokens, Math.sqrt(promptTokens * evenTokens)));
  }

  /** A warm was answered. Returns the pause that its worker gets, 0 if none. */
  warmed(workerId: string, { newTokens, againTokens, ms }: WarmSample): number {
    this.#failures = 0;
    const expectedMs = (this.#baseMs ?? ms) + (this.#tokenMs ?? Infinity) * newTokens;
    if (newTokens < FEW_TOKENS) this.#noteBase(ms);
    else this.#tokenMs = lean(this.#tokenMs, Math.max(0, ms - (this.#baseMs ?? 0)) / newTokens);
    const load = this.#load(workerId);
    load.warmedTokens += newTokens;
    // A cache that has no room for what was warmed has none to spare: each further warm evicts what others need.
    const evicted = againTokens > AGAIN_SHARE * (newTokens - againTokens);
    if (evicted) load.evictionsInARow++;
    else load.evictionsInARow = 0;
    const isSlow = ms > SLOW.factor * expectedMs + SLOW.marginMs;
    if (isSlow) load.slowInARow++;
    else load.slowInARow = 0;
    const pauseMs = Math.max(
      isSlow ? Math.min(MAX_PAUSE_MS, ms * 2 ** (load.slowInARow - 1)) : 0,
      evicted ? Math.min(EVICTED_PAUSE_MS.most, EVICTED_PAUSE_MS.least * 2 ** (load.evictionsInARow - 1)) : 0,
    );
    if (pauseMs > 0) this.turns.pause(workerId, pauseMs);
    return pauseMs;
  }

  /** Tokens that warms have computed on a worker so far. */
  warmedOn(workerId: string): number {
    return this.#workers.get(workerId)?.warmedTokens ?? 0;
  }

  /** A warm failed. */
  failed(): void {
    if (++this.#failures >= MAX_FAILURES) this.#turnOff({ reason: "warms fail", failures: this.#failures });
  }

  /** A final prompt has been read: what warming it was worth. */
  answered(sample: PromptSample): void {
    const sums = sample.warmedTokens > 0 ? this.#warmed : this.#cold;
    for (const name of ["prompts", "tokens", "warmed", "cached", "ms"] as const) sums[name] *= VERDICT.decay;
    sums.count++;
    sums.prompts++;
    sums.tokens += sample.promptTokens;
    sums.ms += sample.firstTokenMs;
    if (sample.cachedTokens !== undefined) {
      sums.warmed += sample.warmedTokens;
      sums.cached += Math.min(sample.cachedTokens, sample.warmedTokens);
    }
    this.#judge();
  }

  get #baseMs(): number | undefined {
    const ms = Math.min(this.#base.leastMs, this.#base.beforeMs);
    return ms === Infinity ? undefined : ms;
  }

  #noteBase(ms: number): void {
    const nowMs = this.#clock.now();
    if (nowMs >= this.#base.untilMs) {
      this.#base = { leastMs: Infinity, beforeMs: this.#base.leastMs, untilMs: nowMs + LEAST_OF_MS };
    }
    this.#base.leastMs = Math.min(this.#base.leastMs, ms);
  }

  #judge(): void {
    const warmed = this.#warmed;
    if (warmed.count < VERDICT.prompts) return;
    if (warmed.warmed > 0) {
      const share = warmed.cached / warmed.warmed;
      if (share < GAIN.cachedShare) {
        this.#turnOff({
          reason: "warmed tokens are not found in the cache",
          cached_share: rounded(share),
          prompts: warmed.count,
        });
      }
      return;
    }
    const cold = this.#cold;
    if (cold.count < VERDICT.controls || cold.tokens === 0 || warmed.tokens === 0) return;
    const warmMs = warmed.ms / warmed.tokens;
    const coldMs = cold.ms / cold.tokens;
    if (warmMs < GAIN.timeShare * coldMs) return;
    this.#turnOff({
      reason: "warmed prompts do not start sooner",
      warmed_ms_per_1k: rounded(warmMs * 1000),
      cold_ms_per_1k: rounded(coldMs * 1000),
      prompts: warmed.count,
      controls: cold.count,
    });
  }

  #turnOff(figures: JsonObject): void {
    this.#off = { untilMs: this.#clock.now() + OFF_MS, figures };
  }

  #load(workerId: string): WorkerLoad {
    let load = this.#workers.get(workerId);
    if (load === undefined) {
      // Workers come and go.
      if (this.#workers.size >= 1024) this.#workers.clear();
      this.#workers.set(workerId, load = { slowInARow: 0, evictionsInARow: 0, warmedTokens: 0 });
    }
    return load;
  }
}

function emptySums() {
  return { count: 0, prompts: 0, tokens: 0, warmed: 0, cached: 0, ms: 0 };
}

/** Follows a falling value at once and a rising one slowly: load makes single samples longer, nothing shorter. */
function lean(before: number | undefined, sample: number): number {
  return before === undefined ? sample : before + (sample < before ? 0.5 : 0.05) * (sample - before);
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
