import { table } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";
import type { ShownRun } from "./shown_run.ts";

/** Two runs side by side: their sums, and a line per agent; in at most so many columns; `same` and `other` tell of texts, `not kept` of records without. */
export function compared(a: ShownRun, b: ShownRun, columns = Infinity): string[] {
  const ids = [...new Set([...a.agents, ...b.agents].map(({ id }) => id))];
  const rows = ids.map((id) => {
    const [left, right] = [agentOf(a, id), agentOf(b, id)];
    const known = left === undefined || right === undefined || (a.texts_kept && b.texts_kept);
    return [id, ...cells(left), ...cells(right), known ? wordOf(left?.text, right?.text) : "not kept"];
  });
  const right = "right" as const;
  const align = ["left", "left", right, right, "left", right, right, "left"] as const;
  return [
    `A ${sums(a)}`,
    `B ${sums(b)}`,
    "",
    ...table(["agent", "A", "tokens", "took", "B", "tokens", "took", "text"], rows, align, columns),
  ];
}

interface ComparedAgent {
  readonly state: string;
  readonly tokens: number;
  readonly tookMs: number | undefined;
  readonly text: string;
}

function agentOf(run: ShownRun, id: string): ComparedAgent | undefined {
  const agent = run.agents.find((one) => one.id === id);
  if (agent === undefined) return undefined;
  const { state, text, started_at_ms: start, ended_at_ms: end } = agent;
  const tokens = run.usage.agents.find((one) => one.agent === id)?.completion_tokens ?? 0;
  return { state, text, tokens, tookMs: start === undefined || end === undefined ? undefined : end - start };
}

function cells(agent: ComparedAgent | undefined): string[] {
  if (agent === undefined) return ["", "", ""];
  return [agent.state, String(agent.tokens), agent.tookMs === undefined ? "" : seconds(agent.tookMs)];
}

function wordOf(left: string | undefined, right: string | undefined): string {
  if (left === undefined) return "in B only";
  if (right === undefined) return "in A only";
  return left.trim() === right.trim() ? "same" : "other";
}

function sums({ id, graph, state, duration_ms: ms, usage }: ShownRun): string {
  const took = ms === undefined ? "" : `, ${seconds(ms)}`;
  return `${id}: ${graph}, ${state}${took}, ${usage.calls} calls, ${usage.prompt_tokens} tokens read, ` +
    `${usage.completion_tokens} written`;
}
