import { deadlineSignal } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import type {
  EngineUsage,
  FinishReason,
  GenerateEvent,
  GenerateRequest,
  Prompt,
} from "../../engines/engine.ts";
import { agentOverdue } from "./agent_overdue.ts";
import type { AgentContext, AgentRequest } from "./agent_types.ts";
import { attemptOutcome, isRefused, unfinishedError } from "./attempt_outcome.ts";
import { type OutputDelta, OutputLog, tokensOf } from "./output_log.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import type { AgentRecord, AgentState } from "../record/run_record.ts";
import type { AgentUsage } from "../record/usage.ts";
import type { Lease } from "../../pool/lease.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { PlacementOutcome } from "../../worker/placement.ts";

/** What one attempt sends. */
type Attempt = Omit<AgentRequest, "logprobs"> & { readonly logprobs: number | undefined };

/** Shortest pause before another worker is tried, and the random part on top of it. */
const RETRY_PAUSE_MS = { least: 25, random: 100 };

/**
 * One agent's call in one run: `waiting` for its precursors, `queued` from its start to its first token, `running`,
 * then `done`, `failed` or `cancelled`. What it has said is in `log`.
 */
export class AgentCall {
  /** The agent's id; the root's second choice is `<id>#2`. */
  readonly id: string;
  readonly node: AgentNode;
  readonly choice: number;
  readonly log = new OutputLog();
  readonly #context: AgentContext;
  readonly #controller = new AbortController();
  #state: AgentState = "waiting";
  #error: unknown = undefined;
  #worker: string | undefined;
  #prompt: Prompt | undefined;
  #calls = 0;
  #end: Extract<GenerateEvent, { type: "end" }> | undefined;
  /** The last running usage that the engine sent. */
  #running: EngineUsage | undefined;
  #finishReason: FinishReason | undefined;
  #startedAtMs: number | undefined;
  #placedAtMs: number | undefined;
  #firstTokenAtMs: number | undefined;
  #endedAtMs: number | undefined;

  constructor(node: AgentNode, choice: number, context: AgentContext) {
    this.id = choice === 0 ? node.id : `${node.id}#${choice + 1}`;
    this.node = node;
    this.choice = choice;
    this.#context = context;
  }

  get state(): AgentState {
    return this.#state;
  }

