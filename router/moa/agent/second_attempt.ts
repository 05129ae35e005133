import { messageOf } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { EngineUsage, GenerateEvent, GenerateRequest } from "../../engines/engine.ts";
import { cacheReportOf, promptPrefixOf } from "../../engines/prompt_prefix_of.ts";
import type { Lease } from "../../pool/lease.ts";
import { serverIdOf } from "../../pool/worker.ts";
import type { ServedModel } from "../../served/served_model.ts";
import type { PlacementOutcome } from "../../worker/placement.ts";
import type { HedgeRecord } from "../record/run_record.ts";
import type { AgentContext } from "./agent_context.ts";
import { attemptOutcome, unfinishedError } from "./attempt_outcome.ts";
import type { HedgeControl } from "./hedge_control.ts";
import { type OutputDelta, OutputLog, tokensOf } from "./output_log.ts";

/** The last event of a generation. */
type End = Extract<GenerateEvent, { type: "end" }>;

/** Reason of the end of an attempt that the other one was faster than. */
const OUTRUN = new Error("Another attempt was faster");

/** Options of a `SecondAttempt`. */
export interface SecondAttemptOptions {
  readonly model: ServedModel;
  readonly control: HedgeControl;
  readonly context: AgentContext;
  /** What the first attempt writes. */
  readonly log: OutputLog;
  readonly request: Omit<GenerateRequest, "id">;
  readonly note: (type: string, data: JsonObject) => void;
  /** The second attempt has its whole answer first. Gives what makes that the agent's; undefined where it cannot be. */
  readonly adopt: (attempt: SecondAttempt) => (() => void) | undefined;
}

/**
 * A second attempt at an agent's answer, on another worker, for when the first one is far behind. The first that ends
 * is the agent's, the other one is ended on its engine. None is begun, and none counts, once a reader has had some of
 * what the first one wrote.
 */
export class SecondAttempt {
  readonly #options: SecondAttemptOptions;
  readonly #log = new OutputLog();
  readonly #deltas: OutputDelta[] = [];
  readonly #stop = new AbortController();
  #isOver = false;
  #wasRefused = false;
  #running: EngineUsage | undefined;
  #end: End | undefined;
  #worker = "";
  #startedAtMs: number | undefined;
  #firstTokenAtMs: number | undefined;
  #endedAtMs: number | undefined;
  #outcome: HedgeRecord["outcome"];
  /** The attempt itself, while it is under way. */
  #under: Promise<void> | undefined;
  /** The first attempt's end, where this one was faster. */
  #outrun: (() => void) | undefined;

  constructor(options: SecondAttemptOptions) {
    this.#options = options;
  }

  /** True from its place on. */
  get begun(): boolean {
    return this.#startedAtMs !== undefined;
  }

  get won(): boolean {
    return this.#outcome === "won";
  }

  get worker(): string {
    return this.#worker;
  }

