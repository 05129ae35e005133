import { badRequest, messageOf } from "../../../base/errors.ts";
import { charactersOf } from "../../../base/json.ts";
import { atOnce, type Turns } from "../../../base/turns.ts";
import { TURN_LENGTH } from "../../../ml/tokenizers/control_tokens.ts";
import { INLINE_MESSAGES } from "../../../ml/tokenizers/long_texts.ts";
import { tokenEnds, tokenise, type TokeniseOptions } from "../../../ml/tokenizers/tokenise.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import type { AgentGraph, AgentNode, ClusterNode } from "../graph/graph_types.ts";
import type { Question } from "../graph/run_input.ts";
import type { Piece, PromptTemplate } from "../graph/template.ts";
import type { AgentAnswer } from "./answer.ts";
import type { Precursor } from "./answer_layout.ts";
import { questionText, textOf } from "./conversation.ts";
import { AskedPrompt } from "./asked_prompt.ts";
import { type FilledPrompt, fillPrompt, type OpenPrompt, openPrompt } from "./open_prompt.ts";
import { layoutOf, type PromptLayout, type Refused } from "./prompt_layout.ts";
import { SplicedPrompt } from "./spliced_prompt.ts";
import {
  guardAnswers,
  guardConversation,
  guardLong,
  guardOpen,
  guardPrecursors,
  type NeutralisedTexts,
  neutralisingGuard,
  type TextGuard,
  textsOf,
} from "./text_guard.ts";
import {
  hasChatFields,
  isTokenised,
  needsChatEndpoint,
  promptText,
  tokensPrompt,
  wirePrompt,
} from "./wire_prompt.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** An agent as a run calls it. */
export interface PromptTarget {
  readonly node: AgentNode;
  readonly served: ServedModel;
  /** Its parameters; the root's with the client's over them. */
  readonly sampling: Sampling;
}

/** Options of `RunPrompts.splice`. */
export interface SpliceSource {
  readonly slots: AgentGraph["slots"];
  /** The state of the agent's precursors, in declared order. */
  readonly precursors: () => readonly Precursor[];
  /** A text that occurs in no prompt. */
  readonly key: string;
}

/** A prompt as a model gets it: open, with guarded texts, and what its answers go through. */
interface GuardedPrompt {
  readonly open: OpenPrompt;
  readonly guard: TextGuard;
  /** The router makes its tokens. */
  readonly tokenised: boolean;
}

/** The prompts of one run. What its agents have in common is made once: open templates, and the prompts of leaves. */
export class RunPrompts {
  readonly #question: Question;
  readonly #neutralised: NeutralisedTexts;
  readonly #open = new Map<PromptTemplate, OpenPrompt>();
  readonly #lengths = new Map<OpenPrompt, number>();
  /** Without answers. */
  readonly #filled = new Map<OpenPrompt, FilledPrompt>();
  readonly #guarded = new Map<OpenPrompt, Map<ServedModel, GuardedPrompt[]>>();
  readonly #unanswered = new Map<OpenPrompt, Map<ServedModel, Prompt | Promise<Prompt>>>();
  readonly #layouts = new Map<OpenPrompt, Map<ServedModel, PromptLayout | Refused>>();
  /** Tokens of a spliced prompt are not made again for the final one. */
  readonly #spliced = new Map<AgentNode, SplicedPrompt>();
  readonly #asked = new Map<AgentNode, AskedPrompt>();

  /** `neutralised`: texts whose control tokens are taken apart where the engine tokenises. */
  constructor(question: Question, neutralised: NeutralisedTexts = "answers") {
    this.#question = question;
    this.#neutralised = neutralised;
  }

  /** Characters of an agent's open prompt: at least those of its texts. */
  length(node: AgentNode): number {
    const open = this.#openOf(node);
    let length = this.#lengths.get(open);
    if (length === undefined) this.#lengths.set(open, length = charactersOf(open));
    return length;
  }

