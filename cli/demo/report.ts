import type { DemoRun } from "./run.ts";
import { type Colors, table, truncate } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";

/** Both graphs' runs of one question. */
export interface DemoPair {
  readonly question: string;
  readonly dense: DemoRun;
  readonly tree: DemoRun;
}

/** Options of `reportLines`. */
export interface ReportOptions {
  readonly columns: number;
  readonly colors: Colors;
  /** Times are multiplied by this. */
  readonly timeScale: number;
}

/** The latency of mode #1 (dense) against #2 (tree), question by question, and what each run had to wait for. */
export function reportLines(pairs: readonly DemoPair[], options: ReportOptions): string[] {
  const { colors, timeScale } = options;
  const time = (ms: number) => seconds(ms, timeScale);
  const rows = pairs.map(({ dense, tree }, index) => [
    `question ${index + 1}`,
    time(dense.latencyMs),
    time(tree.latencyMs),
    ratio(dense.latencyMs, tree.latencyMs),
  ]);
  const sum = (of: (run: DemoRun) => number, of_: "dense" | "tree") =>
    pairs.reduce((total, pair) => total + of(pair[of_]), 0);
  const total = (name: string, of: (run: DemoRun) => number, show: (value: number) => string) => {
    const [dense, tree] = [sum(of, "dense"), sum(of, "tree")];
    return [name, show(dense), show(tree), ratio(dense, tree)];
  };
  const count = (value: number) => value.toLocaleString("en-US");
  const head = ["", "#1 dense 9-9-1", "#2 tree 9-3-1", "#1 / #2"];
  const lines = table(head, [
    ...rows,
    total("all: latency", (run) => run.latencyMs, time),
    total("all: until first text", (run) => run.firstTextMs, time),
    total("all: calls", (run) => run.record.usage.calls, count),
    total("all: tokens read", (run) => run.record.usage.promptTokens, count),
    total("all: tokens written", (run) => run.record.usage.completionTokens, count),
  ], ["left", "right", "right", "right"]);
  return [
    colors.bold("Latency, as the client saw it"),
    ...lines,
    "",
    colors.bold("Critical path: the agents that an answer waited for, one by one, in ms"),
    ...pathTable(pairs, options),
  ];
}

/** One line per run: the whole, then each agent on the path with its share. */
function pathTable(pairs: readonly DemoPair[], options: ReportOptions): string[] {
  const ms = (value: number) => Math.round(value * options.timeScale).toLocaleString("en-US");
  const row = (label: string, { criticalPath }: DemoRun) => [
    label,
    ms(criticalPath.reduce((sum, step) => sum + step.durationMs, 0)),
    ...criticalPath.map((step) => `${step.agent} ${step.model} ${ms(step.durationMs)}`),
  ];
  const rows = pairs.flatMap(({ dense, tree }, index) => [
    row(`${index + 1} #1`, dense),
    row(`${index + 1} #2`, tree),
  ]);
  const depth = Math.max(...rows.map((cells) => cells.length)) - 2;
  const head = ["", "sum", ...Array.from({ length: depth }, (_, index) => `agent ${index + 1}`)];
  return table(head, rows, ["left", "right"]).map((line) => truncate(line, options.columns));
}

function ratio(a: number, b: number): string {
  return b > 0 ? `${(a / b).toFixed(2)}×` : "";
}
