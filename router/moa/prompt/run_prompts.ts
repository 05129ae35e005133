import { messageOf } from "../../../base/errors.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import type { AgentGraph, AgentNode, ClusterNode } from "../graph/graph_types.ts";
import type { Question } from "../graph/run_input.ts";
import type { Piece, PromptTemplate } from "../graph/template.ts";
import type { AgentAnswer } from "./answer.ts";
import type { Precursor } from "./answer_layout.ts";
import { questionText, textOf } from "./conversation.ts";
import { fillPrompt, type OpenPrompt, openPrompt } from "./open_prompt.ts";
import { layoutOf, type PromptLayout, type Refused } from "./prompt_layout.ts";
import { SplicedPrompt } from "./spliced_prompt.ts";
import { hasChatFields, promptText, wirePrompt } from "./wire_prompt.ts";
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

/** The prompts of one run. What its agents have in common is made once: open templates, and the prompts of leaves. */
export class RunPrompts {
  readonly #question: Question;
  readonly #open = new Map<PromptTemplate, OpenPrompt>();
  readonly #lengths = new Map<OpenPrompt, number>();
  readonly #unanswered = new Map<OpenPrompt, Map<ServedModel, Prompt>>();
  readonly #layouts = new Map<OpenPrompt, Map<ServedModel, PromptLayout | Refused>>();
  /** Tokens of a spliced prompt are not made again for the final one. */
  readonly #spliced = new Map<AgentNode, SplicedPrompt>();

  constructor(question: Question) {
    this.#question = question;
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
   * An agent's prompt as it goes to the model; `answers` are in slot order.
   * Throws 400 `invalid_messages` when the model's chat template refuses the conversation.
   */
  wire({ node, served, sampling }: PromptTarget, answers: readonly AgentAnswer[]): Prompt {
    const open = this.#openOf(node);
    const spliced = this.#spliced.get(node);
    if (answers.length > 0 || spliced !== undefined || hasChatFields(sampling)) {
      const filled = fillPrompt(open, answers);
      const text = spliced === undefined ? undefined : promptText(filled, served, sampling);
      return spliced === undefined || text === undefined
        ? wirePrompt(filled, served, sampling)
        : { kind: "tokens", ids: spliced.encode(text) };
    }
    let prompts = this.#unanswered.get(open);
    if (prompts === undefined) this.#unanswered.set(open, prompts = new Map());
    let prompt = prompts.get(served);
    if (prompt === undefined) {
      prompts.set(served, prompt = wirePrompt(fillPrompt(open, []), served, sampling));
    }
    return prompt;
  }

  /** An agent's prompt that grows with what its precursors write. Once it is spliced, `wire` goes on from there. */
  splice(target: PromptTarget, source: SpliceSource): SplicedPrompt | Refused {
    const { node, served: { tokenizer, engine }, sampling } = target;
    const { slots, precursors, key } = source;
    if (tokenizer === undefined) return { refusal: "the router does not know the model's tokenizer" };
    if (!engine.capabilities.tokenIds) return { refusal: "the engine takes no token ids" };
    const streaming = tokenizer.streaming ?? { refusal: "it encodes whole texts only" };
    if ("refusal" in streaming) return { refusal: `of the model's tokenizer: ${streaming.refusal}` };
    const open = this.#openOf(node);
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
      precursors,
      stream: streaming.open(),
      // The engine tokenises a raw text, and says how it begins.
      prefix: open.kind === "raw" ? textPrefix : undefined,
    });
    this.#spliced.set(node, spliced);
    return spliced;
  }

  /** An agent's prompt with its slots open. */
  #openOf(node: AgentNode): OpenPrompt {
    let open = this.#open.get(node.template);
    if (open === undefined) this.#open.set(node.template, open = openPrompt(node.template, this.#question));
    return open;
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