  /** All that it has written, with its end. */
  get written(): { readonly deltas: readonly OutputDelta[]; readonly end: End | undefined } {
    return { deltas: this.#deltas, end: this.#end };
  }

  /** Times from the run's start. */
  get times(): { readonly placedAtMs: number | undefined; readonly firstTokenAtMs: number | undefined } {
    return { placedAtMs: this.#startedAtMs, firstTokenAtMs: this.#firstTokenAtMs };
  }

  /** Tokens that it cost beside the first one; of one that has won they are the agent's. */
  get extra(): { readonly promptTokens: number; readonly completionTokens: number; readonly wasted: number } {
    if (this.won || !this.begun) return { promptTokens: 0, completionTokens: 0, wasted: 0 };
    const { prompt } = this.#options.request;
    const usage = this.#end?.usage.reported === false ? this.#running : this.#end?.usage ?? this.#running;
    const tokens = Math.max(usage?.completionTokens ?? 0, this.#log.tokens);
    const known = prompt.kind === "tokens" && tokens > 0 ? prompt.ids.length : 0;
    return {
      promptTokens: usage?.promptTokens ?? known,
      completionTokens: tokens,
      wasted: this.#outcome === undefined ? 0 : tokens,
    };
  }

  get record(): HedgeRecord | undefined {
    if (this.#startedAtMs === undefined) return undefined;
    return {
      worker: this.#worker,
      startedAtMs: this.#startedAtMs,
      endedAtMs: this.#endedAtMs,
      outcome: this.#outcome,
      tokens: Math.max(this.#end?.usage.completionTokens ?? 0, this.#log.tokens),
    };
  }

  /** The first attempt has got its place. Begins when that one is late, unless the returned function is called before. */
  placed(lease: Lease): () => void {
    const { control, context: { clock } } = this.#options;
    const { afterMs } = control;
    if (afterMs === undefined || this.begun || this.#isOver) return () => {};
    let cancel = () => {};
    // What others pay for may be enough when it is as late once more.
    const later = () => cancel = clock.timer(afterMs, () => this.#begin(lease, afterMs, later));
    later();
    return () => cancel();
  }

  /** The first attempt's end, or this one's where that is adopted before. Rejects as the first attempt does. */
  async race(first: (signal: AbortSignal) => Promise<End>, signal: AbortSignal): Promise<End> {
    const { work } = this.#options.context;
    const ends = new AbortController();
    const onAbort = () => {
      ends.abort(signal.reason);
      this.#finish("lost", signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    const outrun = new Promise<"outrun">((resolve) => {
      this.#outrun = () => {
        ends.abort(OUTRUN);
        resolve("outrun");
      };
    });
    const one = first(ends.signal);
    // Decided when it settles, not when that is heard of.
    const settled = one.then((end) => {
      this.#finish("lost", OUTRUN);
      return end;
    }, async (error) => {
      // The other one may answer yet.
      if (!signal.aborted) await this.#under;
      this.#isOver = true;
      signal.throwIfAborted();
      throw error;
    });
    try {
      const winner = await Promise.race([settled, outrun]);
      if (winner !== "outrun" && !this.won) return winner;
      work.begin();
      one.then(() => work.end(), () => work.end());
      return this.#end!;
    } finally {
      settled.catch(() => {});
      signal.removeEventListener("abort", onAbort);
    }
  }

  #begin(first: Lease, afterMs: number, again: () => void): void {
    const { model: { pool }, log, control, request: { prompt }, note } = this.#options;
    if (this.#isOver || this.begun) return;
    const refuse = (reason: string) => {
      if (!this.#wasRefused) note("hedge_refused", { reason, after_ms: afterMs });
      this.#wasRefused = true;
    };
    if (log.isRead) return refuse("its text is read already");
    const ids = [first.workerId, first.prefill?.workerId];
    // The ranks of a server are slow together.
    const servers = new Set(pool.workers().filter(({ id }) => ids.includes(id)).map(serverIdOf));
    const others = pool.workers().filter((worker) => servers.has(serverIdOf(worker))).map(({ id }) => id);
    const exclude = new Set([...ids, ...others].filter((id) => id !== undefined));
    let lease: Lease | undefined;
    try {
      lease = pool.gate.leaseNow({ prompt: promptPrefixOf(prompt), exclude }, { reads: true });
    } catch {
      return refuse("no other worker has a place");
    }
    const isElsewhere = !exclude.has(lease.workerId);
    if (isElsewhere && control.take()) this.#under = this.#run(lease, afterMs);
    else {
      lease.release("aborted");
      refuse(isElsewhere ? "max_share is used up" : "no other worker has a place");
      if (isElsewhere) again();
    }
  }

  async #run(lease: Lease, afterMs: number): Promise<void> {
    const { model: { engine }, context, request, note, adopt, log } = this.#options;
    const { trace, work, nextRequestId } = context;
    const { signal } = this.#stop;
    const id = nextRequestId();
    this.#worker = lease.workerId;
    this.#startedAtMs = trace.nowMs;
    note("hedge_started", { worker: lease.workerId, request: id, after_ms: afterMs });
    work.begin();
    lease.onLost?.((error) => this.#finish("failed", error));
    let outcome: PlacementOutcome = "aborted";
    try {
      for await (const event of engine.generate({ ...request, id }, lease, signal)) {
        signal.throwIfAborted();
        if (event.type === "end") this.#end = event;
        else this.#take(event, lease);
        if (log.isRead) this.#finish("lost", new Error("The first attempt's text is read already"));
      }
      signal.throwIfAborted();
      if (this.#end === undefined) throw unfinishedError(lease);
      if (this.#end.decodedAlone === undefined) lease.promptRead(cacheReportOf(this.#end.usage));
      outcome = "ok";
      const replay = this.#isOver ? undefined : adopt(this);
      this.#finish(replay === undefined ? "lost" : "won", OUTRUN);
      if (replay === undefined) return;
      this.#outrun?.();
      replay();
    } catch (error) {
      if (!signal.aborted) outcome = attemptOutcome(error);
      this.#finish("failed", error);
    } finally {
      lease.release(outcome);
      work.end();
    }
  }

  #take(delta: OutputDelta, lease: Lease): void {
    if (this.#firstTokenAtMs === undefined && tokensOf(delta) > 0) {
      this.#firstTokenAtMs = this.#options.context.trace.nowMs;
      lease.promptRead();
    }
    if (delta.usage !== undefined) this.#running = delta.usage;
    this.#log.append(delta);
    this.#deltas.push(delta);
  }

  #finish(outcome: NonNullable<HedgeRecord["outcome"]>, reason: unknown): void {
    if (this.#isOver) return;
    this.#isOver = true;
    if (!this.begun) return;
    const { context: { trace }, note } = this.#options;
    this.#outcome = outcome;
    this.#endedAtMs = trace.nowMs;
    if (outcome !== "won") this.#stop.abort(reason);
    note("hedge_ended", {
      worker: this.#worker,
      outcome,
      tokens: this.record?.tokens ?? 0,
      ...(outcome === "won" ? {} : { reason: messageOf(reason) }),
    });
  }
}
