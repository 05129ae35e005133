import { html } from "htm/preact";
import type { VNode } from "preact";
import { useState } from "preact/hooks";
import { clockTime, wholeNumber } from "./numbers.ts";
import type { PageContext } from "./page_context.ts";
import { problem } from "./problem.ts";
import { usePolled } from "./use_polled.ts";
import type { Api } from "../client/api.ts";
import { textField } from "../state/json_fields.ts";
import { pathOfReport, reportEntries, type ReportEntry } from "../state/report_list.ts";

const POLL_MS = 10_000;
/** Some browsers read what is saved only after the click that saves it. */
const SAVED_MS = 60_000;

/** The bench reports in the router's folder of reports. */
export function ReportsPage({ page }: { readonly page: PageContext }): VNode {
  const { api } = page;
  const [failure, setFailure] = useState<Error | undefined>(undefined);
  const { value, error } = usePolled((signal) => api.json("/v1/reports", { signal }), {
    everyMs: POLL_MS,
    key: "reports",
  });
  const reports = reportEntries(value);
  const folder = textField(value, "folder");
  const save = (name: string) => {
    setFailure(undefined);
    saveReport(api, name).catch((cause) =>
      setFailure(cause instanceof Error ? cause : new Error(String(cause)))
    );
  };
  return html`
    <h1>Reports</h1>
        ${problem(failure ?? error, page)}
        ${value === undefined
          ? null
          : html`<p class="hint" role="status">${
            folder === ""
              ? html`No folder of reports: <code>canopy serve --reports DIR</code> lists those that${" "}
                <code>canopy bench eval … --html FILE</code> has written there.`
              : `${reports.length} ${reports.length === 1 ? "report" : "reports"} in ${folder}`
          }</p>`}
        ${reports.length === 0 ? null : html`
          <div class="scroll" tabindex="0" role="region" aria-label="Reports">
            <table>
              <thead>
                <tr>
                  <th>Report</th>
                  <th>File</th>
                  <th>Written</th>
                  <th class="n">Bytes</th>
                </tr>
              </thead>
              <tbody>${reports.map((one) => reportRow(one, api.hasKey ? save : undefined))}</tbody>
            </table>
          </div>
        `}
  `;
}

/** A link cannot send a key: with one the report is saved instead. */
function reportRow(
  { name, title, bytes, modified }: ReportEntry,
  save: ((name: string) => void) | undefined,
): VNode {
  return html`
    <tr key=${name}>
      <td>${title}</td>
      <td>${save === undefined
        ? html`<a href=${pathOfReport(name)} target="_blank" rel="noopener"><bdi>${name}</bdi></a>`
        : html`<button type="button" onClick=${() => save(name)}>Save <bdi>${name}</bdi></button>`}</td>
      <td>${clockTime(modified)}</td>
      <td class="n">${wholeNumber(bytes)}</td>
    </tr>
  `;
}

async function saveReport(api: Api, name: string): Promise<void> {
  const url = URL.createObjectURL(await (await api.ask(pathOfReport(name))).blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
}
