import { type Colors, fit, oneLine, truncate, widthOf } from "../terminal.ts";
import { seconds } from "../units.ts";
import type { AgentState } from "../../../router/moa/record/run_record.ts";

/** An agent as a terminal shows it; times in ms since the run's start. */
export interface DrawnAgent {
  readonly id: string;
  readonly model: string;
  /** Ids of those whose answers it reads; empty where that is not known. */
  readonly reads: readonly string[];
  readonly state: AgentState;
  readonly text: string;
  readonly error: string | undefined;
  /** That it has written. */
  readonly tokens: number;
  readonly startedAtMs: number | undefined;
  readonly firstTokenAtMs: number | undefined;
  readonly endedAtMs: number | undefined;
}

/** A run as a terminal shows it; its last agent is the root. */
export interface DrawnRun {
  readonly graph: string;
  readonly agents: readonly DrawnAgent[];
  readonly durationMs: number | undefined;
  /** That all agents have written. */
  readonly tokens: number;
}

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
export function drawRun(run: DrawnRun, options: TreeViewOptions): string[] {
  const agents = new Map(run.agents.map((agent) => [agent.id, agent]));
  const rows = rowsOf(run.agents, agents);
  const nameWidth = Math.min(28, Math.max(...rows.map(({ branch, agent }) => widthOf(branch + agent.id))));
  const modelWidth = Math.min(12, Math.max(...rows.map(({ agent }) => widthOf(agent.model))));
  const columns = options.columns - nameWidth - modelWidth - 4;
  return [
    headline(run, options),
    ...rows.map(({ branch, agent }) => {
      const name = fit(branch + agent.id, nameWidth);
      const model = fit(agent.model, modelWidth);
      return `${name}  ${options.colors.cyan(model)}  ${agentCells(agent, agents, { ...options, columns })}`;
    }),
  ];
}

function headline(run: DrawnRun, options: TreeViewOptions): string {
  const states = run.agents.map((agent) => agent.state);
  const count = (...wanted: AgentState[]) => states.filter((state) => wanted.includes(state)).length;
  const parts = [
    `${run.graph} ${seconds(run.durationMs ?? options.nowMs, options.timeScale)}`,
    `${count("done")}/${run.agents.length} done`,
    `${count("queued")} prefill`,
    `${count("running")} decode`,
    `${count("waiting")} wait`,
    `${run.tokens.toLocaleString("en-US")} tokens`,
  ];
  return options.colors.bold(truncate(parts.join(" · "), options.columns));
}

function agentCells(
  agent: DrawnAgent,
  agents: ReadonlyMap<string, DrawnAgent>,
  options: TreeViewOptions,
): string {
  const { colors } = options;
  const state = fit(stateText(agent, agents), 11);
  const color = { waiting: colors.dim, queued: colors.yellow, running: colors.green, done: colors.blue }[
    agent.state === "failed" || agent.state === "cancelled" ? "done" : agent.state
  ];
  if (agent.state === "failed" || agent.state === "cancelled") {
    const why = agent.state === "failed" ? agent.error ?? "" : "";
    const room = options.columns - 11 - 2;
    return `${colors.red(state)}  ${room > 8 ? colors.red(truncate(oneLine(why), room)) : ""}`.trimEnd();
  }
  if (agent.state === "waiting") return color(state.trimEnd());
  const { tokens } = agent;
  const endMs = agent.endedAtMs ?? options.nowMs;
  const decodeMs = (endMs - (agent.firstTokenAtMs ?? endMs)) * options.timeScale;
  const speed = tokens > 1 && decodeMs > 0 ? `${Math.round((tokens - 1) / decodeMs * 1000)}/s` : "";
  const numbers = fit(tokens > 0 ? `${tokens} tok` : "", 8, "right") + fit(speed, 8, "right") +
    fit(seconds(endMs - (agent.startedAtMs ?? endMs), options.timeScale), 8, "right");
  const room = options.columns - 11 - 24 - 2;
  const text = room < 8 || agent.text === "" ? "" : `  ${colors.dim(lastWords(agent.text, room))}`;
  return `${color(state)}${numbers}${text}`;
}

function stateText({ state, reads }: DrawnAgent, agents: ReadonlyMap<string, DrawnAgent>): string {
  switch (state) {
    case "waiting": {
      const ended = reads.filter((id) => agents.get(id)?.endedAtMs !== undefined);
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
  readonly agent: DrawnAgent;
}

/** The root on top and its precursors below it, if every agent is read once; else the agents in order. */
function rowsOf(agents: readonly DrawnAgent[], byId: ReadonlyMap<string, DrawnAgent>): Row[] {
  const reads = agents.flatMap((agent) => agent.reads);
  const root = agents.at(-1);
  if (root === undefined) return [];
  const isTree = reads.length === new Set(reads).size && reads.length === agents.length - 1;
  if (!isTree) return agents.map((agent) => ({ branch: "", agent }));
  const rows: Row[] = [];
  const visit = (agent: DrawnAgent, branch: string, below: string) => {
    rows.push({ branch, agent });
    const children = agent.reads.flatMap((id) => byId.get(id) ?? []);
    for (const [index, child] of children.entries()) {
      const last = index === children.length - 1;
      visit(child, `${below}${last ? "└ " : "├ "}`, `${below}${last ? "  " : "│ "}`);
    }
  };
  visit(root, "", "");
  return rows;
}
