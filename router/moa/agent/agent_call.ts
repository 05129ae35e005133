import { deadlineSignal } from "../../../base/clock.ts";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { Random } from "../../../base/random.ts";
import type { Span } from "../../tracing/spans.ts";
import { unlessAborted } from "../../../base/stop_signal.ts";
import {
  type EngineUsage,
  type FinishReason,
  type GenerateEvent,
  type GenerateRequest,
  type Prompt,
  type Sampling,
  statedPriority,
} from "../../engines/engine.ts";
import { cacheReportOf, promptPrefixOf } from "../../engines/prompt_prefix_of.ts";
import type { AgentContext } from "./agent_context.ts";
import type { AnswerStep, AnswerSteps } from "./answer_steps.ts";
import { attemptOutcome, isRefused, unfinishedError } from "./attempt_outcome.ts";
import { type OutputDelta, OutputLog, tokensOf } from "./output_log.ts";
import { isPause, resumeAnswer, type ResumedAnswer } from "./resumed_answer.ts";
import type { HedgeControl } from "./hedge_control.ts";
import { SecondAttempt } from "./second_attempt.ts";
import { StepLog } from "./step_log.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import { answerSoFar, answerText, opensReasoning } from "../prompt/answer.ts";
import type { AgentRecord, AgentState, FallbackRecord, HedgeRecord } from "../record/run_record.ts";
import { beginAgentSpan, endAgentSpan } from "../record/run_spans.ts";
import type { AgentUsage } from "../record/usage.ts";
import { AttemptBudget } from "../../pool/attempt_budget.ts";
import type { Lease } from "../../pool/lease.ts";
import { fallbackReason } from "../../served/fallbacks.ts";
import type { ServedModel } from "../../served/served_model.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { PlacementOutcome } from "../../worker/placement.ts";

/** Options of an `AgentCall`. */
export interface AgentCallOptions {
  readonly node: AgentNode;
  /** From 0; more than one call of an agent is numbered. */
  readonly choice: number;
  readonly model: ServedModel;
  /** Absent: it is never started a second time. */
  readonly hedgeControl?: HedgeControl | undefined;
  readonly context: AgentContext;
}

/** Gets a call's events, one at a time; while it waits, the engine's stream is not read. */
export interface EventSink {
  push(event: GenerateEvent, signal: AbortSignal): Promise<void>;
  /** Takes back all that was pushed; absent where somebody may have seen it. */
  restart?(): void;
}

/** A prompt, and parameters that may depend on its length. */
export interface Asked {
  readonly prompt: Prompt;
  readonly sampling: Sampling;
}

/** A model that may answer in the place of an agent's own, and the same request in its form. */
export interface StandIn {
  readonly model: ServedModel;
  readonly ask: () => Asked | Promise<Asked>;
}

/** A request to generate. */
export interface AgentRequest {
  /** A promise where it is still being tokenised; steps of an answer that is begun before its prompt is whole. */
  readonly asked: Asked | Promise<Asked> | AnswerSteps;
  readonly logprobs?: number | undefined;
  /** An engine that refuses the request because of them is asked again without. */
  readonly logprobsOptional?: boolean | undefined;
  /** Requests of the same key go to the same worker. */
  readonly stickyKey?: string | undefined;
  /** Asked one after the other where no worker of the agent's model can answer, and nothing is written yet. */
  readonly standIns?: readonly StandIn[] | undefined;
  /** The client, where the call's output goes to one. */
  readonly sink?: EventSink | undefined;
}

type PlacedRequest = Omit<AgentRequest, "asked"> & Asked & {
  /** The rest of an answer of which a step is to be written; absent: it is written at once. */
  readonly step?: (() => ResumedAnswer) | undefined;
};

/** What attempts have read and written; `cachedTokens`: what of it is known to have been in an engine's cache. */
type AttemptTokens = Pick<AgentUsage, "promptTokens" | "completionTokens" | "cachedTokens">;

const NO_TOKENS: AttemptTokens = { promptTokens: 0, completionTokens: 0, cachedTokens: undefined };

/** The last event of a generation. */
type End = Extract<GenerateEvent, { type: "end" }>;

/** One attempt: its place, and what is left to write of an answer that broke off elsewhere. */
interface Attempt {
  readonly lease: Lease;
  readonly rest: ResumedAnswer | undefined;
  /** The caller's. */
  readonly signal: AbortSignal;
}

