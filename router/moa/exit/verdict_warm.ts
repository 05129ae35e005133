import { attemptOutcome } from "../agent/attempt_outcome.ts";
import type { Judge } from "./judge.ts";
import type { ModelAccess } from "../run/run_options.ts";
import type { Lease } from "../../pool/lease.ts";

/** What came of a warm. */
export interface VerdictWarm {
  /** Tokens that are cached now. */
  readonly tokens: number;
  /** Of these, the ones that it computed. */
  readonly computed: number;
}

/**
 * Has the judging model read the question and the first answer while the second one is still being written. Once, and
 * only where nothing waits. Undefined when there was nothing to gain or no room; never rejects.
 */
export async function warmVerdict(
  judge: Judge,
  answer: string,
  { served, warming }: ModelAccess,
  stickyKey: string,
  signal: AbortSignal,
): Promise<VerdictWarm | undefined> {
  const { engine, pool: { gate } } = served;
  if (engine.capabilities.warm === "none" || warming.off !== undefined || gate.waiting > 0) return undefined;
  let lease: Lease | undefined;
  let endTurn = () => {};
  try {
    const prefix = judge.prefix(answer);
    if (prefix === undefined) return undefined;
    lease = gate.leaseNow({ stickyKey });
    const { home } = lease;
    if (warming.turns.busyWith(home) !== undefined || warming.turns.pausedMs(home) > 0) {
      lease.release("aborted");
      return undefined;
    }
    endTurn = warming.turns.take(home, prefix.tokens);
    const { promptTokens, cachedTokens } = await engine.warm(
      prefix.prompt,
      lease,
      signal,
      prefix.sampling,
    );
    lease.release("ok");
    return { tokens: promptTokens, computed: Math.max(0, promptTokens - (cachedTokens ?? 0)) };
  } catch (error) {
    lease?.release(signal.aborted ? "aborted" : attemptOutcome(error));
    return undefined;
  } finally {
    endTurn();
  }
}
