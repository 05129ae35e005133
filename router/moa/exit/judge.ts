import { CanopyError, messageOf } from "../../../base/errors.ts";
import { atOnce } from "../../../base/turns.ts";
import type { EarlyExitConfig } from "../../../cfgs/schema/early_exit.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import { INLINE_LENGTH } from "../../../ml/tokenizers/long_texts.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import { cacheReportOf, promptPrefixOf } from "../../engines/prompt_prefix_of.ts";
import { AgentCall } from "../agent/agent_call.ts";
import type { AgentContext } from "../agent/agent_context.ts";
import { attemptOutcome } from "../agent/attempt_outcome.ts";
import type { VerdictQuestion } from "./exit_policies.ts";
import type { Judgement } from "./pair_evidence.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import { markingGuard, neutralisingGuard } from "../prompt/text_guard.ts";
import { isTokenised, wirePrompt } from "../prompt/wire_prompt.ts";
import { type AgentUsage, withExtraTokens } from "../record/usage.ts";
import type { ModelAccess } from "../warm/model_access.ts";
import type { Lease } from "../../pool/lease.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Alternatives of the one token in which yes and no are looked for: what every engine that has them gives. */
const ALTERNATIVES = 10;

/** Options of a `Judge`. */
export interface JudgeOptions {
  /** `<cluster>.verdict`: the calls' agent id. */
  readonly id: string;
  readonly model: ModelAccess;
  readonly settings: EarlyExitConfig["verdict"];
  readonly verdict: VerdictQuestion;
  /** The question that the answers answer, as plain text. */
  readonly question: () => string;
  readonly context: AgentContext;
}

/** Asks a small model, in one token, whether two answers of a cluster agree. Its calls are an agent's like any other. */
export class Judge {
  readonly #options: JudgeOptions;
  /** The agent as which its calls are counted. */
  readonly #node: AgentNode;
  readonly #stickyKey: string;
  readonly #calls: AgentCall[] = [];
  #warmTokens = 0;

