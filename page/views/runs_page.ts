import { html } from "htm/preact";
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { clockTime, duration, wholeNumber } from "./numbers.ts";
import type { PageContext } from "./page_context.ts";
import { problem, valueOf } from "./problem.ts";
import { usePolled } from "./use_polled.ts";
import { hashOf } from "../state/address.ts";
import { filteredRuns, type ListedRun, listedRuns, RUN_FILTERS, type RunFilter } from "../state/run_list.ts";

const POLL_MS = 2_000;
const PATH = "/v1/runs?limit=1000";

/** The runs that the router knows, to be searched, filtered, opened and compared. */
export function RunsPage({ page }: { readonly page: PageContext }): VNode {
  const [filter, setFilter] = useState<RunFilter>("all");
  const [search, setSearch] = useState("");
  const [marked, setMarked] = useState<readonly string[]>([]);
  const { value, error } = usePolled((signal) => page.api.json(PATH, { signal }), {
    everyMs: POLL_MS,
    key: PATH,
  });
  const all = listedRuns(value);
  const runs = filteredRuns(all, { filter, search });
  const onMark = (id: string) =>
    setMarked(marked.includes(id) ? marked.filter((one) => one !== id) : [...marked.slice(-1), id]);
  const [first, second] = marked;
  return html`
    <h1>Runs</h1>
        ${problem(error, page)}
        <div class="row">
          <label>Search <input type="search" value=${search} onInput=${(event: Event) =>
            setSearch(valueOf(event))} /></label>
          <span role="group" aria-label="Filter" class="row">${RUN_FILTERS.map((one) =>
            html`<button type="button" aria-pressed=${one === filter} onClick=${() =>
              setFilter(one)}>${one}</button>`
          )}</span>
          ${first !== undefined && second !== undefined
            ? html`<a href=${hashOf({ view: "compare", ids: [first, second] })}>Compare the two</a>`
            : html`<span class="hint">Mark two to compare them.</span>`}
        </div>
        <p class="hint" role="status">${value === undefined
          ? "…"
          : `${runs.length} of ${all.length} runs`}</p>
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
            <th>Run</th>
          </tr>
        </thead>
        <tbody>${runs.map((run) => runRow(run, marked.includes(run.id), onMark))}</tbody>
      </table>
    </div>
  `;
}

function runRow(run: ListedRun, isMarked: boolean, onMark: (id: string) => void): VNode {
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
      <td><a href=${hashOf({ view: "run", id: run.id })}><bdi>${run.id}</bdi></a></td>
    </tr>
  `;
}
