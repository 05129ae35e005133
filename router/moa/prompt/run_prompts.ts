import { badRequest, messageOf } from "../../../base/errors.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import type { AgentGraph, AgentNode, ClusterNode } from "../graph/graph_types.ts";
import type { Question } from "../graph/run_input.ts";
import type { Piece, PromptTemplate } from "../graph/template.ts";
import type { AgentAnswer } from "./answer.ts";
import type { Precursor } from "./answer_layout.ts";
import { questionText, textOf } from "./conversation.ts";
import { AskedPrompt } from "./asked_prompt.ts";
import { fillPrompt, type OpenPrompt, openPrompt } from "./open_prompt.ts";
import { layoutOf, type PromptLayout, type Refused } from "./prompt_layout.ts";
import { SplicedPrompt } from "./spliced_prompt.ts";
import {
  guardAnswers,
  guardConversation,
  guardOpen,
  guardPrecursors,
  type NeutralisedTexts,
  neutralisingGuard,
  type TextGuard,
} from "./text_guard.ts";
import {
  hasChatFields,
  isTokenised,
  needsChatEndpoint,
  promptText,
  tokenise,
  type TokeniseOptions,
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

  /** Characters of an agent's open prompt, those of JSON's syntax included. */
  length(node: AgentNode): number {
    const open = this.#openOf(node);
    let length = this.#lengths.get(open);
    if (length === undefined) this.#lengths.set(open, length = JSON.stringify(open).length);
    return length;
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
   * `context_length_exceeded` when the prompt cannot fit without answers.
   */
  wire(target: PromptTarget, answers: readonly AgentAnswer[]): Prompt | Promise<Prompt> {
    const { node, served, sampling } = target;
    const { open, guard, tokenised } = this.#guard(target);
    const spliced = this.#spliced.get(node);
    this.#asked.get(node)?.finish(guardAnswers(answers, guard));
    if (answers.length > 0 || spliced !== undefined || hasChatFields(sampling)) {
      const filled = fillPrompt(open, guardAnswers(answers, guard));
      const text = spliced === undefined ? undefined : promptText(filled, served, sampling);
      return spliced === undefined || text === undefined
        ? wirePrompt(filled, served, sampling, { marked: tokenised })
        : tokensPrompt(spliced.encode(text));
    }
    let prompts = this.#unanswered.get(open);
    if (prompts === undefined) this.#unanswered.set(open, prompts = new Map());
    let prompt = prompts.get(served);
    if (prompt === undefined) {
      const limit = this.#limit(target);
      prompt = wirePrompt(fillPrompt(open, []), served, sampling, { marked: tokenised, limit });
      prompts.set(served, prompt);
      if (prompt instanceof Promise) prompt.then((known) => prompts.set(served, known), () => {});
    }
    return prompt;
  }

  /**
   * Tokens of one of an agent's prompts; undefined where only the engine can tell. Throws 400 `context_length_exceeded`
   * when the prompt alone cannot fit.
   */
  countTokens(prompt: Prompt, target: PromptTarget): number | Promise<number> | undefined {
    const { tokenizer } = target.served;
    if (prompt.kind === "tokens") return prompt.ids.length;
    if (prompt.kind === "chat" || tokenizer === undefined) return undefined;
    const { length: before } = tokenizer.textPrefix ?? [];
    const ids = tokenise(prompt.text, target.served, { limit: this.#limit(target) });
    return ids instanceof Promise ? ids.then(({ length }) => before + length) : before + ids.length;
  }

  /** The request field that an agent's prompt is made from. */
  fieldOf(node: AgentNode): string {
    return node.promptField ?? (this.#question.kind === "chat" ? "messages" : "prompt");
  }

  /** The same prompt as `wire` gives, without regard to what was spliced: for its length. */
  unspliced(target: PromptTarget, answers: readonly AgentAnswer[]): Prompt | Promise<Prompt> {
    const { served, sampling } = target;
    const { open, guard, tokenised } = this.#guard(target);
    return wirePrompt(fillPrompt(open, guardAnswers(answers, guard)), served, sampling, {
      marked: tokenised,
    });
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
    const { node, served: { tokenizer, engine }, sampling } = target;
    const { slots, precursors, key } = source;
    if (!engine.capabilities.tokenIds) return { refusal: "the engine takes no token ids" };
    if (tokenizer === undefined) return this.#ask(target, source);
    const streaming = tokenizer.streaming ?? { refusal: "it encodes whole texts only" };
    if ("refusal" in streaming) return { refusal: `of the model's tokenizer: ${streaming.refusal}` };
    const { open, guard } = this.#guard(target);
    const layout = this.#layout(open, target, key);
    if ("refusal" in layout) return layout;
    if (open.kind === "moa-vllm") return { refusal: "MoA-vllm fills it" };
    const { textPrefix } = tokenizer;
    if (
      open.kind === "raw" &&
      (textPrefix === undefined || sampling.extra?.["add_special_tokens"] !== undefined)
    ) return { refusal: "the router does not know which tokens the engine puts in front of its raw text" };
    const spliced = new SplicedPrompt({
      layout,
      responses: open.responses,
      slots,
      precursors: () => guardPrecursors(precursors(), guard),
      stream: streaming.open({ marked: open.kind === "chat" }),
      marked: open.kind === "chat",
      longTexts: tokenizer.longTexts,
      // The engine tokenises a raw text, and says how it begins.
      prefix: open.kind === "raw" ? textPrefix : undefined,
    });
    this.#spliced.set(node, spliced);
    return spliced;
  }

  /** A prompt whose tokens only the engine can tell. */
  #ask(target: PromptTarget, { slots, precursors }: SpliceSource): AskedPrompt | Refused {
    const { node, served: { askTokens, tokenizerProblem: why }, sampling } = target;
    const { open, guard } = this.#guard(target);
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

  /** An agent's prompt with its slots open. */
  #openOf(node: AgentNode): OpenPrompt {
    let open = this.#open.get(node.template);
    if (open === undefined) this.#open.set(node.template, open = openPrompt(node.template, this.#question));
    return open;
  }

  /** An agent's open prompt with its texts guarded, as one that the router tokenises or as one that the engine does. */
  #guard({ node, served, sampling }: PromptTarget): GuardedPrompt {
    const open = this.#openOf(node);
    const filled = fillPrompt(open, []);
    const tokenised = isTokenised(filled, served, sampling);
    let models = this.#guarded.get(open);
    if (models === undefined) this.#guarded.set(open, models = new Map());
    let made = models.get(served);
    if (made === undefined) models.set(served, made = []);
    let guarded = made.find((one) => one.tokenised === tokenised);
    if (guarded === undefined) {
      const { tokenizer } = served;
      const render = (prompt: OpenPrompt) => promptText(fillPrompt(prompt, []), served, sampling) ?? "";
      const guard = neutralisingGuard(tokenizer, this.#neutralised);
      guarded = tokenised
        ? { ...guardConversation(open, tokenizer?.control, render), tokenised }
        : { open: guardOpen(open, guard), guard, tokenised };
      made.push(guarded);
    }
    return guarded;
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

  #layout(open: OpenPrompt, { served, sampling }: PromptTarget, key: string): PromptLayout | Refused {
    if (open.kind === "chat" && hasChatFields(sampling)) {
      return { refusal: "its parameters need the engine's chat endpoint" };
    }
    let layouts = this.#layouts.get(open);
    if (layouts === undefined) this.#layouts.set(open, layouts = new Map());
    let layout = layouts.get(served);
    if (layout === undefined) {
      try {
        layout = layoutOf(open, (prompt) => promptText(prompt, served, {}), key);
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
