import { CanopyError, messageOf } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { Sampling } from "../../engines/engine.ts";
import { cacheReportOf } from "../../engines/prompt_prefix_of.ts";
import type { AgentContext } from "../agent/agent_context.ts";
import { attemptOutcome } from "../agent/attempt_outcome.ts";
import type { AgentGraph } from "../graph/graph_types.ts";
import type { GrowingPrompt } from "./growing_prompt.ts";
import type { WarmControl } from "./warm_control.ts";
import { blockTokensOf, isUsable, stepTokens, streamsAt } from "./warm_step.ts";
import type { Lease } from "../../pool/lease.ts";
import { PromptPrefix } from "../../pool/prompt_prefix.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Warms of one prompt that the trace shows one by one, and waits for a turn; the others it counts. */
export const TRACED_WARMS = 48;
export const TRACED_WAITS = 16;

/** Pause after a warm that found no place, where streams fill the server's steps, and after the first one that failed. */
const PAUSE_MS = { noPlace: 50, streams: 250, failure: 100 };
/** Failures of one prompt's warms after which it is warmed no more. */
const MAX_FAILURES = 3;

/** Options of a `Warmer`. */
export interface WarmerOptions {
  readonly agent: string;
  readonly model: ServedModel;
  readonly control: WarmControl;
  readonly settings: AgentGraph["incrementalPrefill"];
  /** Why warms are held back while a precursor writes on the same worker; undefined where they are not. */
  readonly held: JsonObject | undefined;
  readonly prompt: GrowingPrompt;
  /** Of the request to come. */
  readonly sampling: Sampling;
  /** Longest prompt that will be sent: nothing beyond is warmed. */
  readonly limitTokens: number;
  readonly stickyKey: string;
  readonly context: AgentContext;
}

/** The outcome of a prompt's warming. */
export interface Warmed {
  /** Tokens at the beginning of the prompt that warms have sent. */
  readonly tokens: number;
  /** Tokens that were computed by warms: sent, and not cached before. */
  readonly computed: number;
}

/**
 * Warms one prompt while its precursors write. One warm is under way at a time; when it returns, the next one covers
 * everything that has become stable since: the pace sets itself. All go where the first one went.
 */
export class Warmer {
  readonly #options: WarmerOptions;
  readonly #controller = new AbortController();
  readonly #pause = new AbortController();
  #open = true;
  #busy = false;
  readonly #onTurn = () => this.poke();
  #leaveLine: () => void = () => {};
  #paused = false;
  /** The encoding of a long text, at whose end it looks again. */
  #feeding: Promise<void> | undefined;
  /** The prefill server that holds the prefix. */
  #home: string | undefined;
  #sent = 0;
  /** Length of the first warm. */
  #beginning: number | undefined;
  #computed = 0;
  #warms = 0;
  #failures = 0;
  /** Times that it was held back because the workers had better things to do. */
  #yielded = 0;
  /** Times that it was not its turn. */
  #waits = 0;
  #saidHeld = false;
  /** The precursor whose text is at the end of what is stable, and how much of it is still missing for a warm. */
  #waitsFor: string | undefined;
  #missing = 0;

  constructor(options: WarmerOptions) {
    this.#options = options;
  }

  /** Begins a moment later, when the requests that start together with the run have their places. */
  start(): void {
    this.#sleep(0);
  }

