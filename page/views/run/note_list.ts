import { html } from "htm/preact";
import type { VNode } from "preact";
import { duration } from "../numbers.ts";
import type { RunView } from "../../state/run_view.ts";

/** What else has happened in a run: what was tried again, left off or cut, with the reason that the trace gives. */
export function NoteList({ run: { notes } }: { readonly run: RunView }): VNode | null {
  if (notes.length === 0) return null;
  return html`
    <section aria-label="Notes">
      <h2>Notes</h2>
      <div class="scroll" tabindex="0" role="region" aria-label="Notes of the trace">
        <table>
          <thead>
            <tr>
              <th class="n">At</th>
              <th>Event</th>
              <th>Agent</th>
              <th>Figures</th>
            </tr>
          </thead>
          <tbody>${notes.map(({ atMs, type, agent, data }, at) =>
            html`
              <tr key=${at}>
                <td class="n">${duration(atMs)}</td>
                <td>${type}</td>
                <td><bdi>${agent}</bdi></td>
                <td><span class="text">${data === undefined ? "" : JSON.stringify(data)}</span></td>
              </tr>
            `
          )}</tbody>
        </table>
      </div>
    </section>
  `;
}
