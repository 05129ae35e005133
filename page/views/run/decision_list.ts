import { html } from "htm/preact";
import type { VNode } from "preact";
import { duration, figure } from "../numbers.ts";
import { arrivedBy, type DecisionTable, decisionTable, type PairFigure } from "../../state/decision_table.ts";
import { layersOf } from "../../state/layers.ts";
import type { DecisionView, RunView } from "../../state/run_view.ts";

/** All decisions of a run on whom to wait for, with the figures that they rest on. */
export function DecisionList({ run }: { readonly run: RunView }): VNode {
  const { decisions, agents } = run;
  const clusters = new Map(
    layersOf(agents).flat().map(({ id, agents: members }) => [id, members.map((agent) => agent.id)] as const),
  );
  return html`<section aria-label="Decisions">
    <h2>Decisions</h2>
    ${
    decisions.length === 0
      ? html`<p class="hint">Nobody was asked whether to wait: this graph has no early exit,
      or no cluster had two answers before its last one.</p>`
      : null
  }
    ${
    decisions.map((decision, at) => {
      const members = clusters.get(decision.cluster ?? "") ?? agents.map(({ id }) => id);
      const table = decisionTable(decision, arrivedBy(agents, members, decision.atMs));
      return html`<details key=${at} open=${decision.exit}>${summary(decision)}${
        tables(table, run)
      }</details>`;
    })
  }
  </section>`;
}

function summary({ atMs, cluster, exit }: DecisionView): VNode {
  return html`<summary>${duration(atMs)} <bdi>${cluster ?? "the whole run"}</bdi>
    <span class=${`mark ${exit ? "good" : ""}`}>${exit ? "goes on" : "waits"}</span></summary>`;
}

function tables(
  { members, similarities, verdicts, groups, figures }: DecisionTable,
  { textsKept }: RunView,
): VNode {
  return html`<div class="figures">
    ${
    members.length === 0 ? null : html`
      <table>
        <thead>
          <tr>
            <th>Agent</th>
            <th>Answer</th>
            <th class="n">Confidence</th>
          </tr>
        </thead>
        <tbody>${members.map(({ agent, answer, confidence }) =>
          html`
            <tr>
              <td><bdi>${agent}</bdi></td>
              <td><span class="text">${answer || (textsKept ? "–" : "not kept")}</span></td>
              <td class="n">${confidence === undefined ? "–" : figure(confidence)}</td>
            </tr>
          `
        )}</tbody>
      </table>
    `
  }
    ${matrix("Similarity", similarities)} ${matrix("Judged to agree", verdicts)}
    ${
    groups.length === 0 ? null : html`
      <table>
        <thead>
          <tr>
            <th class="n">Votes</th>
            <th>Same answer</th>
          </tr>
        </thead>
        <tbody>${groups.map((group) =>
          html`
            <tr>
              <td class="n">${group.length}</td>
              <td><bdi>${group.join(", ")}</bdi></td>
            </tr>
          `
        )}
            </tbody>
      </table>
    `
  }
    <dl class="facts">${
    figures.map(([name, value]) =>
      html`
        <div>
          <dt>${name}</dt>
          <dd><bdi>${typeof value === "number" ? figure(value) : String(value)}</bdi></dd>
        </div>
      `
    )
  }</dl>
  </div>`;
}

/** Pairs as a matrix; the darker, the nearer to 1. */
function matrix(title: string, pairs: readonly PairFigure[]): VNode | null {
  if (pairs.length === 0) return null;
  const names = [...new Set(pairs.flatMap(({ of }) => of))];
  const valueOfPair = (a: string, b: string) =>
    pairs.find(({ of }) => of.includes(a) && of.includes(b) && a !== b)?.value;
  return html`
    <table class="matrix">
      <thead>
        <tr><th scope="col">${title}</th>
        ${names.map((name) => html`<th scope="col"><bdi>${name}</bdi></th>`)}</tr>
      </thead>
      <tbody>${names.map((row) =>
        html`<tr><th scope="row"><bdi>${row}</bdi></th>${
          names.map((column) => {
            const value = valueOfPair(row, column);
            return html`<td class="n">${value === undefined ? "" : figure(value)}</td>`;
          })
        }</tr>`
      )}</tbody>
    </table>
  `;
}