  constructor(options: JudgeOptions) {
    const { id, model, settings, context } = options;
    this.#options = options;
    this.#stickyKey = `${context.runId}/${id}`;
    this.#node = {
      id,
      model: model.served.name,
      template: { kind: "messages", messages: [], responses: { item: [], separator: "" } },
      sampling: {},
      deadlineMs: settings.deadline_ms,
      onDeadline: "drop",
      reads: [],
    };
  }

  /** Tokens of its calls and warms. */
  usages(): AgentUsage[] {
    const warmed = withExtraTokens(undefined, this.#node, { warmTokens: this.#warmTokens });
    return [...this.#calls.map((call) => call.usage()), warmed].filter((usage) => usage !== undefined);
  }

  /** The verdict on two answers; never rejects. When the signal aborts the engine is told. */
  async ask(answers: readonly [string, string], signal: AbortSignal): Promise<Judgement> {
    const { served } = this.#options.model;
    if (!served.engine.capabilities.logprobs) {
      return this.#unknown("the engine of the judging model gives no log-probabilities");
    }
    const [a, b] = answers;
    const orders: (readonly [string, string])[] = this.#options.settings.swap ? [[a, b], [b, a]] : [[a, b]];
    const judgements = await Promise.all(orders.map((order) => this.#askOnce(order, signal)));
    const unknown = judgements.find(({ verdict }) => verdict.yes === undefined);
    if (unknown !== undefined) return unknown;
    // Both must agree.
    const yes = Math.min(...judgements.map(({ verdict }) => verdict.yes ?? 0));
    return { verdict: { yes, model: served.name }, late: false, failed: false };
  }

  /**
   * Has the model read the question and the first answer while the second one is still being written. Once, and only
   * where nothing waits and there is something to gain; never rejects.
   */
  async warm(answer: string, signal: AbortSignal): Promise<void> {
    const { work, trace } = this.#options.context;
    work.begin();
    const warmed = await this.#warm(answer, signal);
    if (warmed !== undefined) {
      this.#warmTokens += warmed.computed;
      trace.add("warm_done", { agent: this.#node.id, data: { ...warmed } });
    }
    work.end();
  }

  /** The tokens that are cached now, and of these the ones that were computed; undefined when nothing was sent. */
  async #warm(
    answer: string,
    signal: AbortSignal,
  ): Promise<{ readonly tokens: number; readonly computed: number } | undefined> {
    const { served: { engine, pool: { gate } }, warmControl } = this.#options.model;
    if (engine.capabilities.warm === "none" || warmControl.off !== undefined || gate.waiting > 0) {
      return undefined;
    }
    let lease: Lease | undefined;
    let endTurn = () => {};
    try {
      const prefix = this.#prefix(answer);
      if (prefix === undefined) return undefined;
      lease = gate.leaseNow({ stickyKey: this.#stickyKey, prompt: promptPrefixOf(prefix) });
      const { home } = lease;
      if (warmControl.turns.busyWith(home) !== undefined || warmControl.turns.pausedMs(home) > 0) {
        lease.release("aborted");
        return undefined;
      }
      endTurn = warmControl.turns.take(home, prefix.ids.length);
      const warmed = await engine.warm(prefix, lease, signal, sampling(undefined));
      lease.promptRead(cacheReportOf(warmed));
      lease.release("ok");
      const { promptTokens, cachedTokens } = warmed;
      return { tokens: promptTokens, computed: Math.max(0, promptTokens - (cachedTokens ?? 0)) };
    } catch (error) {
      lease?.release(signal.aborted ? "aborted" : attemptOutcome(error));
      return undefined;
    } finally {
      endTurn();
    }
  }

  /** The beginning of every prompt that has this answer first; undefined where the engine makes the token ids. */
  #prefix(answer: string): Extract<Prompt, { kind: "tokens" }> | undefined {
    const tokenizer = this.#options.model.served.tokenizer;
    if (tokenizer?.streaming === undefined || "refusal" in tokenizer.streaming) return undefined;
    const [one, other] = ["\u0001", "\u0002"].map((second) => this.#text([answer, second]));
    if (one === undefined || other === undefined) return undefined;
    let end = 0;
    while (end < one.length && one[end] === other[end]) end++;
    if (tokenizer.longTexts !== undefined && end > INLINE_LENGTH) return undefined;
    const stream = tokenizer.streaming.open({ marked: true });
    stream.append(one.slice(0, end));
    return { kind: "tokens", ids: [...stream.stable] };
  }

  async #askOnce(answers: readonly [string, string], signal: AbortSignal): Promise<Judgement> {
    const { model: { served }, context } = this.#options;
    let prompt: Prompt;
    try {
      const chat = { kind: "chat", messages: this.#messages(answers, this.#tokenises) } as const;
      prompt = await atOnce(wirePrompt(chat, unthinking(served), {}, { marked: true, signal }));
    } catch (error) {
      return this.#unknown(messageOf(error));
    }
    const call = new AgentCall({ node: this.#node, choice: this.#calls.length, model: served, context });
    this.#calls.push(call);
    const onAbort = () => call.cancel(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      await call.run({
        asked: { prompt, sampling: sampling(prompt.kind === "chat" ? served : undefined) },
        // Without alternatives the chosen token decides alone.
        logprobs: served.engine.capabilities.topLogprobs === false ? 0 : ALTERNATIVES,
        stickyKey: this.#stickyKey,
      });
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
    return this.#judgement(call);
  }

  #judgement(call: AgentCall): Judgement {
    const model = this.#node.model;
    if (call.state !== "done") {
      const late = CanopyError.is(call.error) && call.error.code === "deadline_exceeded";
      return this.#unknown(messageOf(call.error), late);
    }
    const [token] = call.log.logprobs;
    if (token === undefined) return this.#unknown("the engine sent no log-probabilities");
    const candidates = [token, ...token.top ?? []].map(({ token, logprob }) => ({ text: token, logprob }));
    const yes = this.#options.verdict.yes(candidates);
    if (yes !== undefined) return { verdict: { yes, model }, late: false, failed: false };
    const reason = `its reply begins with ${JSON.stringify(token.token.slice(0, 20))}`;
    return { verdict: { yes, reason, model }, late: false, failed: false };
  }

  #text(answers: readonly [string, string]): string | undefined {
    if (!this.#tokenises) return undefined;
    return this.#options.model.served.tokenizer?.renderChat(this.#messages(answers, true), {
      templateArguments: unthinking(this.#options.model.served).config.chat_template_arguments,
    });
  }

  /** True when the router makes the tokens of its prompts. */
  get #tokenises(): boolean {
    return isTokenised({ kind: "chat", messages: [] }, this.#options.model.served, {});
  }

  /** Neither the question nor an answer can write a control token. */
  #messages(answers: readonly [string, string], marked: boolean): ChatMessage[] {
    const { question, settings, verdict, model: { served: { tokenizer } } } = this.#options;
    const guard = marked ? markingGuard(tokenizer?.control?.all) : neutralisingGuard(tokenizer, "all");
    const [first, second] = marked ? answers : answers.map((answer) => guard.answer(answer));
    const content = verdict.prompt({
      question: question(),
      first: first ?? "",
      second: second ?? "",
      maxTokens: settings.max_tokens,
    });
    return [{ role: "user", content: marked ? guard.text(content) : content }];
  }

  #unknown(reason: string, late = false): Judgement {
    return unknownVerdict(reason, this.#node.model, late);
  }
}

/** A verdict that could not be had. */
export function unknownVerdict(reason: string, model = "", late = false): Judgement {
  return { verdict: { yes: undefined, reason, model }, late, failed: true };
}

/** A model that reasons first says neither yes nor no in its first token: templates that can are told not to. */
function unthinking(served: ServedModel): ServedModel {
  const { config } = served;
  const chat_template_arguments = { ...config.chat_template_arguments, enable_thinking: false };
  return { ...served, config: { ...config, chat_template_arguments } };
}

/** `chatOf`: the model whose engine applies the chat template. */
function sampling(chatOf: ServedModel | undefined): Sampling {
  const base: Sampling = { max_tokens: 1, temperature: 0 };
  if (chatOf === undefined || chatOf.config.engine === "openai") return base;
  return { ...base, extra: { chat_template_kwargs: { enable_thinking: false } } };
}
