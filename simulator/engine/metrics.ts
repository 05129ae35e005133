import { Distribution } from "../../base/prometheus.ts";
import type { EngineSequence } from "./sequence.ts";

const SECONDS = [
  0.001,
  0.005,
  0.01,
  0.02,
  0.04,
  0.06,
  0.08,
  0.1,
  0.25,
  0.5,
  0.75,
  1,
  2.5,
  5,
  7.5,
  10,
  20,
  40,
  80,
];

/** Counters of requests that have ended. */
export class EngineMetrics {
  readonly firstTokenSeconds: Distribution = new Distribution(SECONDS);
  readonly requestSeconds: Distribution = new Distribution(SECONDS);
  readonly queueSeconds: Distribution = new Distribution(SECONDS);
  readonly finished: Map<string, number> = new Map();
  rejected = 0;

  /** Books an ended sequence. */
  record(sequence: EngineSequence, reason: string): void {
    this.finished.set(reason, (this.finished.get(reason) ?? 0) + 1);
    const endMs = sequence.endedMs;
    if (endMs === undefined) return;
    this.requestSeconds.observe((endMs - sequence.arrivedMs) / 1000);
    if (sequence.scheduledMs !== undefined) {
      this.queueSeconds.observe((sequence.scheduledMs - sequence.arrivedMs) / 1000);
    }
    if (sequence.prefilledMs !== undefined) {
      this.firstTokenSeconds.observe((sequence.prefilledMs - sequence.arrivedMs) / 1000);
    }
  }
}

/** A number as Python's client for Prometheus spells it. */
export function pythonFloat(value: number): string {
  return Number.isInteger(value) ? `${value}.0` : String(value);
}
