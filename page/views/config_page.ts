import { html } from "htm/preact";
import type { VNode } from "preact";
import type { PageContext } from "./page_context.ts";
import { problem } from "./problem.ts";
import { usePolled } from "./use_polled.ts";
import { isJsonObject } from "../../base/json.ts";

const POLL_MS = 10_000;

/** The configuration in effect, as GET /v1/config gives it. */
export function ConfigPage({ page }: { readonly page: PageContext }): VNode {
  const { value, error } = usePolled((signal) => page.api.json("/v1/config", { signal }), {
    everyMs: POLL_MS,
    key: "config",
  });
  const parts = isJsonObject(value) ? Object.entries(value) : [];
  return html`
    <h1>Config</h1>
        <p
      class="hint">The configuration in effect, secrets hidden. Where each value comes from, the router does not
          know any more: <code>canopy check FILE --effective</code> says it.</p>
        ${problem(error, page)}
        ${parts.map(([name, part]) =>
          html`
            <details open=${name !== "prompts"}>
              <summary>${name}</summary>
              <pre tabindex="0" aria-label=${name}>${JSON.stringify(part, null, 2)}</pre>
            </details>
          `
        )}
  `;
}
