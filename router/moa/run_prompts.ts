import type { Prompt, Sampling } from "../engines/engine.ts";
import type { ServedModel } from "../services.ts";
import type { Answer } from "./answer.ts";
import type { AgentNode } from "./graph_types.ts";
import { fillPrompt, type OpenPrompt, openPrompt } from "./prompt.ts";
import type { RunInput } from "./run_types.ts";
import type { PromptTemplate } from "./template.ts";
import { hasChatFields, wirePrompt } from "./wire_prompt.ts";

/** The prompts of one run. What its agents have in common is made once: open templates, and the prompts of leaves. */
export class RunPrompts {
  readonly #question: RunInput["question"];
  readonly #open = new Map<PromptTemplate, OpenPrompt>();
  readonly #lengths = new Map<OpenPrompt, number>();
  readonly #unanswered = new Map<OpenPrompt, Map<ServedModel, Prompt>>();

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
   * An agent's prompt as it goes to the model; `answers` are in slot order.
   * Throws 400 `invalid_messages` when the model's chat template refuses the conversation.
   */
  wire(node: AgentNode, answers: readonly Answer[], model: ServedModel, sampling: Sampling): Prompt {
    const open = this.open(node);
    if (answers.length > 0 || hasChatFields(sampling)) {
      return wirePrompt(fillPrompt(open, answers), model, sampling);
    }
    let prompts = this.#unanswered.get(open);
    if (prompts === undefined) this.#unanswered.set(open, prompts = new Map());
    let prompt = prompts.get(model);
    if (prompt === undefined) prompts.set(model, prompt = wirePrompt(fillPrompt(open, []), model, sampling));
    return prompt;
  }
}