  /** Splices and warms what there is. To be called when a precursor has ended. */
  poke(): void {
    if (!this.#open || this.#busy || this.#paused) return;
    const { kept, waitsFor, busy } = this.#options.prompt.update();
    if (busy !== undefined && busy !== this.#feeding) {
      this.#feeding = busy;
      busy.then(() => this.poke());
    }
    this.#sent = Math.min(this.#sent, kept);
    const length = this.#nextLength();
    this.#waitsFor = waitsFor;
    this.#missing = length === undefined ? this.#sent + this.#step() - this.#stable : 0;
    if (length === undefined) return;
    const lease = this.#lease();
    if (lease !== undefined) void this.#warm(length, lease);
  }

  /** A precursor has written more tokens. */
  grew(agent: string, tokens: number): void {
    if (agent !== this.#waitsFor) return;
    this.#missing -= tokens;
    // What is missing counts stable tokens, which lag behind by a few.
    if (this.#missing <= 0) this.poke();
  }

  /** The prompt itself is about to be sent: no warm begins any more, one under way goes on. */
  close(): Warmed {
    this.#end();
    // While it was held back nobody looked at what its precursors had come to.
    const { kept } = this.#options.prompt.update({ inline: true });
    this.#sent = Math.min(this.#sent, kept);
    return { tokens: this.#sent, computed: this.#computed };
  }

  /** Ends a warm that is under way. */
  abort(reason: unknown): void {
    this.#end();
    this.#controller.abort(reason);
  }

  #end(): void {
    this.#open = false;
    this.#leaveLine();
    this.#pause.abort();
  }

  /** Figures of all its warms, for the trace. */
  summary(): JsonObject {
    return {
      warms: this.#warms,
      tokens: this.#sent,
      stable: this.#stable,
      computed: this.#computed,
      ...(this.#failures === 0 ? {} : { failures: this.#failures }),
      ...(this.#yielded === 0 ? {} : { yielded: this.#yielded }),
    };
  }

  /** Tokens computed by warms so far. */
  get computed(): number {
    return this.#computed;
  }

  get #stable(): number {
    return Math.min(this.#options.prompt.stableTokens, this.#options.limitTokens);
  }

  get #block(): number {
    return blockTokensOf(this.#options.model);
  }

  #step(): number {
    const { model, control, settings: { chunkTokens } } = this.#options;
    if (chunkTokens !== undefined) return Math.max(this.#block, chunkTokens);
    const splicedTokens = Math.max(0, this.#sent - (this.#beginning ?? this.#sent));
    return stepTokens({ model, control, home: this.#home, splicedTokens, stableTokens: this.#stable });
  }

  /** The length of the next warm, whole blocks; undefined while too little is new. */
  #nextLength(): number | undefined {
    const { chunkTokens } = this.#options.settings;
    const wanted = chunkTokens === undefined ? this.#stable : this.#sent + this.#step();
    const length = this.#whole(Math.min(wanted, this.#stable));
    return wanted <= this.#stable && length - this.#whole(this.#sent) >= this.#whole(this.#step())
      ? length
      : undefined;
  }

  #whole(tokens: number): number {
    return Math.floor(tokens / this.#block) * this.#block; // also of Infinity, where a remainder would be NaN
  }

  /** A place at home, if home has nothing better to do. */
  #lease(): Lease | undefined {
    const { model, stickyKey, prompt } = this.#options;
    const { gate } = model.pool;
    if (this.#home !== undefined && this.#delays(this.#home)) return this.#hold();
    if (gate.waiting > 0) return this.#yield(PAUSE_MS.noPlace);
    if (this.#home !== undefined && !this.#isMyTurn(this.#home)) return undefined;
    let lease: Lease;
    try {
      lease = gate.leaseNow({ stickyKey, prompt: PromptPrefix.ofTokens(prompt.stable) });
    } catch (error) {
      if (!CanopyError.is(error)) throw error;
      return this.#yield(PAUSE_MS.noPlace);
    }
    const { home } = lease;
    if (this.#home !== home && this.#home !== undefined) {
      // The key's home is full, or gone: then what it had is lost, too.
      if (isUsable(model, this.#home)) {
        lease.release("aborted");
        return this.#yield(PAUSE_MS.noPlace);
      }
      this.#sent = 0;
    }
    this.#home = home;
    const delays = this.#delays(home);
    if (!delays && this.#isMyTurn(home)) return lease;
    lease.release("aborted");
    return delays ? this.#hold() : undefined;
  }

  /** True when a worker has nothing better to do than this; if it has, the next look is when it may be free. */
  #isMyTurn(home: string): boolean {
    const { turns } = this.#options.control;
    const pausedMs = turns.pausedMs(home);
    const busyWith = turns.busyWith(home, streamsAt(this.#options.model, home));
    if (pausedMs === 0 && busyWith === undefined) return true;
    if (this.#waits++ < TRACED_WAITS) {
      const data = { worker: home, for: pausedMs > 0 ? "pause" : busyWith ?? "" };
      this.#options.context.trace.add("warm_held", { agent: this.#options.agent, data });
    }
    if (pausedMs > 0) this.#yield(pausedMs);
    else if (busyWith === "streams") this.#yield(PAUSE_MS.streams);
    else {
      this.#leaveLine = turns.wait(home, this.#onTurn);
      this.#hold();
    }
    return false;
  }

  /**
   * True when a warm would delay the very text that the prompt waits for by as much as it saves: a precursor writes on a
   * server that stops its streams to prefill, or of which that was measured.
   */
  #delays(home: string): boolean {
    const { model, prompt, held, agent, context, settings: { mode, chunkTokens } } = this.#options;
    if (mode !== "auto" || chunkTokens !== undefined || !prompt.isWrittenOn(home)) return false;
    if (model.engine.capabilities.warm === "max_new_tokens_0") return true;
    if (held === undefined) return false;
    if (!this.#saidHeld) {
      this.#saidHeld = true;
      context.trace.add("warm_held", { agent, data: { worker: home, ...held } });
    }
    return true;
  }

  /** Waits until a precursor ends, or until its turn has come. */
  #hold(): undefined {
    this.#yielded++;
    this.#missing = Infinity;
    return undefined;
  }

  #yield(ms: number): undefined {
    this.#yielded++;
    this.#sleep(ms);
    return undefined;
  }

  async #warm(length: number, lease: Lease): Promise<void> {
    const { model, settings, control, prompt, sampling, context } = this.#options;
    const { clock, work, spans, headers } = context;
    const signal = this.#controller.signal;
    const end = Math.min(length, this.#sent + this.#limit(lease, settings.maxStallMs));
    const ids = prompt.stable.slice(0, end);
    const startedMs = clock.now();
    const sentBefore = this.#sent;
    const endTurn = control.turns.take(this.#home ?? "", end - this.#sent);
    this.#busy = true;
    work.begin();
    const span = spans?.begin({
      name: `warm ${model.name}`,
      kind: "internal",
      parent: headers,
      attributes: {
        "gen_ai.request.model": model.name,
        "gen_ai.agent.name": this.#options.agent,
        "canopy.prefix_tokens": end,
        "canopy.worker": lease.workerId,
      },
    });
    this.#note("warm_sent", { tokens: end, from: this.#sent, worker: this.#home ?? "" });
    try {
      const result = await model.engine.warm({ kind: "tokens", ids }, lease, signal, sampling);
      const ms = clock.now() - startedMs;
      lease.promptRead(cacheReportOf(result));
      lease.release("ok");
      span?.set({
        "gen_ai.usage.input_tokens": result.promptTokens,
        "gen_ai.usage.cache_read.input_tokens": result.cachedTokens,
      });
      span?.end();
      const newTokens = Math.max(0, result.promptTokens - (result.cachedTokens ?? sentBefore));
      // A slot may have vanished meanwhile: then less of it is the prompt's beginning, which the next poke sees.
      this.#sent = Math.max(this.#sent, end);
      this.#beginning ??= end;
      this.#computed += newTokens;
      const againTokens = Math.max(0, sentBefore - (result.cachedTokens ?? sentBefore));
      const sample = { newTokens, againTokens, ms };
      const paused = control.warmed(this.#home ?? "", sample);
      this.#note("warm_done", {
        tokens: end,
        ...(result.cachedTokens === undefined ? {} : { cached: result.cachedTokens }),
        ms: Math.round(ms * 1000) / 1000,
        ...(paused === 0 ? {} : { pause_ms: Math.round(paused) }),
      });
      this.#warms++;
      if (paused > 0) this.#sleep(paused);
    } catch (error) {
      lease.release(signal.aborted ? "aborted" : attemptOutcome(error));
      span?.end(signal.aborted ? undefined : messageOf(error));
      if (!signal.aborted) this.#onFailure(error);
    } finally {
      this.#busy = false;
      work.end();
      endTurn();
      this.poke();
    }
  }

  #onFailure(error: unknown): void {
    this.#failures++;
    this.#options.control.failed();
    this.#note("warm_failed", { error: messageOf(error) });
    if (this.#failures >= MAX_FAILURES) this.#end();
    else this.#sleep(PAUSE_MS.failure * 2 ** this.#failures);
  }

  /**
   * Most new tokens of the next warm: where prefill and decode share a GPU, a warm stalls all streams there for as long
   * as it takes, unless the server sees to that itself.
   */
  #limit(lease: Lease, maxStallMs: number): number {
    if (lease.prefill !== undefined || this.#options.model.engine.capabilities.smallPieces) {
      return Infinity;
    }
    // Its own place is counted already.
    if (streamsAt(this.#options.model, this.#home) <= 1) return Infinity;
    return Math.max(this.#block, this.#whole(Math.floor(this.#options.control.tokensWithin(maxStallMs))));
  }

  #sleep(ms: number): void {
    this.#paused = true;
    this.#options.context.clock.sleep(ms, this.#pause.signal).then(() => {
      this.#paused = false;
      this.poke();
    }, () => {});
  }

  #note(type: string, data: JsonObject): void {
    if (this.#warms >= TRACED_WARMS) return;
    this.#options.context.trace.add(type, { agent: this.#options.agent, data });
  }
}
