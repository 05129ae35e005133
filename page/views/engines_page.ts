import { html } from "htm/preact";
import type { VNode } from "preact";
import { costText, percent, wholeNumber } from "./numbers.ts";
import type { PageContext } from "./page_context.ts";
import { problem } from "./problem.ts";
import { usePolled } from "./use_polled.ts";
import { readMetrics } from "../state/metrics_text.ts";
import { modelTokens, type WorkerGroup, workerGroups, type WorkerView } from "../state/worker_view.ts";

const POLL_MS = 2_000;

/** All workers and how they are, and what each model has done. */
export function EnginesPage({ page }: { readonly page: PageContext }): VNode {
  const { api } = page;
  const workers = usePolled((signal) => api.json("/workers", { signal }), {
    everyMs: POLL_MS,
    key: "workers",
  });
  const metrics = usePolled(
    async (signal) => readMetrics(await (await api.ask("/metrics", { signal })).text()),
    { everyMs: POLL_MS, key: "metrics" },
  );
  const models = modelTokens(metrics.value ?? []);
  const hasPrices = models.some(({ cost }) => cost !== undefined);
  return html`
    <h1>Engines</h1>
        ${problem(workers.error, page)}
        <div class="scroll" tabindex="0" role="region" aria-label="Workers">
      <table>
        <thead>
          <tr>
            <th>Model</th>
            <th>Engine</th>
            <th>Worker</th>
            <th>Half</th>
            <th>Health</th>
            <th>Breaker</th>
            <th class="n">In flight</th>
            <th class="n">Served</th>
            <th class="n">Failed</th>
          </tr>
        </thead>
        ${workerGroups(workers.value).map(groupRows)}
      </table>
    </div>
        <h2>Work of runs, by model</h2>
        ${metrics.error?.message === workers.error?.message ? null : problem(metrics.error, page)}
        <div class="scroll" tabindex="0" role="region" aria-label="Work of runs, by model">
      <table>
        <thead>
          <tr>
            <th>Model</th>
            <th class="n">Calls</th>
            <th class="n">Prompt tokens</th>
            <th class="n">Found in a cache</th>
            <th class="n">Read ahead</th>
            <th class="n">Written</th>
            ${hasPrices ? html`<th class="n">Cost</th>` : null}
          </tr>
        </thead>
        <tbody>${models.map((one) =>
          html`
            <tr>
              <td>${one.model}</td>
              <td class="n">${wholeNumber(one.calls)}</td>
              <td class="n">${wholeNumber(one.promptTokens)}</td>
              <td class="n">${wholeNumber(one.cachedTokens)}
                          ${one.promptTokens > 0
                            ? ` (${percent(one.cachedTokens / one.promptTokens)})`
                            : ""}</td>
              <td class="n">${wholeNumber(one.warmTokens)}</td>
              <td class="n">${wholeNumber(one.completionTokens)}</td>
              ${hasPrices
                ? html`<td class="n">${one.cost === undefined ? "–" : costText(one.cost)}</td>`
                : null}
            </tr>
          `
        )}</tbody>
      </table>
    </div>
  `;
}

/** One worker, or both halves of pairs as one row with a line for each server. */
function groupRows({ model, engine, pairing, workers }: WorkerGroup): VNode {
  const head = html`
    <th scope="rowgroup" rowspan=${workers.length} class="of">${model}${pairing === ""
      ? null
      : html`<br /><small>${pairing}</small>`}</th>
    <td rowspan=${workers.length}>${engine}</td>
  `;
  return html`
    <tbody key=${`${model} ${workers.map(({ id, url }) => `${id} ${url}`)}`}>
      ${workers.map((worker, at) => workerRow(worker, at === 0 ? head : null))}
    </tbody>
  `;
}

function workerRow(worker: WorkerView, head: VNode | null): VNode {
  const { id, url, lastError, health } = worker;
  return html`
    <tr key=${`${id} ${url}`}>
      ${head}
      <td><bdi>${id}</bdi>${url === id ? null : html`<br /><small><bdi>${url}</bdi></small>`}</td>
      <td>${worker.role}</td>
      <td><span class=${`mark ${health === "healthy" ? "good" : "bad"}`}>${health}</span>
          ${lastError === "" ? null : html`<br /><small class="text">${lastError}</small>`}</td>
      <td><span class=${`mark ${worker.breaker === "closed" ? "good" : "bad"}`}>${worker.breaker}</span></td>
      <td class="n">${wholeNumber(worker.inFlight)}</td>
      <td class="n">${wholeNumber(worker.served)}</td>
      <td class="n">${wholeNumber(worker.failures)}</td>
    </tr>
  `;
}
