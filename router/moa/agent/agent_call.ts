import { deadlineSignal } from "../../../base/clock.ts";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { Random } from "../../../base/random.ts";
import { unlessAborted } from "../../../base/unless_aborted.ts";
import {
  type EngineUsage,
  type FinishReason,
  type GenerateEvent,
  type GenerateRequest,
  type Prompt,
  type Sampling,
  statedPriority,
} from "../../engines/engine.ts";
import type { AgentContext } from "./agent_context.ts";
import { attemptOutcome, isRefused, unfinishedError } from "./attempt_outcome.ts";
import { type OutputDelta, OutputLog, tokensOf } from "./output_log.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import { answerSoFar, answerText, opensReasoning } from "../prompt/answer.ts";
import type { AgentRecord, AgentState } from "../record/run_record.ts";
import type { AgentUsage } from "../record/usage.ts";
import type { Lease } from "../../pool/lease.ts";
import type { ServedModel } from "../../served/served_model.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { PlacementOutcome } from "../../worker/placement.ts";

/** Options of an `AgentCall`. */
export interface AgentCallOptions {
  readonly node: AgentNode;
  /** From 0; more than one call of an agent is numbered. */
  readonly choice: number;
  readonly model: ServedModel;
  readonly context: AgentContext;
}

/** Gets a call's events, one at a time; while it waits, the engine's stream is not read. */
export interface EventSink {
  push(event: GenerateEvent, signal: AbortSignal): Promise<void>;
}

/** A prompt, and parameters that may depend on its length. */
export interface Asked {
  readonly prompt: Prompt;
  readonly sampling: Sampling;
}

/** A request to generate. */
export interface AgentRequest {
  /** A promise where it is still being tokenised. */
  readonly asked: Asked | Promise<Asked>;
  readonly logprobs?: number | undefined;
  /** An engine that refuses the request because of them is asked again without. */
  readonly logprobsOptional?: boolean | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Requests of the same key go to the same worker. */
  readonly stickyKey?: string | undefined;
  /** The client, where the call's output goes to one. */
  readonly sink?: EventSink | undefined;
}

type PlacedRequest = AgentRequest & Asked;

/** Shortest pause before another worker is tried, and the random part on top of it. */
const RETRY_PAUSE_MS = { least: 25, random: 100 };

/**
 * One agent's call in one run: `waiting` for its precursors, `queued` from its start to its first token, `running`,
 * then `done`, `failed` or `cancelled`. Its output is in `log`.
 */
export class AgentCall {
  /** The agent's id; the root's second choice is `<id>#2`. */
  readonly id: string;
  readonly node: AgentNode;
  readonly choice: number;
  readonly log = new OutputLog();
  readonly #model: ServedModel;
  readonly #context: AgentContext;
  readonly #random: Random;
  readonly #controller = new AbortController();
  #state: AgentState = "waiting";
  #error: unknown = undefined;
  #worker: string | undefined;
  #prompt: Prompt | undefined;
  /** Its prompt opens a `<think>` block, so that its output begins with reasoning; undefined until somebody asks. */
  #reasonsFirst: boolean | undefined;
  #calls = 0;
  #end: Extract<GenerateEvent, { type: "end" }> | undefined;
  /** The last running usage that the engine sent. */
  #running: EngineUsage | undefined;
  #finishReason: FinishReason | undefined;
  #startedAtMs: number | undefined;
  #placedAtMs: number | undefined;
  #firstTokenAtMs: number | undefined;
  #endedAtMs: number | undefined;

