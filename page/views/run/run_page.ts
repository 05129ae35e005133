import { html } from "htm/preact";
import type { VNode } from "preact";
import { useEffect, useState } from "preact/hooks";
import { AgentDetail, TEXT_NOT_KEPT } from "./agent_detail.ts";
import { DecisionList } from "./decision_list.ts";
import { GanttChart } from "./gantt_chart.ts";
import type { PageContext } from "../page_context.ts";
import { NoteList } from "./note_list.ts";
import { problem } from "../problem.ts";
import { RunFacts } from "./run_facts.ts";
import { RunTree } from "./run_tree.ts";
import { UsageTable } from "./usage_table.ts";
import { followRun } from "../../client/follow_run.ts";
import type { RunView } from "../../state/run_view.ts";

/** What the view of one run needs. */
interface RunPageOptions {
  readonly page: PageContext;
  readonly id: string;
}

/** One run: its tree, its times, its decisions. */
export function RunPage({ page, id }: RunPageOptions): VNode {
  const { run, error } = useRun(page, id);
  const [selected, setSelected] = useState("");
  const [refused, setRefused] = useState<Error>();
  const onCancel = () => {
    page.api.json(`/v1/runs/${encodeURIComponent(id)}`, { method: "DELETE" }).catch(setRefused);
  };
  return html`<h1>Run</h1>
    ${problem(error ?? refused, page)}
    ${
    run === undefined ? null : html`<${RunFacts} run=${run} />
      ${
      run.state === "running"
        ? html`<button type="button" onClick=${onCancel}>Cancel this run</button>`
        : null
    }
      <${RunTree} agents=${run.agents} selected=${selected} onSelect=${setSelected} />
      <${AgentDetail} run=${run} agent=${selected} />
      <${GanttChart} run=${run} />
      <${UsageTable} usage=${run.usage} />
      <${DecisionList} run=${run} />
      <${NoteList} run=${run} />`
  }`;
}

/** Two runs side by side. */
export function ComparePage(
  { page, ids }: { readonly page: PageContext; readonly ids: readonly string[] },
): VNode {
  return html`
    <h1>Two runs</h1>
    <div class="pair">${ids.map((id) => html`<${ComparedRun} key=${id} page=${page} id=${id} />`)}</div>
  `;
}

function ComparedRun({ page, id }: RunPageOptions): VNode {
  const { run, error } = useRun(page, id);
  const [selected, setSelected] = useState("");
  const read = new Set(run?.agents.flatMap(({ reads }) => reads));
  const answers = run?.agents.filter((agent) => !read.has(agent.id)) ?? [];
  return html`<div>
    ${problem(error, page)}
    ${
    run === undefined ? null : html`<${RunFacts} run=${run} link />
      ${
      answers.map(({ id: agent, text }) =>
        html`<pre class="text" tabindex="0" aria-label=${`Answer of ${agent}`}>${
          text || (run.textsKept ? "–" : TEXT_NOT_KEPT)
        }</pre>`
      )
    }
      <${GanttChart} run=${run} />
      <${RunTree} agents=${run.agents} selected=${selected} onSelect=${setSelected} />
      <${AgentDetail} run=${run} agent=${selected} />`
  }
  </div>`;
}

function useRun({ api }: PageContext, id: string): { run: RunView | undefined; error: Error | undefined } {
  const [run, setRun] = useState<RunView>();
  const [error, setError] = useState<Error>();
  useEffect(() => {
    const gone = new AbortController();
    const show = (next: RunView) => gone.signal.aborted || setRun(next);
    followRun(api, id, { signal: gone.signal, show }).catch((reason) =>
      gone.signal.aborted || setError(reason)
    );
    return () => gone.abort();
  }, [id]);
  return { run, error };
}
