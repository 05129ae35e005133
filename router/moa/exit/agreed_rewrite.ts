import type { Clock } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import type { EarlyExitConfig } from "../../../cfgs/schema/early_exit.ts";
import type { GenerateEvent, Sampling } from "../../engines/engine.ts";
import type { ServedModel } from "../../served/served_model.ts";
import { AgentCall, type EventSink } from "../agent/agent_call.ts";
import type { AgentContext } from "../agent/agent_context.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import { mergeSampling, samplingOf } from "../graph/sampling.ts";
import type { PromptTemplate } from "../graph/template.ts";
import { fitContext } from "../prompt/context_budget.ts";
import type { RunPrompts } from "../prompt/run_prompts.ts";
import type { RewriteRecord } from "../record/run_record.ts";
import type { AgentUsage } from "../record/usage.ts";
import type { PanelAnswer } from "./panel.ts";
import type { RunAgreement } from "./run_consensus.ts";

/** Name of the one that writes up, in usages and traces. */
export const REWRITE_AGENT = "rewrite";

/** Options of an `AgreedRewrite`. */
export interface AgreedRewriteOptions {
  readonly settings: EarlyExitConfig["consensus"]["rewrite"];
  readonly template: PromptTemplate;
  readonly model: ServedModel;
  readonly context: AgentContext;
  readonly clock: Clock;
  readonly prompts: RunPrompts;
  /** The client's parameters. */
  readonly sampling: Sampling;
  /** The answer that is given when writing it up fails. */
  readonly answer: PanelAnswer;
  readonly agreement: RunAgreement;
  /** The client. */
  readonly sink: EventSink;
  /** The client takes the answer in one piece: nothing is sent before it is known to be right. */
  readonly whole: boolean;
}

type Delta = Extract<GenerateEvent, { type: "delta" }>;

/**
 * Has a model write up what a run's agents agree on, from all their texts. The answer stays what was agreed: where the
 * model fails, is cut or says another answer, the text of one that agrees is given instead, or behind what a client has
 * had of it already.
 */
export class AgreedRewrite {
  readonly #options: AgreedRewriteOptions;
  readonly #call: AgentCall;
  readonly #gone = new AbortController();
  /** Pieces that the client gets once all of them are there. */
  readonly #held: Delta[] = [];
  #streamed = false;
  #satisfied = false;
  #given: RewriteRecord["given"] = "text";
  #reason: string | undefined;

  constructor(options: AgreedRewriteOptions) {
    this.#options = options;
    const { settings, template, model, context } = options;
    const node: AgentNode = {
      id: REWRITE_AGENT,
      model: model.name,
      template,
      sampling: samplingOf(model.config.sampling ?? {}),
      deadlineMs: settings.deadline_ms,
      onDeadline: "drop",
      reads: [],
    };
    this.#call = new AgentCall({ node, choice: 0, model, context });
  }

  get record(): RewriteRecord {
    return { given: this.#given, reason: this.#reason, agent: this.#call.record() };
  }

  usage(): AgentUsage | undefined {
    const usage = this.#call.usage();
    const unread = this.#given === "text" && !this.#streamed;
    return usage === undefined ? undefined : { ...usage, wastedTokens: unread ? usage.completionTokens : 0 };
  }

  /** Writes up; resolves when the client has had the last word, and never rejects. */
  async write(): Promise<void> {
    const { agreement: { texts }, context: { trace } } = this.#options;
    const { model } = this.#call.node;
    trace.add("rewrite_started", {
      agent: REWRITE_AGENT,
      data: { model, texts: texts.map(({ agent }) => agent) },
    });
    try {
      const push = (event: GenerateEvent, signal: AbortSignal) => this.#take(event, signal);
      const sink: EventSink = this.#options.whole
        ? { push, restart: () => void this.#held.splice(0) }
        : { push };
      await this.#call.run({ asked: this.#asked(), sink });
    } catch (error) {
      this.#call.fail(error);
    }
    if (this.#gone.signal.aborted) return;
    this.#reason = this.#satisfied ? undefined : this.#whyNot();
    this.#given = this.#reason === undefined ? "rewrite" : "text";
    trace.add("rewrite_ended", {
      agent: REWRITE_AGENT,
      data: { given: this.#given, ...(this.#reason === undefined ? {} : { reason: this.#reason }) },
    });
    // Rejects only when the reader has gone.
    await this.#finish().catch(() => {});
  }

  /** The client has read enough. */
  satisfy(): void {
    this.#satisfied = this.#call.satisfy() || this.#satisfied;
  }

  /** No time is left: the agreed text is given. */
  giveUp(reason: unknown): void {
    this.#call.cancel(reason);
  }

  /** The run has failed or was cancelled. */
  cancel(reason: unknown): void {
    this.#gone.abort(reason);
    this.#call.cancel(reason);
  }

  #asked() {
    const { settings: { max_tokens: most }, model, clock, prompts, sampling, agreement } = this.#options;
    const { node } = this.#call;
    const merged = mergeSampling(node.sampling, sampling);
    const limit = Math.min(most ?? Infinity, merged.max_tokens ?? Infinity);
    const own = limit === Infinity ? merged : { ...merged, max_tokens: limit };
    const target = { node, served: model, sampling: own };
    return fitContext(target, { prompts, answers: agreement.texts, onOverflow: "cut_middle", clock });
  }

  async #take(event: GenerateEvent, signal: AbortSignal): Promise<void> {
    if (event.type !== "delta") return;
    if (this.#options.whole) return void this.#held.push(event);
    this.#streamed ||= event.text !== "";
    await this.#options.sink.push(event, signal);
  }

  /** The reason why what was written is not the answer, as a sentence; undefined when it is. */
  #whyNot(): string | undefined {
    const { state, error, cut, answer } = this.#call;
    if (state !== "done") return `it could not be written up: ${messageOf(error)}`;
    if (cut) return "what was written up was cut by max_tokens";
    return this.#options.agreement.isSaidBy(answer)
      ? undefined
      : "what was written up does not say the agreed answer";
  }

  async #finish(): Promise<void> {
    const { answer: { text, tokens }, sink, sampling: { max_tokens: most = Infinity } } = this.#options;
    const { signal } = this.#gone;
    const push = (event: GenerateEvent) => sink.push(event, signal);
    const written = this.#call.usage()?.completionTokens ?? 0;
    let finishReason: "stop" | "length" = "stop";
    if (this.#given === "rewrite") { for (const delta of this.#held) await push(delta); }
    else if (!this.#streamed) await push({ type: "delta", text });
    else if (written + tokens <= most) await push({ type: "delta", text: `\n\n${text}` });
    else finishReason = "length";
    await push({
      type: "end",
      finishReason,
      usage: { promptTokens: 0, completionTokens: written, cachedTokens: undefined },
    });
  }
}