  /** Time from its last place to its first token. */
  get firstTokenMs(): number | undefined {
    if (this.#firstTokenAtMs === undefined || this.#placedAtMs === undefined) return undefined;
    return this.#firstTokenAtMs - this.#placedAtMs;
  }

  /** The worker of its last attempt; of a pair, the decode half. */
  get worker(): string | undefined {
    return this.#worker;
  }

  /** True when it did not end by itself: its length or its deadline cut it. */
  get cut(): boolean {
    return this.#finishReason === "length";
  }

  get ended(): boolean {
    return this.#endedAtMs !== undefined;
  }

  /** Why it failed or was cancelled. */
  get error(): unknown {
    return this.#error;
  }

  /**
   * Generates. Resolves, and never rejects, when the call has ended and its engine does not work for it any more;
   * `state` then tells how. Does nothing when it was cancelled before.
   */
  async run(request: AgentRequest): Promise<void> {
    if (this.#state !== "waiting") return;
    this.#state = "queued";
    this.#prompt = request.prompt;
    this.#startedAtMs = this.#context.trace.nowMs;
    this.#note("agent_queued");
    const overdue = this.node.deadlineMs === undefined ? undefined : agentOverdue(this.id, this.node);
    const deadline = deadlineSignal(
      this.#context.clock,
      this.node.deadlineMs ?? Infinity,
      overdue,
      this.#controller.signal,
    );
    try {
      this.#complete(await this.#generate(request, deadline.signal));
    } catch (error) {
      const cut = overdue !== undefined && error === overdue && this.node.onDeadline === "use_partial" &&
        this.log.text !== "";
      if (cut) this.#complete({ finishReason: "length" });
      else this.fail(error);
    } finally {
      deadline.release();
    }
    if (this.state === "done") await this.#forwardEnd(request);
  }

  /**
   * Ends a call that has begun to answer as `done`: its text so far is enough. Its engine is told; `run` resolves once
   * it knows. False, and nothing happens, for a call that has said nothing yet or has ended.
   */
  satisfy(): boolean {
    if (this.#state !== "running") return false;
    this.#complete({ finishReason: "stop" });
    this.#controller.abort(new Error("Its text is enough"));
    return true;
  }

  /** Ends the call without an answer; its text is not used. Its engine is told; `run` resolves once it knows. */
  cancel(reason: unknown): void {
    this.#finish("cancelled", reason);
    this.#controller.abort(reason);
  }

  /** Ends the call with an error. */
  fail(error: unknown): void {
    this.#finish("failed", error);
  }

  /**
   * Tokens so far, as the engine counts them. Of an attempt that is broken off, what came is counted, and the prompt
   * once a token came: by the running usage where the engine sends it, else as far as the router knows the tokens.
   */
  usage(): AgentUsage | undefined {
    if (this.#calls === 0) return undefined;
    const usage = this.#end?.usage ?? this.#running;
    const completionTokens = this.#end?.usage.completionTokens ??
      Math.max(this.#running?.completionTokens ?? 0, this.log.tokens);
    const read = usage !== undefined || this.log.tokens > 0;
    const knownPromptTokens = read && this.#prompt?.kind === "tokens" ? this.#prompt.ids.length : 0;
    const wasted = this.#state === "failed" || this.#state === "cancelled";
    return {
      agent: this.node.id,
      model: this.node.model,
      calls: this.#calls,
      promptTokens: usage === undefined || usage.reported === false ? knownPromptTokens : usage.promptTokens,
      completionTokens,
      cachedTokens: usage?.cachedTokens,
      reasoningTokens: usage?.reasoningTokens ?? 0,
      wastedTokens: wasted ? completionTokens : 0,
    };
  }

  record(): AgentRecord {
    return {
      id: this.id,
      model: this.node.model,
      state: this.#state,
      worker: this.#worker,
      prompt: this.#prompt,
      text: this.log.text,
      reasoning: this.log.reasoning,
      finishReason: this.#finishReason,
      error: this.#error === undefined ? undefined : messageOf(this.#error),
      startedAtMs: this.#startedAtMs,
      firstTokenAtMs: this.#firstTokenAtMs,
      endedAtMs: this.#endedAtMs,
      usage: this.usage(),
    };
  }

  /** Tries workers until one answers; another one is tried only while no token has come. */
  async #generate(
    request: AgentRequest,
    signal: AbortSignal,
  ): Promise<Extract<GenerateEvent, { type: "end" }>> {
    const failedOn = new Set<string>();
    let failure: unknown;
    let logprobs = request.logprobs;
    for (let retriesLeft = this.#context.model.config.retries;; retriesLeft--) {
      const lease = await this.#lease(request.stickyKey, failedOn, failure, signal);
      try {
        return await this.#attempt({ ...request, logprobs }, lease, signal);
      } catch (error) {
        signal.throwIfAborted();
        const untouched = this.log.tokens === 0;
        const what = { worker: lease.workerId, error: messageOf(error) };
        if (untouched && logprobs !== undefined && request.logprobsOptional === true && isRefused(error)) {
          logprobs = undefined;
          retriesLeft++;
          this.#note("agent_retried", { ...what, without: "logprobs" });
          continue;
        }
        const retryable = error instanceof EngineError && error.retryable && untouched;
        if (!retryable || retriesLeft === 0) throw error;
        failure = error;
        failedOn.add(lease.workerId);
        if (lease.prefill !== undefined) failedOn.add(lease.prefill.workerId);
        this.#note("agent_retried", what);
      }
      const { clock, random } = this.#context;
      await clock.sleep(RETRY_PAUSE_MS.least + random.next() * RETRY_PAUSE_MS.random, signal);
    }
  }

  /** A place on a worker that has not failed yet; when there is none, the failure is the error that counts. */
  async #lease(
    stickyKey: string | undefined,
    failedOn: ReadonlySet<string>,
    failure: unknown,
    signal: AbortSignal,
  ): Promise<Lease> {
    const { model, arrival } = this.#context;
    try {
      return await model.pool.gate.lease({ arrival, stickyKey, exclude: failedOn }, signal);
    } catch (error) {
      signal.throwIfAborted();
      throw failure ?? error;
    }
  }

  async #attempt(
    request: Attempt,
    lease: Lease,
    signal: AbortSignal,
  ): Promise<Extract<GenerateEvent, { type: "end" }>> {
    const generate: GenerateRequest = {
      id: this.#context.nextRequestId(),
      prompt: request.prompt,
      sampling: request.sampling,
      ...(request.logprobs === undefined ? {} : { logprobs: request.logprobs }),
      ...(request.headers === undefined ? {} : { headers: request.headers }),
      onPrefilled: () => lease.promptRead(),
    };
    this.#worker = lease.workerId;
    this.#placedAtMs = this.#context.trace.nowMs;
    this.#calls++;
    this.#note("agent_placed", { worker: lease.workerId, request: generate.id });
    let outcome: PlacementOutcome = "aborted";
    try {
      let end: Extract<GenerateEvent, { type: "end" }> | undefined;
      for await (const event of this.#context.model.engine.generate(generate, lease, signal)) {
        signal.throwIfAborted();
        if (event.type === "end") end = event;
        else {
          if (this.#onDelta(event)) lease.promptRead();
          if (request.forward !== undefined) await request.forward(event, signal);
        }
      }
      signal.throwIfAborted();
      if (end === undefined) throw unfinishedError(lease);
      outcome = "ok";
      return this.#end = end;
    } catch (error) {
      if (!signal.aborted) outcome = attemptOutcome(error);
      throw error;
    } finally {
      lease.release(outcome);
    }
  }

  /** Takes in what came; true once that is the first token. */
  #onDelta(delta: OutputDelta): boolean {
    this.log.append(delta);
    if (delta.usage !== undefined) this.#running = delta.usage;
    const tokens = tokensOf(delta);
    if (tokens === 0) return false;
    const first = this.#state === "queued";
    if (first) {
      this.#state = "running";
      this.#firstTokenAtMs = this.#context.trace.nowMs;
      this.#note("agent_first_token");
      this.#context.started(this);
    }
    this.#context.grew(this, tokens);
    return first;
  }

  #complete(end: { readonly finishReason: FinishReason }): void {
    this.#finishReason = end.finishReason;
    this.#finish("done", undefined);
  }

  #finish(state: "done" | "failed" | "cancelled", error: unknown): void {
    if (this.#endedAtMs !== undefined) return;
    this.#state = state;
    this.#error = error;
    this.#endedAtMs = this.#context.trace.nowMs;
    this.log.end();
    this.#note(`agent_${state}`, {
      tokens: this.usage()?.completionTokens ?? 0,
      ...(this.#finishReason === undefined ? {} : { finish_reason: this.#finishReason }),
      ...(this.#end?.decodedAlone === undefined ? {} : { decoded_alone: this.#end.decodedAlone }),
      ...(error === undefined ? {} : { error: messageOf(error) }),
    });
  }

  /** The last event goes out when the call is done, so that whoever has seen it finds it done. */
  async #forwardEnd(request: AgentRequest): Promise<void> {
    if (request.forward === undefined || this.#finishReason === undefined) return;
    const usage = { promptTokens: 0, completionTokens: this.log.tokens, cachedTokens: undefined };
    const end = this.#end ?? { type: "end", finishReason: this.#finishReason, usage };
    // Rejects only when the call is cancelled: the reader has gone.
    await request.forward(end, this.#controller.signal).catch(() => {});
  }

  #note(type: string, data?: Record<string, string | number>): void {
    this.#context.trace.add(type, { agent: this.id, ...(data === undefined ? {} : { data }) });
  }
}