/** An attempt under way. */
interface Reading extends Attempt {
  readonly generate: GenerateRequest;
  /** Aborts with `signal`, and with an `EngineError` when the place is lost. */
  readonly lost: AbortSignal;
}

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
  #model: ServedModel;
  /** Tokens of the models in whose place that one stands. */
  readonly #earlier: AgentUsage[] = [];
  #fallback: FallbackRecord | undefined;
  readonly #hedgeControl: HedgeControl | undefined;
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
  #end: End | undefined;
  /** Tokens of attempts whose answers were given up for another's. */
  #discarded: AttemptTokens = NO_TOKENS;
  /** Beside the first attempt; undefined where there can be none. */
  #second: SecondAttempt | undefined;
  /** Of the second attempt at a model in whose place another one stands. */
  #earlierHedge: HedgeRecord | undefined;
  #resumes = 0;
  #restarts = 0;
  /** The last running usage that the engine sent. */
  #running: EngineUsage | undefined;
  /** Steps of an answer that is begun before its prompt is whole. */
  readonly #steps = new StepLog();
  #finishReason: FinishReason | undefined;
  #endedFor: string | undefined;
  #span: Span | undefined;
  #startedAtMs: number | undefined;
  #placedAtMs: number | undefined;
  #firstTokenAtMs: number | undefined;
  #endedAtMs: number | undefined;

  constructor({ node, choice, model, hedgeControl, context }: AgentCallOptions) {
    this.id = choice === 0 ? node.id : `${node.id}#${choice + 1}`;
    this.node = node;
    this.choice = choice;
    this.#model = model;
    this.#hedgeControl = hedgeControl;
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
    const { spans, headers } = this.#context;
    this.#span = beginAgentSpan(spans, { id: this.id, model: this.node.model }, headers);
    const overdue = this.#overdue();
    const inSteps = "next" in request.asked;
    const deadline = deadlineSignal(
      this.#context.clock,
      // Of an answer in steps it begins with the last one: before it others are waited for.
      inSteps ? Infinity : this.node.deadlineMs ?? Infinity,
      overdue,
      this.#controller.signal,
    );
    try {
      const { asked: given, ...rest } = request;
      if ("next" in given) {
        this.#complete(await this.#climb(rest, given, { overdue, signal: deadline.signal }));
      } else {
        const asked = given instanceof Promise ? await unlessAborted(given, deadline.signal) : given;
        this.#prompt = asked.prompt;
        this.#complete(await this.#generateSomewhere({ ...rest, ...asked }, deadline.signal));
      }
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
   * Writes an answer in steps: each reads what is known of the prompt and all that is written of the answer, and goes
   * on behind it.
   */
  async #climb(
    request: Omit<AgentRequest, "asked">,
    steps: AnswerSteps,
    { overdue, signal }: { readonly overdue: CanopyError | undefined; readonly signal: AbortSignal },
  ): Promise<End> {
    let hasEnded = false;
    while (true) {
      const step: AnswerStep = await unlessAborted(
        steps.next({ tokens: this.log.tokens, hasEnded }, signal),
        signal,
      );
      const ms = step.isLast ? this.node.deadlineMs ?? Infinity : Infinity;
      const deadline = deadlineSignal(this.#context.clock, ms, overdue, signal);
      const end: End = await this.#writeStep(request, step, deadline.signal).finally(deadline.release);
      const { reads, promptTokens = 0, cachedTokens, completionTokens = 0, before, isLast } = this.#steps.end(
        end.usage,
        this.#context.trace.nowMs,
      );
      this.#note("agent_step", {
        step: this.#steps.records.length,
        last: isLast,
        reads: { ...reads },
        before,
        prompt_tokens: promptTokens,
        ...(cachedTokens === undefined ? {} : { cached: cachedTokens }),
        tokens: completionTokens,
      });
      if (step.isLast || !isPause(end, step.sampling.extra?.["stop_token_ids"])) return end;
      this.#steps.keep(this.#steps.records.at(-1)!, this.log.tokens);
      this.#end = this.#running = undefined;
      hasEnded = end.finishReason === "stop";
    }
  }

  async #writeStep(
    request: Omit<AgentRequest, "asked">,
    step: AnswerStep,
    signal: AbortSignal,
  ): Promise<End> {
    const { prompt, sampling, isLast } = step;
    this.#prompt = prompt;
    this.#steps.begin(step, { tokens: this.log.tokens, atMs: this.#context.trace.nowMs });
    // Nothing is written yet: an answer like any other.
    if (isLast && this.log.tokens === 0) {
      return await this.#generate({ ...request, prompt, sampling }, signal);
    }
    const rest = (): ResumedAnswer => {
      const begun = resumeAnswer({
        prompt,
        sampling,
        log: this.log,
        usage: this.#running,
        tokenizer: this.#model.tokenizer,
        engine: this.#model.config.engine,
        open: !isLast,
      });
      if (typeof begun !== "string") return begun;
      throw new CanopyError(`The answer of agent ${this.id} cannot be gone on with: ${begun}`, {
        code: "answer_not_resumable",
        status: 502,
      });
    };
    const ended = rest().ended();
    if (ended !== undefined) return await this.#deliverEnd(ended, request.sink, signal);
    return await this.#generate({ ...request, prompt, sampling, step: rest }, signal);
  }

  /**
   * Ends a call that has begun to answer as `done`: its text so far is enough. Its engine is told; `run` resolves once
   * it knows. False, and nothing happens, for a call that has said nothing yet or has ended.
   */
  satisfy(finishReason: FinishReason = "stop"): boolean {
    if (this.#state !== "running") return false;
    this.#complete({ finishReason });
    this.#controller.abort(new Error("Its text is enough"));
    return true;
  }

  /** Ends a call whose text goes round in circles as `done` and cut. Its engine is told; `run` resolves once it knows. */
  endLoop(period: number): void {
    if (this.#state !== "running") return;
    this.#endedFor = `it repeated the same ${period} characters, and was ended`;
    this.#note("agent_looped", { period, tokens: this.usage()?.completionTokens ?? 0 });
    this.satisfy("length");
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

  /** Tokens of the models that were asked before another one took their place, in their order. */
  get earlierUsages(): readonly AgentUsage[] {
    return this.#earlier;
  }

  /**
   * Tokens of its present model so far, as the engine counts them. Of an attempt that is broken off, what came is
   * counted, and the prompt once a token came: by the running usage where the engine sends it, else as far as the router
   * knows the tokens.
   */
  usage(): AgentUsage | undefined {
    if (this.#calls === 0) return undefined;
    const last = this.#end?.usage;
    const usage = last === undefined || last.reported === false ? this.#running ?? last : last;
    const answerTokens = usage === last && last !== undefined
      ? last.completionTokens
      : Math.max(usage?.completionTokens ?? 0, this.log.tokens);
    const { before, sums } = this.#steps;
    const { promptTokens: extraPrompt = 0, completionTokens: extra = 0, wasted: extraWasted = 0 } =
      this.#second?.extra ?? {};
    const discarded = this.#discarded;
    const completionTokens = discarded.completionTokens + extra + sums.completionTokens +
      Math.max(0, answerTokens - before);
    const read = usage !== undefined || this.log.tokens > before;
    const knownPromptTokens = read && this.#prompt?.kind === "tokens" ? this.#prompt.ids.length : 0;
    const promptTokens = usage === undefined || usage.reported === false
      ? knownPromptTokens
      : usage.promptTokens;
    const cached = [usage?.cachedTokens, sums.cachedTokens, discarded.cachedTokens];
    const known = cached.filter((tokens) => tokens !== undefined);
    const wasted = this.#state === "failed" || this.#state === "cancelled";
    return {
      agent: this.node.id,
      model: this.#model.name,
      calls: this.#calls + (this.#second?.begun === true ? 1 : 0),
      promptTokens: discarded.promptTokens + extraPrompt + sums.promptTokens + promptTokens +
        (read ? before : 0),
      completionTokens,
      cachedTokens: known.length === 0 ? undefined : known.reduce((sum, tokens) => sum + tokens, 0),
      reasoningTokens: usage?.reasoningTokens ?? 0,
      wastedTokens: wasted ? completionTokens : discarded.completionTokens + extraWasted,
    };
  }

  record(): AgentRecord {
    return {
      id: this.id,
      model: this.node.model,
      state: this.#state,
      reads: this.node.reads.flatMap(({ agents }) => agents.map(({ id }) => id)),
      worker: this.#worker,
      prompt: this.#prompt,
      text: this.log.text,
      reasoning: this.log.reasoning,
      logprobs: this.log.logprobs.length === 0 ? undefined : this.log.logprobs.map(({ logprob }) => logprob),
      finishReason: this.#finishReason,
      error: this.#error === undefined ? undefined : messageOf(this.#error),
      endedFor: this.#endedFor,
      startedAtMs: this.#startedAtMs,
      firstTokenAtMs: this.#firstTokenAtMs,
      endedAtMs: this.#endedAtMs,
      resumes: this.#resumes,
      restarts: this.#restarts,
      fallback: this.#fallback,
      hedge: this.#second?.record ?? this.#earlierHedge,
      steps: this.#steps.records.length === 0 ? undefined : [...this.#steps.records],
      usage: this.usage(),
    };
  }

  /** Generates, by the models that stand in for the agent's own where none of its workers can. */
  async #generateSomewhere(request: PlacedRequest, signal: AbortSignal): Promise<End> {
    let failure: unknown;
    try {
      return await this.#generateHedged(request, signal);
    } catch (error) {
      failure = error;
    }
    for (const { model, ask } of request.standIns ?? []) {
      const reason = signal.aborted || this.log.tokens > 0 ? undefined : fallbackReason(failure);
      if (reason === undefined) break;
      if (!model.pool.ready) continue;
      try {
        const asked = await unlessAborted(Promise.resolve(ask()), signal);
        this.#note("agent_fell_back", {
          from: this.#model.name,
          to: model.name,
          reason,
          error: messageOf(failure),
        });
        this.#turnTo(model, asked.prompt);
        this.#fallback = { model: model.name, reason };
        return await this.#generate({ ...request, ...asked }, signal);
      } catch (error) {
        // That its prompt does not fit another model is not what the agent failed of.
        if (this.#model === model) failure = error;
      }
    }
    signal.throwIfAborted();
    throw failure;
  }

  /** Another model takes the place of one that has failed: what that one has done stays its own. */
  #turnTo(model: ServedModel, prompt: Prompt): void {
    const usage = this.usage();
    if (usage !== undefined) this.#earlier.push({ ...usage, wastedTokens: usage.completionTokens });
    this.#calls = 0;
    this.#discarded = NO_TOKENS;
    this.#running = undefined;
    this.#earlierHedge ??= this.#second?.record;
    this.#second = undefined;
    this.#model = model;
    this.#prompt = prompt;
    this.#reasonsFirst = undefined;
  }

  /** Generates, with a second attempt beside the first where that is late, and nobody sees what it writes. */
  async #generateHedged(request: PlacedRequest, signal: AbortSignal): Promise<End> {
    const control = this.#hedgeControl;
    if (control?.on !== true || request.sink !== undefined) return await this.#generate(request, signal);
    control.began();
    const { prompt, sampling, logprobs } = request;
    const second = this.#second = new SecondAttempt({
      model: this.#model,
      control,
      context: this.#context,
      log: this.log,
      request: { prompt, sampling, logprobs, headers: this.#headers },
      note: (type, data) => this.#note(type, data),
      adopt: (attempt) => this.#adopt(attempt),
    });
    const end = await second.race((ends) => this.#generate(request, ends), signal);
    if (this.#placedAtMs !== undefined) control.ended(this.#context.trace.nowMs - this.#placedAtMs);
    return end;
  }

  /** Tokens of all attempts but the second one that is beside the first. */
  get #firstTokens(): AttemptTokens {
    const { promptTokens, completionTokens, cachedTokens } = this.usage() ?? NO_TOKENS;
    const { extra } = this.#second ?? {};
    return {
      promptTokens: promptTokens - (extra?.promptTokens ?? 0),
      completionTokens: completionTokens - (extra?.completionTokens ?? 0),
      cachedTokens,
    };
  }

  /** What a second attempt has written takes the place of what the first one has. */
  #adopt(second: SecondAttempt): (() => void) | undefined {
    const discarded = this.#firstTokens;
    if (!this.log.restart()) return undefined;
    this.#discarded = discarded;
    this.#running = undefined;
    return () => {
      const { written: { deltas, end }, times: { placedAtMs, firstTokenAtMs } } = second;
      this.#worker = second.worker;
      this.#placedAtMs = placedAtMs;
      for (const delta of deltas) this.#onDelta(delta);
      this.#firstTokenAtMs = firstTokenAtMs;
      this.#end = end;
    };
  }

  /**
   * Tries workers until one answers. An answer that breaks off is gone on with elsewhere, or begun anew while nobody has
   * had any of it.
   */
  async #generate(request: PlacedRequest, signal: AbortSignal): Promise<End> {
    const budget = new AttemptBudget(this.#model.config.retries);
    let failure: unknown;
    let logprobs = request.logprobs;
    let rest = request.step?.();
    while (true) {
      const lease = await this.#lease(request, { budget, failure, signal });
      try {
        return await this.#attempt({ ...request, logprobs }, { lease, rest, signal });
      } catch (error) {
        signal.throwIfAborted();
        const what = { worker: lease.workerId, error: messageOf(error) };
        const untouched = this.log.tokens === 0;
        if (untouched && logprobs !== undefined && request.logprobsOptional === true && isRefused(error)) {
          logprobs = undefined;
          this.#note("agent_retried", { ...what, without: "logprobs" });
          continue;
        }
        if (!(error instanceof EngineError && error.retryable)) throw error;
        const unsent = error.code === "worker_unreachable";
        if (!budget.failed(lease, { unsent, tokens: this.log.tokens })) throw error;
        failure = error;
        this.#note("agent_retried", what);
        rest = this.#rest(request, error);
        if (rest !== undefined) budget.resumes(rest.tokens);
        const ended = rest?.ended();
        if (ended !== undefined) return await this.#deliverEnd(ended, request.sink, signal);
      }
      const pauseMs = RETRY_PAUSE_MS.least + this.#random.next() * RETRY_PAUSE_MS.random;
      await this.#context.clock.sleep(pauseMs, signal);
    }
  }

  /**
   * What is left of an answer that broke off with `error`; undefined where it has not begun, or begins anew. Where it
   * would not go on as it would have, it rather begins anew. Throws the error where neither can be.
   */
  #rest(request: PlacedRequest, error: EngineError): ResumedAnswer | undefined {
    const { log } = this;
    if (request.step !== undefined) return request.step();
    if (log.tokens === 0) return undefined;
    const { prompt, sampling, sink } = request;
    const rest = resumeAnswer({
      prompt,
      sampling,
      log,
      usage: this.#running,
      tokenizer: this.#model.tokenizer,
      engine: this.#model.config.engine,
    });
    const reason = typeof rest === "string" ? rest : rest.divergence;
    const begun = typeof rest === "string" ? undefined : rest;
    // One that is only to come out the same again is begun anew once: later it goes on at least.
    if (reason === undefined || begun !== undefined && this.#restarts > 0) return begun;
    const discarded = this.#firstTokens;
    if (sink !== undefined && sink.restart === undefined || !log.restart()) {
      if (begun === undefined) throw error;
      return begun;
    }
    sink?.restart?.();
    this.#state = "queued";
    this.#firstTokenAtMs = undefined;
    this.#running = undefined;
    this.#discarded = discarded;
    this.#restarts++;
    this.#note("agent_restarted", { discarded: discarded.completionTokens, reason });
    return undefined;
  }

  /** A place on a worker that has not failed yet; when there is none, the failure is the error that counts. */
  async #lease(
    request: PlacedRequest,
    { budget, failure, signal }: {
      readonly budget: AttemptBudget;
      readonly failure: unknown;
      readonly signal: AbortSignal;
    },
  ): Promise<Lease> {
    const { prompt, stickyKey, sampling } = request;
    const { pool: { gate }, engine: { capabilities } } = this.#model;
    const { arrival } = this.#context;
    const priority = capabilities.priority === "lower_first" ? statedPriority(sampling) : undefined;
    try {
      return await gate.lease({
        arrival,
        priority,
        stickyKey,
        prompt: promptPrefixOf(prompt),
        exclude: budget.avoided,
      }, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (budget.readmit()) return await this.#lease(request, { budget, failure, signal });
      throw failure ?? error;
    }
  }

  async #attempt(request: PlacedRequest, { lease, rest, signal }: Attempt): Promise<End> {
    const generate: GenerateRequest = {
      id: this.#context.nextRequestId(),
      prompt: rest?.prompt ?? request.prompt,
      sampling: rest?.sampling ?? request.sampling,
      logprobs: request.logprobs,
      headers: this.#headers,
    };
    this.#worker = lease.workerId;
    this.#calls++;
    const { computes } = this.#model.engine.capabilities;
    this.#note("agent_placed", {
      worker: lease.workerId,
      request: generate.id,
      ...(computes === undefined ? {} : { computes }),
    });
    if (this.log.tokens === 0) this.#placedAtMs = this.#context.trace.nowMs;
    // A step goes on with what those before it have written: nothing was broken off.
    if (rest !== undefined && rest.tokens > this.#steps.before) {
      this.#resumes++;
      this.#note("agent_resumed", { worker: lease.workerId, tokens: rest.tokens });
    }
    // Aborts with the caller's signal, and when the worker is given up.
    const attempt = new AbortController();
    const onAbort = () => attempt.abort(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    lease.onLost?.((error) => attempt.abort(error));
    const onTime = rest === undefined ? this.#second?.placed(lease) : undefined;
    let outcome: PlacementOutcome = "aborted";
    try {
      const end = await this.#read(request.sink, { generate, lease, rest, signal, lost: attempt.signal });
      signal.throwIfAborted();
      if (rest === undefined && end.decodedAlone === undefined) lease.promptRead(cacheReportOf(end.usage));
      outcome = "ok";
      return this.#end = end;
    } catch (error) {
      if (!signal.aborted) outcome = attemptOutcome(error);
      throw error;
    } finally {
      signal.removeEventListener("abort", onAbort);
      onTime?.();
      lease.release(outcome);
    }
  }

  /** Reads an attempt's events to the last one. */
  async #read(sink: EventSink | undefined, { generate, lease, rest, signal, lost }: Reading): Promise<End> {
    let promptRead = false;
    let end: End | undefined;
    for await (const event of this.#model.engine.generate(generate, lease, lost)) {
      lost.throwIfAborted();
      if (!promptRead && event.type === "delta" && tokensOf(event) > 0) {
        promptRead = true;
        lease.promptRead();
      }
      for (const whole of rest?.take(event, lease) ?? [event]) {
        if (whole.type === "end") end = whole;
        else await this.#deliver(whole, sink, signal);
      }
      // At a stop that the engine cannot have seen: leaving the stream tells it to stop.
      if (end !== undefined && event.type !== "end") return end;
    }
    lost.throwIfAborted();
    if (end === undefined) throw unfinishedError(lease);
    return end;
  }

  async #deliver(delta: OutputDelta, sink: EventSink | undefined, signal: AbortSignal): Promise<void> {
    this.#onDelta(delta);
    if (sink !== undefined) await sink.push(delta, signal);
  }

  /** The last events of an answer that turned out to be whole. */
  async #deliverEnd(
    events: readonly GenerateEvent[],
    sink: EventSink | undefined,
    signal: AbortSignal,
  ): Promise<End> {
    for (const event of events) {
      if (event.type === "end") return this.#end = event;
      await this.#deliver(event, sink, signal);
    }
    throw new Error("The answer has no end");
  }

  #onDelta(delta: OutputDelta): void {
    if (delta.usage !== undefined) this.#running = delta.usage;
    if (this.#state === "queued" && tokensOf(delta) > 0) {
      this.#state = "running";
      this.#firstTokenAtMs = this.#context.trace.nowMs;
      this.#note("agent_first_token");
      this.#span?.event("first_token");
    }
    this.log.append(delta);
  }

  #complete(end: { readonly finishReason: FinishReason }): void {
    if (this.ended) return;
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
    if (this.#span !== undefined) endAgentSpan(this.#span, this.record());
  }

  /** The last event goes out when the call is done, so that whoever has seen it finds it done. */
  async #forwardEnd(sink: EventSink | undefined): Promise<void> {
    if (sink === undefined || this.#finishReason === undefined) return;
    const usage = { promptTokens: 0, completionTokens: this.log.tokens, cachedTokens: undefined };
    const end = this.#end ?? { type: "end", finishReason: this.#finishReason, usage };
    // Rejects only when the call is cancelled: the reader has gone.
    await sink.push(end, this.#controller.signal).catch(() => {});
  }

  get #headers(): Readonly<Record<string, string>> {
    return this.#span?.carriedBy(this.#context.headers) ?? this.#context.headers;
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
