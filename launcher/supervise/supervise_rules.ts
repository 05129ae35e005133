/** Time limits and restarts of supervision. */
export interface SuperviseRules {
  /** Longest time without any progress until an engine is ready, in ms; a download that moves is progress. */
  readonly readyTimeoutMs: number;
  /** Time that engines have to end after SIGTERM, in ms; then they are killed. */
  readonly graceMs: number;
  /** Crashes within `windowMs` after which an engine stays down. */
  readonly maxCrashes: number;
  readonly windowMs: number;
  /** Wait before the first restart, in ms; it doubles with each crash within the window. */
  readonly firstDelayMs: number;
  readonly maxDelayMs: number;
}

/** Loading and compiling a large model takes 2 to 10 minutes. */
export const DEFAULT_RULES: SuperviseRules = {
  readyTimeoutMs: 20 * 60_000,
  graceMs: 20_000,
  maxCrashes: 5,
  windowMs: 10 * 60_000,
  firstDelayMs: 1_000,
  maxDelayMs: 60_000,
};

/** Wait before a crashed engine is started again, in ms; undefined: it stays down. `crashesAtMs` ends with now. */
export function restartDelayMs(crashesAtMs: readonly number[], rules: SuperviseRules): number | undefined {
  const nowMs = crashesAtMs.at(-1) ?? 0;
  const recent = crashesAtMs.filter((atMs) => nowMs - atMs < rules.windowMs).length;
  if (recent >= rules.maxCrashes) return undefined;
  return Math.min(rules.maxDelayMs, rules.firstDelayMs * 2 ** (recent - 1));
}
