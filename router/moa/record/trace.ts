import { AppendLog } from "./append_log.ts";
import type { Clock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";

/** One thing that happened in a run. `atMs` counts from the run's start. */
export interface TraceEvent {
  readonly atMs: number;
  /**
   * `run_started`, then `agent_queued`, `agent_placed`, `agent_first_token`, `agent_retried`, `agent_resumed`,
   * `agent_restarted`, `hedge_started`, `hedge_refused`, `hedge_ended`, `agent_looped`, `agent_done`, `agent_failed`, `agent_cancelled`, `warm_off` or `warm_sent`, `warm_done`,
   * `warm_failed`, `warm_stopped`, `answers_cut`, `max_tokens_lowered`, `exit_decided`, `cluster_closed`,
   * `agent_cut`, `root_decided`, `rewrite_started`, `rewrite_ended`, `budget_refused`, `budget_spent`, `staircase_off`,
   * `agent_step` (and `trace_full` where no more are kept),
   * last `run_done`, `run_failed` or `run_cancelled`.
   */
  readonly type: string;
  readonly agent?: string;
  readonly cluster?: string;
  readonly data?: JsonObject;
}

/** Events of a run in the order in which they happened; at most `maxEvents`, then only the last one is kept. */
export class Trace {
  readonly #clock: Clock;
  readonly #startedAtMs: number;
  readonly #maxEvents: number;
  readonly #log = new AppendLog<TraceEvent>();

  constructor(clock: Clock, maxEvents: number) {
    this.#clock = clock;
    this.#startedAtMs = clock.now();
    this.#maxEvents = maxEvents;
  }

  /** Time since the run's start. */
  get nowMs(): number {
    return this.#clock.now() - this.#startedAtMs;
  }

  get events(): readonly TraceEvent[] {
    return this.#log.items;
  }

  add(type: string, of: { agent?: string; cluster?: string; data?: JsonObject } = {}): void {
    const room = this.#maxEvents - 1 - this.#log.items.length;
    if (room > 0) this.#log.append({ atMs: this.nowMs, type, ...of });
    else if (room === 0) this.#log.append({ atMs: this.nowMs, type: "trace_full" });
  }

  /** Adds the last event, for which there is always room. */
  end(type: string, data: JsonObject): void {
    this.#log.append({ atMs: this.nowMs, type, data });
    this.#log.end();
  }

  /** Past events, then new ones until the run ends. */
  read(signal: AbortSignal): AsyncIterable<TraceEvent> {
    return this.#log.read(signal);
  }
}
