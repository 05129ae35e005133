import { html } from "htm/preact";
import type { VNode } from "preact";
import { costText, duration, figure, wholeNumber } from "../numbers.ts";
import { PHASE_NAMES } from "./run_tree.ts";
import { fallbackWords, hedgeWords } from "../../state/agent_words.ts";
import { confidenceOfAgent } from "../../state/decision_table.ts";
import { fieldOf, listField, textField } from "../../state/json_fields.ts";
import { usageOfAgent } from "../../state/run_usage_view.ts";
import type { RunView } from "../../state/run_view.ts";

/** The place of a text that the server's records have not. */
export const TEXT_NOT_KEPT =
  "Not kept: this run was recorded without prompts and answers. With server.records.texts: true the server records those of later runs.";

/** All that is known of one agent: its prompt and text as they are, and what became of it. */
export function AgentDetail(
  { run, agent: id }: { readonly run: RunView; readonly agent: string },
): VNode | null {
  const agent = run.agents.find((one) => one.id === id);
  if (agent === undefined) return null;
  const { phase, text, reasoning, prompt, reason } = agent;
  const confidence = confidenceOfAgent(run.decisions, id);
  const cost = usageOfAgent(run.usage, id)?.cost;
  const notes = [fallbackWords(agent), hedgeWords(agent, duration)].filter((words) => words !== undefined);
  const facts: readonly (readonly [string, string])[] = [
    ["Model", agent.model],
    ["Worker", agent.worker || "–"],
    ["State", PHASE_NAMES[phase] + (agent.finishReason === "" ? "" : ` (${agent.finishReason})`)],
    ["Tokens", wholeNumber(agent.tokens)],
    ...(cost === undefined ? [] : [["Cost", costText(cost)] as const]),
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
    ${notes.map((words) => html`<p class="reason"><span class="text">${words}</span></p>`)}
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
    text || (run.textsKept ? "–" : TEXT_NOT_KEPT)
  }</pre>
    <h3>Prompt</h3>
    <pre class="text" tabindex="0" aria-label="Prompt">${
    run.textsKept ? promptText(prompt) : TEXT_NOT_KEPT
  }</pre>
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
