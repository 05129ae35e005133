import { messageOf } from "../../../base/errors.ts";
import type { Prompt, Sampling } from "../../engines/engine.ts";
import type { AgentNode, Graph } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import type { PromptTemplate } from "../graph/template.ts";
import type { AgentAnswer } from "./answer.ts";
import { fillPrompt, type OpenPrompt, openPrompt } from "./prompt.ts";
import { type Layout, layoutOf, type Refused } from "./splice_layout.ts";
import { SplicedPrompt } from "./spliced_prompt.ts";
import { hasChatFields, promptText, wirePrompt } from "./wire_prompt.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** The prompts of one run. What its agents have in common is made once: open templates, and the prompts of leaves. */
export class RunPrompts {
  readonly #question: RunInput["question"];
  readonly #open = new Map<PromptTemplate, OpenPrompt>();
  readonly #lengths = new Map<OpenPrompt, number>();
  readonly #unanswered = new Map<OpenPrompt, Map<ServedModel, Prompt>>();
  readonly #layouts = new Map<OpenPrompt, Map<ServedModel, Layout | Refused>>();

  constructor(question: RunInput["question"]) {
    this.#question = question;
  }

  /** An agent's prompt with its slots open. */
  open(node: AgentNode): OpenPrompt {
    let open = this.#open.get(node.template);
    if (open === undefined) this.#open.set(node.template, open = openPrompt(node.template, this.#question));
    return open;
  }

  /** Characters of an agent's open prompt, those of JSON's syntax included. */
  length(node: AgentNode): number {
    const open = this.open(node);
    let length = this.#lengths.get(open);
    if (length === undefined) this.#lengths.set(open, length = JSON.stringify(open).length);
    return length;
  }

  /**
   * An agent's prompt as it goes to the model; `answers` are in slot order. `spliced`: made of the same answers.
   * Throws 400 `invalid_messages` when the model's chat template refuses the conversation.
   */
  wire(
    node: AgentNode,
    answers: readonly AgentAnswer[],
    model: ServedModel,
    sampling: Sampling,
    spliced?: SplicedPrompt,
  ): Prompt {
    const open = this.open(node);
    if (answers.length > 0 || hasChatFields(sampling)) {
      const encode = spliced === undefined ? undefined : (text: string) => spliced.encode(text);
      return wirePrompt(fillPrompt(open, answers), model, sampling, encode);
    }
    let prompts = this.#unanswered.get(open);
    if (prompts === undefined) this.#unanswered.set(open, prompts = new Map());
    let prompt = prompts.get(model);
    if (prompt === undefined) prompts.set(model, prompt = wirePrompt(fillPrompt(open, []), model, sampling));
    return prompt;
  }

  /** An agent's prompt that grows with what its precursors write. `key`: a text that occurs in no prompt. */
  splice(
    node: AgentNode,
    slots: Graph["slots"],
    model: ServedModel,
    sampling: Sampling,
    key: string,
  ): SplicedPrompt | Refused {
    const { tokenizer } = model;
    if (tokenizer === undefined) return { refusal: "the router does not know the model's tokenizer" };
    if (!model.engine.capabilities.tokenIds) return { refusal: "the engine takes no token ids" };
    const streaming = tokenizer.streaming ?? { refusal: "it encodes whole texts only" };
    if ("refusal" in streaming) return { refusal: `of the model's tokenizer: ${streaming.refusal}` };
    const open = this.open(node);
    const layout = this.#layout(open, model, sampling, key);
    if ("refusal" in layout) return layout;
    if (open.kind === "moa-vllm") return { refusal: "MoA-vllm fills it" };
    const { responses } = open;
    const spliced = { layout, responses, slots, stream: streaming.open() };
    if (open.kind === "chat") return new SplicedPrompt(spliced);
    // The engine tokenises it, and says how it begins.
    const { textPrefix } = tokenizer;
    return textPrefix === undefined || sampling.extra?.["add_special_tokens"] !== undefined
      ? { refusal: "the router does not know which tokens the engine puts in front of its raw text" }
      : new SplicedPrompt({ ...spliced, prefix: textPrefix });
  }

  #layout(
    open: OpenPrompt,
    model: ServedModel,
    sampling: Sampling,
    key: string,
  ): Layout | Refused {
    if (open.kind === "chat" && hasChatFields(sampling)) {
      return { refusal: "its parameters need the engine's chat endpoint" };
    }
    let layouts = this.#layouts.get(open);
    if (layouts === undefined) this.#layouts.set(open, layouts = new Map());
    let layout = layouts.get(model);
    if (layout === undefined) {
      try {
        layout = layoutOf(open, (prompt) => promptText(prompt, model, {}), key);
      } catch (error) {
        layout = { refusal: messageOf(error) };
      }
      layouts.set(model, layout);
    }
    return layout;
  }
}
