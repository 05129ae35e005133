import { html } from "htm/preact";
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import type { PageContext } from "./page_context.ts";
import { problem } from "./problem.ts";
import { usePolled } from "./use_polled.ts";
import { chosenValues, configSections, type ConfigValue, configValues } from "../state/config_values.ts";

const POLL_MS = 10_000;

/** The configuration in effect, each value with where it comes from. */
export function ConfigPage({ page }: { readonly page: PageContext }): VNode {
  const [showsDefaults, setShowsDefaults] = useState(false);
  const { value, error } = usePolled((signal) => page.api.json("/v1/config?origins=true", { signal }), {
    everyMs: POLL_MS,
    key: "config",
  });
  const all = configValues(value);
  const shown = showsDefaults ? all : chosenValues(all);
  return html`
    <h1>Config</h1>
        <p class="hint">The configuration in effect, secrets hidden, and where each value comes from.</p>
        ${problem(error, page)}
        <p class="row">
      <button type="button" aria-pressed=${showsDefaults} onClick=${() =>
        setShowsDefaults(!showsDefaults)}>Defaults, too</button>
      <span class="hint" role="status">${value === undefined
        ? "…"
        : `${shown.length} of ${all.length} values`}</span>
    </p>
        ${configSections(shown).map(([name, values]) =>
          html`
            <details key=${name} open=${name !== "prompts"}>
              <summary>${name} <span class="hint">${values.length}</span></summary>
              ${valueTable(name, values)}
            </details>
          `
        )}
  `;
}

function valueTable(section: string, values: readonly ConfigValue[]): VNode {
  return html`
    <div class="scroll" tabindex="0" role="region" aria-label=${section}>
      <table class="values">
        <thead>
          <tr>
            <th>Setting</th>
            <th>Value</th>
            <th>From</th>
          </tr>
        </thead>
        <tbody>${values.map(({ path, value, origin }) =>
          html`
            <tr key=${path}>
              <td><code>${path}</code></td>
              <td><code>${value}</code></td>
              <td class=${origin === "default" ? "hint" : undefined}>${origin}</td>
            </tr>
          `
        )}</tbody>
      </table>
    </div>
  `;
}
