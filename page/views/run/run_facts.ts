import { html } from "htm/preact";
import type { VNode } from "preact";
import { clockTime, costText, duration, percent, wholeNumber } from "../numbers.ts";
import { hashOf } from "../../state/address.ts";
import { listField, numberAt, textField } from "../../state/json_fields.ts";
import type { RunView } from "../../state/run_view.ts";

/** A run in a few figures, all of them from its record; `link`: with the way to its own view. */
export function RunFacts(
  { run, link }: { readonly run: RunView; readonly link?: boolean | undefined },
): VNode {
  const { usage, agents } = run;
  const share = numberAt(usage, "spliced_cached_share");
  const cost = numberAt(usage, "cost");
  const skipped = agents.filter(({ phase }) => phase === "cancelled").length;
  const facts: readonly (readonly [string, string])[] = [
    ["State", run.state],
    ["Started", clockTime(run.created)],
    ["Duration", duration(run.durationMs ?? run.lastMs)],
    ["Agents", wholeNumber(agents.length)],
    ["Calls", wholeNumber(numberAt(usage, "calls"))],
    ["Prompt tokens", wholeNumber(numberAt(usage, "prompt_tokens"))],
    ["Written", wholeNumber(numberAt(usage, "completion_tokens"))],
    ["Read by nobody", wholeNumber(numberAt(usage, "wasted_tokens"))],
    ["Cached", wholeNumber(numberAt(usage, "cached_tokens"))],
    ["Read ahead", wholeNumber(numberAt(usage, "warm_tokens"))],
    ["Of answers found in the cache", share === undefined ? "–" : percent(share)],
    ...(cost === undefined ? [] : [["Cost", costText(cost)] as const]),
    ["Not waited for", wholeNumber(skipped)],
    ["Spared by that (estimate)", `${wholeNumber(numberAt(usage, "saved_tokens_estimate"))} tokens`],
  ];
  const failed = listField(usage, "degraded", "failed");
  return html`<section aria-label=${`Run ${run.id}`}>
    <h2>${run.graph} <small><bdi>${
    link === true ? html`<a href=${hashOf({ view: "run", id: run.id })}>${run.id}</a>` : run.id
  }</bdi></small></h2>
    ${run.error === "" ? null : html`<p class="reason failed"><span class="text">${run.error}</span></p>`}
    ${
    failed.map((one) =>
      html`<p class="reason failed"><b>${textField(one, "agent")}</b> failed: <span class="text">${
        textField(one, "reason")
      }</span></p>`
    )
  }
    ${
    run.textsKept
      ? null
      : html`<p class="hint">This run was recorded without prompts, answers and the final answers that
      decisions have compared. With <code>server.records.texts: true</code> those of later runs are recorded.</p>`
  }
    <dl class="facts">${
    facts.map(([name, value]) =>
      html`
        <div>
          <dt>${name}</dt>
          <dd>${value}</dd>
        </div>
      `
    )
  }</dl>
  </section>`;
}
