import { html } from "htm/preact";
import type { VNode } from "preact";
import { costText, wholeNumber } from "../numbers.ts";
import { type UsageRow, usageRows } from "../../state/run_usage_view.ts";

/** Tokens of a run by model and by agent, with their cost where models have prices. */
export function UsageTable({ usage }: { readonly usage: unknown }): VNode | null {
  const { models, agents } = usageRows(usage);
  if (agents.length === 0) return null;
  return html`
    <section aria-label="Tokens">
      <h2>Tokens</h2>
      ${table("Model", models)}
      <details>
        <summary>By agent</summary>
        ${table("Agent", agents)}
      </details>
    </section>
  `;
}

function table(title: string, rows: readonly UsageRow[]): VNode {
  const hasPrices = rows.some(({ cost }) => cost !== undefined);
  const label = `Tokens by ${title.toLowerCase()}`;
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${label}>
      <table>
        <thead>
          <tr>
            <th>${title}</th>
            <th class="n">Calls</th>
            <th class="n">Prompt</th>
            <th class="n">Cached</th>
            <th class="n">Read ahead</th>
            <th class="n">Written</th>
            <th class="n">Read by nobody</th>
            <th class="n">Spared (estimate)</th>
            ${hasPrices ? html`<th class="n">Cost</th>` : null}
          </tr>
        </thead>
        <tbody>${rows.map((row) =>
          html`
            <tr key=${row.name}>
              <td><bdi>${row.name}</bdi>${" "}<small><bdi>${row.model}</bdi></small></td>
              <td class="n">${wholeNumber(row.calls)}</td>
              <td class="n">${wholeNumber(row.promptTokens)}</td>
              <td class="n">${wholeNumber(row.cachedTokens)}</td>
              <td class="n">${wholeNumber(row.warmTokens)}</td>
              <td class="n">${wholeNumber(row.completionTokens)}</td>
              <td class="n">${wholeNumber(row.wastedTokens)}</td>
              <td class="n">${wholeNumber(row.savedTokens)}</td>
              ${hasPrices
                ? html`<td class="n">${row.cost === undefined ? "–" : costText(row.cost)}</td>`
                : null}
            </tr>
          `
        )}</tbody>
      </table>
    </div>
  `;
}
