import { html } from "htm/preact";
import type { VNode } from "preact";
import { duration } from "./numbers.ts";
import { chartEndMs, type GanttRow, ganttRows } from "../state/gantt.ts";
import type { RunView } from "../state/run_view.ts";

const LEGEND = [
  ["queue", "waits for a place"],
  ["warm", "prompt read ahead"],
  ["prefill", "prompt read"],
  ["decode", "writes"],
] as const;

/** Who did what when: one row for each agent, those that the run waited for marked. */
export function GanttChart({ run }: { readonly run: RunView }): VNode {
  const endMs = chartEndMs(run);
  const rows = ganttRows(run);
  const ahead = rows.reduce((sum, { agent }) => sum + agent.warms.length, 0);
  return html`
    <section aria-label=${`Times of ${run.id}`}>
      <h2>Times</h2>
      <p class="legend">${LEGEND.map(([kind, says]) =>
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
    </section>
  `;
}

function ganttRow({ agent, critical, segments }: GanttRow, endMs: number): VNode {
  const place = (ms: number) => `${((ms / endMs) * 100).toFixed(3)}%`;
  const says = segments.map(({ kind, fromMs, toMs }) => `${kind} ${duration(fromMs)} to ${duration(toMs)}`);
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
