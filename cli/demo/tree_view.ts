import { type Colors, fit, oneLine, truncate, widthOf } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";
import type { AgentNode, Graph } from "../../router/moa/graph/graph_types.ts";
import type { AgentRecord, AgentState, RunRecord } from "../../router/moa/record/run_record.ts";

/** Options of `drawRun`. */
export interface TreeViewOptions {
  readonly columns: number;
  readonly colors: Colors;
  /** Ms since the run's start, as in the record. */
  readonly nowMs: number;
  /** Times are shown multiplied by this; above 1 for simulated engines that run faster than real ones. */
  readonly timeScale: number;
}

/** A line for each agent: branches, name, model, state, tokens, tokens per second, time, the end of its text. */
export function drawRun(graph: Graph, record: RunRecord, options: TreeViewOptions): string[] {
  const records = new Map(record.agents.map((agent) => [agent.id, agent]));
  const rows = rowsOf(graph);
  const nameWidth = Math.min(28, Math.max(...rows.map(({ branch, node }) => widthOf(branch + node.id))));
  const modelWidth = Math.min(12, Math.max(...rows.map(({ node }) => widthOf(node.model))));
  return [
    headline(graph, record, options),
    ...rows.map(({ branch, node }) => {
      const agent = records.get(node.id);
      const name = fit(branch + node.id, nameWidth);
      const model = fit(node.model, modelWidth);
      return agent === undefined
        ? `${name}  ${model}`
        : `${name}  ${options.colors.cyan(model)}  ${
          agentCells(node, agent, records, {
            ...options,
            columns: options.columns - nameWidth - modelWidth - 4,
          })
        }`;
    }),
  ];
}

function headline(graph: Graph, record: RunRecord, options: TreeViewOptions): string {
  const states = record.agents.map((agent) => agent.state);
  const count = (...wanted: AgentState[]) => states.filter((state) => wanted.includes(state)).length;
  const parts = [
    `${graph.name} ${seconds(record.durationMs ?? options.nowMs, options.timeScale)}`,
    `${count("done")}/${record.agents.length} done`,
    `${count("queued")} prefill`,
    `${count("running")} decode`,
    `${count("waiting")} wait`,
    `${record.usage.completionTokens.toLocaleString("en-US")} tokens`,
  ];
  return options.colors.bold(truncate(parts.join(" · "), options.columns));
}

function agentCells(
  node: AgentNode,
  agent: AgentRecord,
  records: ReadonlyMap<string, AgentRecord>,
  options: TreeViewOptions,
): string {
  const { colors } = options;
  const state = fit(stateText(node, agent, records), 11);
  const color = { waiting: colors.dim, queued: colors.yellow, running: colors.green, done: colors.blue }[
    agent.state === "failed" || agent.state === "cancelled" ? "done" : agent.state
  ];
  if (agent.state === "failed" || agent.state === "cancelled") {
    const why = agent.state === "failed" ? agent.error ?? "" : "";
    const room = options.columns - 11 - 2;
    return `${colors.red(state)}  ${room > 8 ? colors.red(truncate(oneLine(why), room)) : ""}`.trimEnd();
  }
  if (agent.state === "waiting") return color(state.trimEnd());
  const tokens = agent.usage?.completionTokens ?? 0;
  const endMs = agent.endedAtMs ?? options.nowMs;
  const decodeMs = (endMs - (agent.firstTokenAtMs ?? endMs)) * options.timeScale;
  const speed = tokens > 1 && decodeMs > 0 ? `${Math.round((tokens - 1) / decodeMs * 1000)}/s` : "";
  const numbers = fit(tokens > 0 ? `${tokens} tok` : "", 8, "right") + fit(speed, 8, "right") +
    fit(seconds(endMs - (agent.startedAtMs ?? endMs), options.timeScale), 8, "right");
  const room = options.columns - 11 - 24 - 2;
  const text = room < 8 || agent.text === "" ? "" : `  ${colors.dim(lastWords(agent.text, room))}`;
  return `${color(state)}${numbers}${text}`;
}

function stateText(node: AgentNode, agent: AgentRecord, records: ReadonlyMap<string, AgentRecord>): string {
  switch (agent.state) {
    case "waiting": {
      const reads = node.reads.flatMap((cluster) => cluster.agents);
      const ended = reads.filter((read) => records.get(read.id)?.endedAtMs !== undefined);
      return reads.length === 0 ? "○ waits" : `○ waits ${ended.length}/${reads.length}`;
    }
    case "queued":
      return "◔ prefills";
    case "running":
      return "◑ decodes";
    case "done":
      return "● done";
    case "failed":
      return "✗ failed";
    case "cancelled":
      return "✗ cut off";
  }
}

/** The end of a text on one line. */
function lastWords(text: string, columns: number): string {
  // No more is looked at than could be shown.
  const end = text.length > 4 * columns ? `…${text.slice(-4 * columns)}` : text;
  return truncate(oneLine(end), columns, "start");
}

interface Row {
  readonly branch: string;
  readonly node: AgentNode;
}

/** The root on top and its precursors below it, if every agent is read once; else the agents in order. */
function rowsOf(graph: Graph): Row[] {
  const reads = graph.agents.flatMap((agent) => agent.reads.flatMap((cluster) => cluster.agents));
  if (reads.length !== new Set(reads).size) return graph.agents.map((node) => ({ branch: "", node }));
  const rows: Row[] = [];
  const visit = (node: AgentNode, branch: string, below: string) => {
    rows.push({ branch, node });
    const children = node.reads.flatMap((cluster) => cluster.agents);
    for (const [index, child] of children.entries()) {
      const last = index === children.length - 1;
      visit(child, `${below}${last ? "└ " : "├ "}`, `${below}${last ? "  " : "│ "}`);
    }
  };
  visit(graph.root, "", "");
  return rows;
}
