import { html } from "htm/preact";
import type { VNode } from "preact";
import { duration } from "../numbers.ts";
import { chartEndMs, type GanttRow, ganttRows } from "../../state/gantt.ts";
import type { RunView } from "../../state/run_view.ts";
import { timeFigures } from "../../state/time_figures.ts";

const LEGEND = [
  ["queue", "waits for a place"],
  ["warm", "prompt read ahead"],
  ["prefill", "prompt read"],
  ["decode", "writes"],
  ["second", "second attempt"],
] as const;

/** Names of bars that are not those of their kind. */
const NAMES: Readonly<Record<string, string>> = { second: "second attempt" };

/** Who did what when: one row for each agent, those that the run waited for marked. */
export function GanttChart({ run }: { readonly run: RunView }): VNode {
  const endMs = chartEndMs(run);
  const rows = ganttRows(run);
  const isHedged = rows.some(({ agent }) => agent.hedge !== undefined);
  const ahead = rows.reduce((sum, { agent }) => sum + agent.warms.length, 0);
  return html`
    <section aria-label=${`Times of ${run.id}`}>
      <h2>Times</h2>
      <p class="legend">${LEGEND.filter(([kind]) => kind !== "second" || isHedged).map(([kind, says]) =>
        html`<span><i class=${`bar ${kind}`}></i> ${says}</span>`
      )}
          <span><b>▸</b> the run waited for these, one after the other</span></p>
      <div class="gantt" role="list" aria-label=${`Times of ${rows.length} agents in ${duration(endMs)}`}>
          ${rows.map((row) => ganttRow(row, endMs))}
          <div class="axis" aria-hidden="true"><span>0</span><span>${duration(
            endMs / 2,
          )}</span><span>${duration(endMs)}</span></div>
        </div>
      <p
        class="hint">${ahead} parts of prompts were read ahead. Bars of those that were not waited
          for end where the run went on without them.</p>
      ${run.usage === undefined ? null : timesOf(run)}
    </section>
  `;
}

/** What overlap and exits did for the run's time, as far as its record tells. */
function timesOf(run: RunView): VNode | null {
  const { handOverMs, aheadMs, sparedMs } = timeFigures(run);
  const facts = [
    [
      "From answers to the next first token",
      handOverMs,
      "measured, summed over the agents that the run waited for one after the other",
    ],
    [
      "Prompts read ahead meanwhile",
      aheadMs,
      "measured, summed over the agents on that way, until what they read was written",
    ],
    [
      "Waiting spared by not waiting (estimate)",
      sparedMs,
      "had those who were cut off written the tokens that they are estimated to have lacked, at their own pace",
    ],
  ] as const;
  const known = facts.filter(([, ms]) => ms !== undefined);
  return known.length === 0 ? null : html`
    <dl class="facts">${known.map(([name, ms, meaning]) =>
      html`
        <div>
          <dt>${name}</dt>
          <dd>${duration(ms)} <small>${meaning}</small></dd>
        </div>
      `
    )}</dl>
  `;
}

function ganttRow({ agent, critical, segments }: GanttRow, endMs: number): VNode {
  const place = (ms: number) => `${((ms / endMs) * 100).toFixed(3)}%`;
  const says = segments.map(({ kind, fromMs, toMs }) =>
    `${NAMES[kind] ?? kind} ${duration(fromMs)} to ${duration(toMs)}`
  );
  return html`
    <div class=${`line ${critical ? "critical" : ""} ${agent.phase}`} role="listitem" key=${agent.id}>
      <span class="who"><b aria-hidden="true">${critical ? "▸" : ""}</b><bdi>${agent.id}</bdi>
          <small><bdi>${agent.model}</bdi></small></span>
      <span class="hidden">${critical ? "waited for; " : ""}${says.join(", ")}</span>
      <span class="track" aria-hidden="true">${segments.map(({ kind, fromMs, toMs }, at) =>
        html`
          <i key=${at} class=${`bar ${kind}`} title=${says[at]}
            style=${{ left: place(fromMs), width: place(Math.max(toMs - fromMs, endMs / 400)) }}></i>
        `
      )}</span>
    </div>
  `;
}
