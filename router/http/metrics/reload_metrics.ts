import { type Clock, unixSeconds } from "../../../base/clock.ts";
import { Counter, type MetricsText } from "../../../base/prometheus.ts";

/** The end of an attempt to read the configuration again; `unchanged`: it says what it said. */
export type ReloadResult = "applied" | "refused" | "unchanged";

/** The configuration in effect, and what became of attempts to read it again. */
export class ReloadMetrics {
  readonly #clock: Clock;
  readonly #reloads = new Counter("canopy_config_reloads_total", "Readings of the configuration, by result.");
  #hash = "";
  /** Unix time in seconds. */
  #appliedAt: number;
  #refused = false;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#appliedAt = unixSeconds(clock);
  }

  /** Says which configuration is in effect from the start on: a hash that equal ones have in common. */
  started(hash: string): void {
    this.#hash = hash;
  }

  /** Counts an attempt; `hash` is that of the configuration in effect. */
  ended(result: ReloadResult, hash: string): void {
    this.#reloads.add({ result });
    this.#refused = result === "refused";
    this.#hash = hash;
    if (result !== "refused") this.#appliedAt = unixSeconds(this.#clock);
  }

  write(text: MetricsText): void {
    this.#reloads.write(text);
    text.gauge(
      "canopy_config_last_reload_successful",
      "0 when the configuration was last refused.",
      this.#refused ? 0 : 1,
    );
    text.gauge(
      "canopy_config_last_success_timestamp_seconds",
      "When the configuration was last read without a fault, as unix time.",
      this.#appliedAt,
    );
    text.gauge("canopy_config_info", "1; the hash of the configuration in effect.", [[
      { hash: this.#hash },
      1,
    ]]);
  }
}
