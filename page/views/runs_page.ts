import { html } from "htm/preact";
import type { VNode } from "preact";
import { useRef, useState } from "preact/hooks";
import { clockTime, costText, duration, wholeNumber } from "./numbers.ts";
import type { PageContext } from "./page_context.ts";
import { problem, valueOf } from "./problem.ts";
import { usePolled } from "./use_polled.ts";
import { type LoadedRuns, useRunPages } from "./use_run_pages.ts";
import type { Api } from "../client/api.ts";
import { hashOf, type RunChoice } from "../state/address.ts";
import { listField, textField } from "../state/json_fields.ts";
import { filteredRuns, type ListedRun, RUN_FILTERS, stateOfFilter } from "../state/run_list.ts";

const MODELS_POLL_MS = 30_000;

/** The runs that the router knows, to be searched, filtered, opened and compared. */
export function RunsPage({ page, chosen, choose }: {
  readonly page: PageContext;
  readonly chosen: RunChoice;
  readonly choose: (chosen: RunChoice) => void;
}): VNode {
  const { filter = "all", model: graph = "", search = "" } = chosen;
  const change = (one: RunChoice) => choose({ filter, model: graph, search, ...one });
  const [marked, setMarked] = useState<readonly string[]>([]);
  const loaded = useRunPages(page.api, { state: stateOfFilter(filter), graph });
  const all = loaded.pages?.runs ?? [];
  const graphs = useGraphNames(page.api, [graph, ...all.map((run) => run.graph)]);
  const runs = filteredRuns(all, { filter, search });
  const onMark = (id: string) =>
    setMarked(marked.includes(id) ? marked.filter((one) => one !== id) : [...marked.slice(-1), id]);
  const [first, second] = marked;
  return html`
    <h1>Runs</h1>
        ${problem(loaded.error, page)}
        <div class="row">
          <label>Search <input type="search" value=${search} onInput=${(event: Event) =>
            change({ search: valueOf(event) })} /></label>
          <label>Model <select id="graph" value=${graph} onChange=${(event: Event) =>
            change({ model: valueOf(event) })}><option value="">all</option>${graphs.map((name) =>
              html`<option value=${name}>${name}</option>`
            )}</select></label>
          <span role="group" aria-label="Filter" class="row">${RUN_FILTERS.map((one) =>
            html`<button type="button" aria-pressed=${one === filter} onClick=${() =>
              change({ filter: one })}>${one}</button>`
          )}</span>
          ${first !== undefined && second !== undefined
            ? html`<a href=${hashOf({ view: "compare", ids: [first, second] })}>Compare the two</a>`
            : html`<span class="hint">Mark two to compare them.</span>`}
        </div>
        <p class="hint" role="status">${loaded.pages === undefined
          ? "…"
          : `${runs.length} of ${all.length} runs${loaded.pages.hasMore ? "; there are older ones" : ""}`}</p>
        ${runTable(runs, marked, onMark)} ${olderButton(loaded)}
  `;
}

function runTable(
  runs: readonly ListedRun[],
  marked: readonly string[],
  onMark: (id: string) => void,
): VNode {
  const hasPrices = runs.some(({ cost }) => cost !== undefined);
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label="Runs">
      <table>
        <thead>
          <tr>
            <th><span class="hidden">Compare</span></th>
            <th>Started</th>
            <th>Model</th>
            <th>State</th>
            <th class="n">Duration</th>
            <th class="n">Calls</th>
            <th class="n">Prompt</th>
            <th class="n">Cached</th>
            <th class="n">Written</th>
            <th class="n">Exits</th>
            ${hasPrices ? html`<th class="n">Cost</th>` : null}
            <th>Run</th>
          </tr>
        </thead>
        <tbody>${runs.map((run) =>
          runRow(run, { isMarked: marked.includes(run.id), onMark, hasPrices })
        )}</tbody>
      </table>
    </div>
  `;
}

function olderButton({ pages, busy, loadOlder }: LoadedRuns): VNode | null {
  if (pages?.hasMore !== true) return null;
  return html`<p><button type="button" disabled=${busy} onClick=${loadOlder}>Load older runs</button>
    <span class="hint">The search, degraded and exited look at those that are loaded.</span></p>`;
}

/** Names of virtual models: those that are served, and known ones of before. */
function useGraphNames(api: Api, known: readonly string[]): readonly string[] {
  const models = usePolled((signal) => api.json("/v1/models", { signal }), {
    everyMs: MODELS_POLL_MS,
    key: "models",
  });
  const seen = useRef(new Set<string>());
  for (const name of known) seen.current.add(name);
  const served = listField(models.value, "data").filter((one) => textField(one, "owned_by") === "canopy")
    .map((one) => textField(one, "id"));
  return [...new Set([...served, ...seen.current])].filter((name) => name !== "");
}

function runRow(
  run: ListedRun,
  { isMarked, onMark, hasPrices }: {
    readonly isMarked: boolean;
    readonly onMark: (id: string) => void;
    readonly hasPrices: boolean;
  },
): VNode {
  const good = run.state === "done" && run.failedAgents === 0;
  const look = good ? "good" : run.state === "failed" ? "bad" : "warn";
  return html`
    <tr key=${run.id}>
      <td><input type="checkbox" aria-label=${`Compare ${run.id}`} checked=${isMarked} onChange=${() =>
        onMark(run.id)} /></td>
      <td>${clockTime(run.created)}</td>
      <td>${run.graph}</td>
      <td><span class=${`mark ${look}`}>${run.state}${run.failedAgents > 0
        ? `, ${run.failedAgents} failed`
        : ""}</span>
          ${run.error === "" ? null : html`<br /><small class="text">${run.error}</small>`}</td>
      <td class="n">${duration(run.durationMs)}</td>
      <td class="n">${wholeNumber(run.calls)}</td>
      <td class="n">${wholeNumber(run.promptTokens)}</td>
      <td class="n">${wholeNumber(run.cachedTokens)}</td>
      <td class="n">${wholeNumber(run.completionTokens)}</td>
      <td class="n">${wholeNumber(run.earlyExits)}</td>
      ${hasPrices ? html`<td class="n">${run.cost === undefined ? "–" : costText(run.cost)}</td>` : null}
      <td><a href=${hashOf({ view: "run", id: run.id })}><bdi>${run.id}</bdi></a></td>
    </tr>
  `;
}