  /** Characters of the texts in an agent's open prompt. */
  textLength(node: AgentNode): number {
    return textsOf(this.#openOf(node)).reduce((sum, text) => sum + text.length, 0);
  }

  /** True for prompts that are made in turns of the event loop: their texts are long, or many. */
  isLong(node: AgentNode, answers: readonly AgentAnswer[] = []): boolean {
    const written = answers.reduce((sum, { text }) => sum + text.length, 0);
    const open = this.#openOf(node);
    return this.length(node) + written > TURN_LENGTH ||
      (open.kind === "chat" && open.messages.length > INLINE_MESSAGES);
  }

  /**
   * Makes what an agent's prompt needs: afterwards `wire` without answers, `countTokens` and `splice` are short. `key` as
   * in `SpliceSource`; undefined where the prompt is not spliced. Throws what `wire` throws.
   */
  *prepare(target: PromptTarget, key: string | undefined): Turns<void> {
    yield;
    this.#refuseTooLong(target);
    yield* this.wireInTurns(target, []);
    if (key === undefined || this.#refusal(target) !== undefined) return;
    const { open } = yield* this.#guardInTurns(target);
    yield* this.#layoutInTurns(open, target, key);
  }

  /**
   * The question that a cluster's members answer, as plain text: the run's, or the first member's own prompt where
   * each agent has one of its own.
   */
  questionTo({ agents: [member] }: ClusterNode): string {
    const question = this.#question;
    const text = question.kind === "text" ? question.text : questionText(question.messages);
    return text !== "" || member === undefined ? text : ownText(this.#openOf(member));
  }

  /**
   * An agent's prompt as it goes to the model; `answers` are in slot order. A promise where it is so long that a thread
   * makes its tokens. Throws 400 `invalid_messages` when the model's chat template refuses the conversation,
   * `context_length_exceeded` when a long prompt cannot fit.
   */
  wire(target: PromptTarget, answers: readonly AgentAnswer[]): Prompt | Promise<Prompt> {
    return atOnce(this.wireInTurns(target, answers));
  }

  /** `wire` for a prompt that is long. */
  *wireInTurns(target: PromptTarget, answers: readonly AgentAnswer[]): Turns<Prompt | Promise<Prompt>> {
    const { node, served, sampling } = target;
    const { open, guard, tokenised } = yield* this.#guardInTurns(target);
    yield* guardLong(answers.map(({ text }) => text), "answer", guard);
    const guarded = guardAnswers(answers, guard);
    this.#asked.get(node)?.finish(guarded);
    if (answers.length > 0 || this.#spliced.has(node) || hasChatFields(sampling)) {
      const filled = fillPrompt(open, guarded);
      yield;
      const text = yield* promptText(filled, served, sampling);
      if (text === undefined) return filled;
      yield;
      const spliced = this.#spliced.get(node);
      // Too long a one is not sent, but its answers are cut: by how much its number of tokens tells.
      const ends = answers.length === 0 ? undefined : contextTokensOf(served);
      return tokensPrompt(
        spliced?.encode(text, ends) ?? tokenEnds(text, served.tokenizer, { marked: tokenised, ends }),
      );
    }
    let prompts = this.#unanswered.get(open);
    if (prompts === undefined) this.#unanswered.set(open, prompts = new Map());
    const known = prompts.get(served);
    if (known !== undefined) return known;
    const filled = fillPrompt(open, []);
    yield;
    const text = yield* promptText(filled, served, sampling);
    yield;
    const options = { marked: tokenised, limit: this.#limit(target) };
    const prompt = text === undefined ? filled : tokensPrompt(tokenise(text, served.tokenizer, options));
    prompts.set(served, prompt);
    if (prompt instanceof Promise) prompt.then((made) => prompts.set(served, made), () => {});
    return prompt;
  }

  /**
   * Tokens of one of an agent's prompts; undefined where only the engine can tell. Throws 400 `context_length_exceeded`
   * when the prompt alone cannot fit.
   */
  countTokens(prompt: Prompt, target: PromptTarget): number | Promise<number> | undefined {
    const { tokenizer } = target.served;
    if (prompt.kind === "tokens") return prompt.tokens ?? prompt.ids.length;
    if (prompt.kind === "chat" || tokenizer === undefined) return undefined;
    const { length: before } = tokenizer.textPrefix ?? [];
    const ids = tokenise(prompt.text, tokenizer, { limit: this.#limit(target) });
    return ids instanceof Promise ? ids.then(({ length }) => before + length) : before + ids.length;
  }

  /** The request field that an agent's prompt is made from. */
  fieldOf(node: AgentNode): string {
    return node.promptField ?? (this.#question.kind === "chat" ? "messages" : "prompt");
  }

  /** The same prompt as `wire` gives, without regard to what was spliced: for its length. */
  *unspliced(target: PromptTarget, answers: readonly AgentAnswer[]): Turns<Prompt | Promise<Prompt>> {
    const { served, sampling } = target;
    const { open, guard, tokenised } = yield* this.#guardInTurns(target);
    yield* guardLong(answers.map(({ text }) => text), "answer", guard);
    return yield* wirePrompt(fillPrompt(open, guardAnswers(answers, guard)), served, sampling, {
      marked: tokenised,
      ends: contextTokensOf(served),
    });
  }

  /** The reason why an agent's prompt does not go out as token ids, as the end of a sentence; undefined where it does. */
  whyNotTokens({ node, served, sampling }: PromptTarget): string | undefined {
    if (!served.engine.capabilities.tokenIds) return "the engine takes no token ids";
    if (served.tokenizer === undefined) return "the router does not know the model's tokenizer";
    const filled = fillPrompt(this.#openOf(node), []);
    if (filled.kind !== "chat") return "its prompt is a raw text, which the engine tokenises";
    return isTokenised(filled, served, sampling)
      ? undefined
      : "its conversation or parameters need the engine's chat endpoint";
  }

  /** As `SplicedPrompt.keptTokens`, of an agent whose prompt is spliced. */
  keptTokens(node: AgentNode): number | undefined {
    return this.#spliced.get(node)?.keptTokens;
  }

  /** As `SplicedPrompt.splicedTokens`, of an agent whose prompt is spliced, by the router or with the engine's help. */
  splicedTokens(node: AgentNode): number | undefined {
    return (this.#spliced.get(node) ?? this.#asked.get(node))?.splicedTokens;
  }

  /** An agent's prompt that grows with what its precursors write. Once it is spliced, `wire` goes on from there. */
  splice(target: PromptTarget, source: SpliceSource): SplicedPrompt | AskedPrompt | Refused {
    const { node, served: { tokenizer, engine } } = target;
    const { slots, precursors, key } = source;
    if (engine.capabilities.tokenIds && tokenizer === undefined) return this.#ask(target, source);
    const refusal = this.#refusal(target);
    if (refusal !== undefined) return { refusal };
    const { open, guard } = atOnce(this.#guardInTurns(target));
    const layout = atOnce(this.#layoutInTurns(open, target, key));
    if ("refusal" in layout) return layout;
    const streaming = tokenizer?.streaming;
    if (tokenizer === undefined || streaming === undefined || "refusal" in streaming) {
      throw new Error(`The prompt of agent ${node.id} cannot be spliced`);
    }
    if (open.kind === "moa-vllm") return { refusal: "MoA-vllm fills it" };
    const spliced = new SplicedPrompt({
      layout,
      responses: open.responses,
      slots,
      precursors,
      guard: (known) => guardPrecursors(known, guard),
      stream: streaming.open({ marked: open.kind === "chat" }),
      marked: open.kind === "chat",
      longTexts: tokenizer.longTexts,
      // The engine tokenises a raw text, and says how it begins.
      prefix: open.kind === "raw" ? tokenizer.textPrefix : undefined,
    });
    this.#spliced.set(node, spliced);
    return spliced;
  }

  /** A prompt whose tokens only the engine can tell. */
  #ask(target: PromptTarget, { slots, precursors }: SpliceSource): AskedPrompt | Refused {
    const { node, served: { askTokens, tokenizerProblem: why }, sampling } = target;
    const { open, guard } = atOnce(this.#guardInTurns(target));
    if (askTokens === undefined || open.kind !== "chat") {
      const refusal = "the router does not know the model's tokenizer";
      return { refusal: why === undefined ? refusal : `${refusal}: ${why}` };
    }
    const filled = fillPrompt(open, []);
    if (filled.kind === "chat" && needsChatEndpoint(filled.messages, sampling)) {
      return { refusal: "its conversation or parameters need the engine's chat endpoint" };
    }
    const asked = new AskedPrompt({
      open,
      slots,
      precursors: () => guardPrecursors(precursors(), guard),
      askTokens,
    });
    this.#asked.set(node, asked);
    return asked;
  }

  /** The reason why an agent's prompt cannot be spliced, as far as that is known before its layout. */
  #refusal({ node, served: { tokenizer, engine }, sampling }: PromptTarget): string | undefined {
    if (!engine.capabilities.tokenIds) return "the engine takes no token ids";
    if (tokenizer === undefined) return "the router does not know the model's tokenizer";
    const streaming = tokenizer.streaming ?? { refusal: "it encodes whole texts only" };
    if ("refusal" in streaming) return `of the model's tokenizer: ${streaming.refusal}`;
    const { kind } = this.#openOf(node);
    if (kind === "chat" && hasChatFields(sampling)) return "its parameters need the engine's chat endpoint";
    if (
      kind === "raw" &&
      (tokenizer.textPrefix === undefined || sampling.extra?.["add_special_tokens"] !== undefined)
    ) return "the router does not know which tokens the engine puts in front of its raw text";
    return undefined;
  }

  /** An agent's prompt with its slots open. */
  #openOf(node: AgentNode): OpenPrompt {
    let open = this.#open.get(node.template);
    if (open === undefined) this.#open.set(node.template, open = openPrompt(node.template, this.#question));
    return open;
  }

  /** An agent's open prompt with its texts guarded, as one that the router tokenises or as one that the engine does. */
  *#guardInTurns({ node, served, sampling }: PromptTarget): Turns<GuardedPrompt> {
    const open = this.#openOf(node);
    let filled = this.#filled.get(open);
    if (filled === undefined) this.#filled.set(open, filled = fillPrompt(open, []));
    const tokenised = isTokenised(filled, served, sampling);
    let models = this.#guarded.get(open);
    if (models === undefined) this.#guarded.set(open, models = new Map());
    let made = models.get(served);
    if (made === undefined) models.set(served, made = []);
    let guarded = made.find((one) => one.tokenised === tokenised);
    if (guarded === undefined) {
      const { tokenizer } = served;
      if (tokenised) {
        const render = (prompt: OpenPrompt) => promptText(fillPrompt(prompt, []), served, sampling);
        guarded = { ...yield* guardConversation(open, tokenizer?.control, render), tokenised };
      } else {
        const guard = neutralisingGuard(tokenizer, this.#neutralised);
        yield* guardLong(textsOf(open), "text", guard);
        guarded = { open: guardOpen(open, guard), guard, tokenised };
      }
      made.push(guarded);
    }
    return guarded;
  }

  /** A prompt whose tokens cannot fit, whatever they are, is not made. */
  #refuseTooLong(target: PromptTarget): void {
    const limit = this.#limit(target);
    const { maxTokenBytes } = target.served.tokenizer ?? {};
    if (limit === undefined || maxTokenBytes === undefined) return;
    // A UTF-16 unit is at least one byte.
    const least = Math.ceil(this.textLength(target.node) / maxTokenBytes);
    if (least > limit.tokens) throw limit.tooLong(least);
  }

  /** The model's context, where it is known. */
  #limit({ node, served }: PromptTarget): TokeniseOptions["limit"] {
    const tokens = contextTokensOf(served);
    return tokens === undefined ? undefined : {
      tokens,
      tooLong: (least) =>
        badRequest(
          this.fieldOf(node),
          `Cannot answer: agent ${node.id} (model ${node.model}) has a context of ${tokens} tokens, and ` +
            `${this.fieldOf(node)} has at least ${least} input tokens; shorten ${this.fieldOf(node)}`,
          "context_length_exceeded",
        ),
    };
  }

  *#layoutInTurns(open: OpenPrompt, { served }: PromptTarget, key: string): Turns<PromptLayout | Refused> {
    let layouts = this.#layouts.get(open);
    if (layouts === undefined) this.#layouts.set(open, layouts = new Map());
    let layout = layouts.get(served);
    if (layout === undefined) {
      yield;
      try {
        layout = yield* layoutOf(open, (prompt) => promptText(prompt, served, {}), key);
      } catch (error) {
        layout = { refusal: messageOf(error) };
      }
      layouts.set(served, layout);
    }
    return layout;
  }
}

/** Tokens that a model's context holds; undefined: not known. */
export function contextTokensOf({ config, engine }: ServedModel): number | undefined {
  return config.context_tokens ?? engine.capabilities.contextTokens;
}

/** The user's text in a prompt, without what is written into its slots. */
function ownText(open: OpenPrompt): string {
  switch (open.kind) {
    case "chat":
      return open.messages.flatMap((message) => {
        if (message.kind === "open") return [literals(message.pieces)];
        return message.message.role === "system" ? [] : [textOf(message.message.content)];
      }).join("\n\n");
    case "raw":
      return literals(open.pieces);
    case "moa-vllm":
      return open.question;
  }
}

function literals(pieces: readonly Piece[]): string {
  return pieces.map((piece) => piece.kind === "literal" ? piece.text : "").join("");
}
