import { html } from "htm/preact";
import type { VNode } from "preact";
import { wholeNumber } from "../numbers.ts";
import { layersOf } from "../../state/layers.ts";
import type { AgentPhase, AgentView } from "../../state/run_view.ts";

/** Phases in words. */
export const PHASE_NAMES: Readonly<Record<AgentPhase, string>> = {
  waiting: "waits",
  reading: "reads ahead",
  queued: "queued",
  prefill: "reads its prompt",
  writing: "writes",
  done: "done",
  failed: "failed",
  cancelled: "not waited for",
};

/** Characters of a text that a card shows: its end, where something happens. */
const SHOWN_CHARACTERS = 120;

/** Options of `RunTree`. */
export interface RunTreeOptions {
  readonly agents: readonly AgentView[];
  readonly selected: string;
  readonly onSelect: (agent: string) => void;
}

/** A run's agents, layer by layer, each of which can be chosen. */
export function RunTree({ agents, selected, onSelect }: RunTreeOptions): VNode {
  return html`<div class="tree" role="group" aria-label="Agents, layer by layer">
    ${
    layersOf(agents).map((clusters, at) =>
      html`<div class="layer" key=${at}>
      ${
        clusters.map(({ id, agents: members }) =>
          html`<div class="cluster" key=${id}>
        ${members.map((agent) => card(agent, agent.id === selected, onSelect))}
      </div>`
        )
      }
    </div>`
    )
  }
  </div>`;
}

function card(agent: AgentView, selected: boolean, onSelect: RunTreeOptions["onSelect"]): VNode {
  const { id, phase, text, reasoning, tokens, reason, warms, hedge } = agent;
  const written = text === "" ? reasoning : text;
  const note = phase === "failed" || phase === "cancelled" ? reason : written.slice(-SHOWN_CHARACTERS);
  return html`
    <button type="button" key=${id} class=${`agent ${phase}`} data-agent=${id} aria-pressed=${selected}
      onClick=${() => onSelect(id)}>
      <span class="top"><b><bdi>${id}</bdi></b> ${askedModel(agent)}</span>
      <span class="top"><span class="phase">${PHASE_NAMES[phase]}</span>
          <span class="count">${tokens === undefined ? "" : `${wholeNumber(tokens)} tokens`}
            ${warms.length > 0
              ? html`<span class="ahead" title="Parts of its prompt were read ahead">⇢${warms.length}</span>`
              : null}
            ${hedge === undefined
              ? null
              : html`<span class="again" title="A second attempt was begun"><span class="hidden">second attempt </span>×2</span>`}
          </span></span>
      <span class="tail text">${note}</span>
    </button>
  `;
}

/** The agent's model, and the one that was asked in its place. */
function askedModel({ model, fallback }: AgentView): VNode {
  return html`<span class="model"><bdi>${model}</bdi>${
    fallback === undefined
      ? null
      : html`<span class="instead">${" → "}<span class="hidden">asked in its place: </span><bdi>${fallback.model}</bdi></span>`
  }</span>`;
}