  constructor({ node, choice, model, context }: AgentCallOptions) {
    this.id = choice === 0 ? node.id : `${node.id}#${choice + 1}`;
    this.node = node;
    this.choice = choice;
    this.#model = model;
    this.#context = context;
    this.#random = context.random.stream(`${node.id}#${choice}`);
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

  /** The part of its output that successors read. */
  get answer(): string {
    return answerText(this.log.text, this.#context.graph);
  }

  /** The certain beginning of `answer`, while it is still being written. */
  get answerSoFar(): string {
    this.#reasonsFirst ??= this.#prompt !== undefined &&
      opensReasoning(this.#prompt, this.#model.tokenizer);
    // Reasoning that the engine has taken out itself is not in the text.
    return answerSoFar(this.log.text, this.#context.graph, this.#reasonsFirst && this.log.reasoning === "");
  }

  /** The error that it failed with, or was cancelled for. */
  get error(): unknown {
    return this.#error;
  }

  /**
   * Generates. Resolves, and never rejects, when the call has ended and its engine does not work for it any more;
   * `state` then tells how. Does nothing when it was cancelled before.
   */
  async run(request: AgentRequest): Promise<void> {
    if (this.#state !== "waiting") return;
    this.#context.work.begin();
    this.#state = "queued";
    this.#startedAtMs = this.#context.trace.nowMs;
    this.#note("agent_queued");
    const overdue = this.#overdue();
    const deadline = deadlineSignal(
      this.#context.clock,
      this.node.deadlineMs ?? Infinity,
      overdue,
      this.#controller.signal,
    );
    try {
      const asked = request.asked instanceof Promise
        ? await unlessAborted(request.asked, deadline.signal)
        : request.asked;
      this.#prompt = asked.prompt;
      this.#complete(await this.#generate({ ...request, ...asked }, deadline.signal));
    } catch (error) {
      const cut = overdue !== undefined && error === overdue && this.node.onDeadline === "use_partial" &&
        this.log.text !== "";
      if (cut) this.#complete({ finishReason: "length" });
      else this.fail(error);
    } finally {
      deadline.release();
    }
    if (this.state === "done") await this.#forwardEnd(request.sink);
    this.#context.work.end();
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
    request: PlacedRequest,
    signal: AbortSignal,
  ): Promise<Extract<GenerateEvent, { type: "end" }>> {
    const failedOn = new Set<string>();
    let failure: unknown;
    let logprobs = request.logprobs;
    for (let retriesLeft = this.#model.config.retries;; retriesLeft--) {
      const lease = await this.#lease(request, failedOn, failure, signal);
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
      const pauseMs = RETRY_PAUSE_MS.least + this.#random.next() * RETRY_PAUSE_MS.random;
      await this.#context.clock.sleep(pauseMs, signal);
    }
  }

  /** A place on a worker that has not failed yet; when there is none, the failure is the error that counts. */
  async #lease(
    { stickyKey, sampling }: PlacedRequest,
    failedOn: ReadonlySet<string>,
    failure: unknown,
    signal: AbortSignal,
  ): Promise<Lease> {
    const { pool: { gate }, engine: { capabilities } } = this.#model;
    const { arrival } = this.#context;
    const priority = capabilities.priority === "lower_first" ? statedPriority(sampling) : undefined;
    try {
      return await gate.lease({ arrival, priority, stickyKey, exclude: failedOn }, signal);
    } catch (error) {
      signal.throwIfAborted();
      throw failure ?? error;
    }
  }

  async #attempt(
    request: PlacedRequest,
    lease: Lease,
    signal: AbortSignal,
  ): Promise<Extract<GenerateEvent, { type: "end" }>> {
    const generate: GenerateRequest = {
      id: this.#context.nextRequestId(),
      prompt: request.prompt,
      sampling: request.sampling,
      logprobs: request.logprobs,
      headers: request.headers,
    };
    this.#worker = lease.workerId;
    this.#placedAtMs = this.#context.trace.nowMs;
    this.#calls++;
    const { computes } = this.#model.engine.capabilities;
    this.#note("agent_placed", {
      worker: lease.workerId,
      request: generate.id,
      ...(computes === undefined ? {} : { computes }),
    });
    let outcome: PlacementOutcome = "aborted";
    try {
      let end: Extract<GenerateEvent, { type: "end" }> | undefined;
      for await (const event of this.#model.engine.generate(generate, lease, signal)) {
        signal.throwIfAborted();
        if (event.type === "end") end = event;
        else {
          if (this.#onDelta(event)) lease.promptRead();
          if (request.sink !== undefined) await request.sink.push(event, signal);
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
    if (delta.usage !== undefined) this.#running = delta.usage;
    const first = this.#state === "queued" && tokensOf(delta) > 0;
    if (first) {
      this.#state = "running";
      this.#firstTokenAtMs = this.#context.trace.nowMs;
      this.#note("agent_first_token");
    }
    this.log.append(delta);
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
  async #forwardEnd(sink: EventSink | undefined): Promise<void> {
    if (sink === undefined || this.#finishReason === undefined) return;
    const usage = { promptTokens: 0, completionTokens: this.log.tokens, cachedTokens: undefined };
    const end = this.#end ?? { type: "end", finishReason: this.#finishReason, usage };
    // Rejects only when the call is cancelled: the reader has gone.
    await sink.push(end, this.#controller.signal).catch(() => {});
  }

  #overdue(): CanopyError | undefined {
    const { deadlineMs } = this.node;
    return deadlineMs === undefined ? undefined : new CanopyError(
      `Agent ${this.id} took longer than its deadline of ${deadlineMs} ms`,
      { code: "deadline_exceeded", status: 504 },
    );
  }

  #note(type: string, data?: JsonObject): void {
    this.#context.trace.add(type, { agent: this.id, ...(data === undefined ? {} : { data }) });
  }
}
