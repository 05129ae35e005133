import { type Colors, fit, oneLine, truncate, widthOf } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";
import type { ShownRun } from "./shown_run.ts";

/** Columns of the bars at least and at most. */
const MIN_BAR = 16;
const MAX_BAR = 64;
/** Reasons of a fallback, in words. */
const REASONS = new Map([
  ["no_worker", "no worker of its own model could take it"],
  ["full", "all workers of its own model were full"],
  ["failed", "all attempts on its own model failed"],
]);
/** Columns of tokens, speed and time behind a bar. */
const NUMBERS = 27;

/** Each agent's time as a bar: `░` until its first token, `█` while it writes, `×` where it was cut off or failed. */
export function waterfall(run: ShownRun, columns: number, colors: Colors): string[] {
  const endMs = Math.max(
    1,
    run.duration_ms ?? 0,
    ...run.agents.map((agent) => agent.ended_at_ms ?? agent.first_token_at_ms ?? agent.started_at_ms ?? 0),
  );
  const idWidth = Math.max(...run.agents.map(({ id }) => widthOf(id)));
  const modelWidth = Math.min(14, Math.max(...run.agents.map(({ model }) => widthOf(model))));
  const barWidth = Math.max(MIN_BAR, Math.min(MAX_BAR, columns - idWidth - modelWidth - NUMBERS - 6));
  const tokens = new Map(run.usage.agents.map((agent) => [agent.agent, agent.completion_tokens]));
  const head = `${" ".repeat(idWidth + modelWidth + 4)}${scale(endMs, barWidth)}`;
  return [
    colors.dim(head),
    ...run.agents.map((agent) => {
      const written = tokens.get(agent.id) ?? 0;
      const name = `${fit(agent.id, idWidth)}  ${fit(agent.model, modelWidth)}`;
      return `${name}  ${bar(agent, { endMs, barWidth, colors })}  ${numbers(agent, written, colors)}`
        .trimEnd();
    }),
    ...problems(run, columns, colors),
    ...fallbacks(run, columns).map((line) => colors.dim(line)),
  ];
}

/** `0 s …… 4.20 s` over the bars. */
function scale(endMs: number, width: number): string {
  const end = seconds(endMs);
  return `0${end.padStart(width - 1)}`;
}

function bar(
  { state, started_at_ms: start, first_token_at_ms: first, ended_at_ms: end }: ShownRun["agents"][number],
  { endMs, barWidth, colors }: { readonly endMs: number; readonly barWidth: number; readonly colors: Colors },
): string {
  if (start === undefined) return " ".repeat(barWidth);
  const at = (ms: number) => Math.min(barWidth, Math.round(ms / endMs * barWidth));
  const stop = at(end ?? endMs);
  const from = Math.min(at(start), barWidth - 1);
  const write = Math.max(from, Math.min(at(first ?? end ?? endMs), stop));
  const cut = state === "failed" || state === "cancelled";
  const bars = `${colors.yellow("░".repeat(write - from))}${
    colors.green("█".repeat(Math.max(0, stop - write)))
  }`;
  const drawn = Math.max(write, stop) - from;
  const mark = drawn === 0 ? colors.green("▏") : "";
  const sign = cut && from + drawn < barWidth ? colors.red("×") : "";
  const used = from + drawn + (mark === "" ? 0 : 1) + (sign === "" ? 0 : 1);
  return `${" ".repeat(from)}${bars}${mark}${sign}${" ".repeat(Math.max(0, barWidth - used))}`;
}

function numbers(agent: ShownRun["agents"][number], tokens: number, colors: Colors): string {
  const { state, started_at_ms: start, first_token_at_ms: first, ended_at_ms: end } = agent;
  if (start === undefined) return colors.dim(state);
  const took = end === undefined ? "" : seconds(end - start);
  const decodeMs = end !== undefined && first !== undefined ? end - first : 0;
  const speed = tokens > 1 && decodeMs > 0 ? `${Math.round((tokens - 1) / decodeMs * 1000)}/s` : "";
  const words = state === "done" ? "" : `  ${state}`;
  return `${fit(tokens > 0 ? `${tokens} tok` : "", 9, "right")}${fit(speed, 8, "right")}${
    fit(took, 9, "right")
  }${state === "failed" ? colors.red(words) : colors.dim(words)}`;
}

/** A line for each agent that failed, with its reason. */
function problems(run: ShownRun, columns: number, colors: Colors): string[] {
  return run.agents.flatMap(({ id, state, error }) =>
    state === "failed" && typeof error === "string"
      ? [colors.red(truncate(`${id} failed: ${oneLine(error)}`, columns))]
      : []
  );
}

/** A line for each agent that another model answered for. */
function fallbacks(run: ShownRun, columns: number): string[] {
  return run.agents.flatMap(({ id, fallback }) =>
    fallback === undefined || fallback === null ? [] : [
      truncate(
        oneLine(`${id} was asked of ${fallback.model}: ${REASONS.get(fallback.reason) ?? fallback.reason}`),
        columns,
      ),
    ]
  );
}

/** A line for each cluster that went on early, and for a run that ended so. */
export function exitsOf(run: ShownRun): string[] {
  const lines = run.exits.flatMap(({ cluster, metric, at_ms: atMs, completions, exit }) =>
    exit ? [`${cluster} went on after ${completions} answers, by ${metric}, at ${seconds(atMs)}`] : []
  );
  return run.root_skipped
    ? [...lines, "the root was not asked: the answer is one of those before it"]
    : lines;
}
