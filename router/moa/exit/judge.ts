import type { Clock } from "../../../base/clock.ts";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import type { EarlyExitConfig } from "../../../cfgs/schema/early_exit.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { VerdictQuestion } from "./exit_policies.ts";
import type { Judgement } from "./pair_evidence.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import { wirePrompt } from "../prompt/wire_prompt.ts";
import type { ModelAccess } from "../run/run_options.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Alternatives of the one token in which yes and no are looked for: what every engine that has them gives. */
const ALTERNATIVES = 10;

/** What a cluster's verdicts are asked with. */
export interface JudgeOptions {
  /** `<cluster>.verdict`: the calls' agent id. */
  readonly id: string;
  readonly model: ModelAccess;
  readonly settings: EarlyExitConfig["verdict"];
  readonly verdict: VerdictQuestion;
  /** What the answers answer. */
  readonly question: () => string;
  readonly clock: Clock;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly stickyKey: string;
  /** Makes a call that the run counts. */
  readonly call: (node: AgentNode) => AgentCall;
  /** A call is on its way, or (false) no engine works for it any more. */
  readonly working: (busy: boolean) => void;
}

/** Asks a small model, in one token, whether two answers agree. Its calls are an agent's like any other. */
export class Judge {
  readonly #options: JudgeOptions;
  /** As whom its calls are counted. */
  readonly node: AgentNode;

  constructor(options: JudgeOptions) {
    const { id, model, settings } = options;
    this.#options = options;
    this.node = {
      id,
      model: model.served.name,
      template: { kind: "messages", messages: [], responses: { item: [], separator: "" } },
      sampling: {},
      deadlineMs: settings.deadline_ms,
      onDeadline: "drop",
      reads: [],
    };
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

  /** The beginning of every prompt that has this answer first, as token ids; undefined where the engine makes them. */
  prefix(
    answer: string,
  ): { readonly prompt: Prompt; readonly tokens: number; readonly sampling: Sampling } | undefined {
    const tokenizer = this.#options.model.served.tokenizer;
    if (tokenizer?.streaming === undefined || "refusal" in tokenizer.streaming) return undefined;
    const texts = ["\u0001", "\u0002"].map((other) => this.#text([answer, other]));
    const [one, other] = texts;
    if (one === undefined || other === undefined) return undefined;
    let end = 0;
    while (end < one.length && one[end] === other[end]) end++;
    const stream = tokenizer.streaming.open();
    stream.append(one.slice(0, end));
    const ids = [...stream.stable];
    return { prompt: { kind: "tokens", ids }, tokens: ids.length, sampling: sampling(undefined) };
  }

  async #askOnce(answers: readonly [string, string], signal: AbortSignal): Promise<Judgement> {
    const { model: { served }, headers, stickyKey, call: make, working } = this.#options;
    let call: AgentCall;
    let prompt: Prompt;
    try {
      prompt = this.#prompt(answers);
      call = make(this.node);
    } catch (error) {
      return this.#unknown(messageOf(error));
    }
    const onAbort = () => call.cancel(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    working(true);
    try {
      await call.run({
        prompt,
        sampling: sampling(prompt.kind === "chat" ? served : undefined),
        // Without alternatives the chosen token decides alone.
        logprobs: served.engine.capabilities.topLogprobs === false ? 0 : ALTERNATIVES,
        stickyKey,
        ...(headers === undefined ? {} : { headers }),
      });
    } finally {
      signal.removeEventListener("abort", onAbort);
      working(false);
    }
    if (call.state !== "done") {
      const late = CanopyError.is(call.error) && call.error.code === "deadline_exceeded";
      return this.#unknown(messageOf(call.error), late);
    }
    const [token] = call.log.logprobs;
    if (token === undefined) return this.#unknown("the engine sent no log-probabilities");
    const candidates = [token, ...token.top ?? []].map(({ token, logprob }) => ({ text: token, logprob }));
    const yes = this.#options.verdict.yes(candidates);
    if (yes === undefined) {
      const reason = `its reply begins with ${JSON.stringify(token.token.slice(0, 20))}`;
      return { verdict: { yes, reason, model: served.name }, late: false, failed: false };
    }
    return { verdict: { yes, model: served.name }, late: false, failed: false };
  }

  #prompt(answers: readonly [string, string]): Prompt {
    const { model: { served } } = this.#options;
    return wirePrompt({ kind: "chat", messages: this.#messages(answers) }, unthinking(served), {});
  }

  #text(answers: readonly [string, string]): string | undefined {
    const { tokenizer, engine } = this.#options.model.served;
    if (tokenizer === undefined || !tokenizer.hasChatTemplate || !engine.capabilities.tokenIds) {
      return undefined;
    }
    return tokenizer.renderChat(this.#messages(answers), {
      templateArguments: unthinking(this.#options.model.served).config.chat_template_arguments,
    });
  }

  #messages([first, second]: readonly [string, string]): ChatMessage[] {
    const { question, settings, verdict } = this.#options;
    const content = verdict.prompt({ question: question(), first, second, maxTokens: settings.max_tokens });
    return [{ role: "user", content }];
  }

  #unknown(reason: string, late = false): Judgement {
    return { verdict: { yes: undefined, reason, model: this.node.model }, late, failed: true };
  }
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
