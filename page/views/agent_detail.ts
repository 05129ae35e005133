import { html } from "htm/preact";
import type { VNode } from "preact";
import { duration, figure, wholeNumber } from "./numbers.ts";
import { PHASE_NAMES } from "./run_tree.ts";
import { confidenceOfAgent } from "../state/decision_table.ts";
import { fieldOf, listField, textField } from "../state/json_fields.ts";
import type { RunView } from "../state/run_view.ts";

/** All that is known of one agent: its prompt and text as they are, and what became of it. */
export function AgentDetail(
  { run, agent: id }: { readonly run: RunView; readonly agent: string },
): VNode | null {
  const agent = run.agents.find((one) => one.id === id);
  if (agent === undefined) return null;
  const { phase, text, reasoning, prompt, reason } = agent;
  const confidence = confidenceOfAgent(run.decisions, id);
  const facts: readonly (readonly [string, string])[] = [
    ["Model", agent.model],
    ["Worker", agent.worker || "–"],
    ["State", PHASE_NAMES[phase] + (agent.finishReason === "" ? "" : ` (${agent.finishReason})`)],
    ["Tokens", wholeNumber(agent.tokens)],
    ["Started", duration(agent.queuedMs)],
    ["First token", duration(agent.firstTokenMs)],
    ["Ended", duration(agent.endedMs)],
    ...(confidence === undefined ? [] : [["Confidence", figure(confidence)] as const]),
    ...(agent.retries === 0 ? [] : [["Tried again", wholeNumber(agent.retries)] as const]),
    ...(agent.reads.length === 0 ? [] : [["Reads", agent.reads.join(", ")] as const]),
  ];
  return html`<section class="detail" aria-label=${`Agent ${id}`}>
    <h2><bdi>${id}</bdi></h2>
    ${reason === "" ? null : html`<p class=${`reason ${phase}`}><span class="text">${reason}</span></p>`}
    <dl>${
    facts.map(([name, value]) =>
      html`
        <div>
          <dt>${name}</dt>
          <dd><bdi>${value}</bdi></dd>
        </div>
      `
    )
  }</dl>
    <h3>Text</h3>
    ${
    reasoning === ""
      ? null
      : html`<pre class="text soft" tabindex="0" aria-label="Reasoning">${reasoning}</pre>`
  }
    <pre class=${`text ${phase === "cancelled" ? "struck" : ""}`} tabindex="0" aria-label="Text">${
    text || "–"
  }</pre>
    <h3>Prompt</h3>
    <pre class="text" tabindex="0" aria-label="Prompt">${promptText(prompt)}</pre>
  </section>`;
}

/** A prompt of a record as text. */
function promptText(prompt: unknown): string {
  if (prompt === undefined) return "Not sent yet, or not asked for while the run goes on.";
  const kind = textField(prompt, "kind");
  if (kind === "text") return textField(prompt, "text");
  if (kind === "tokens") return `Tokens: ${listField(prompt, "ids").join(" ")}`;
  return listField(prompt, "messages").map((message) => {
    const content = fieldOf(message, "content");
    return `${textField(message, "role")}:\n${
      typeof content === "string" ? content : JSON.stringify(content)
    }`;
  }).join("\n\n");
}
