import { fieldOf, listField, numberAt, textField } from "./json_fields.ts";

/** Filters of the list of runs, by their names on the page. */
export const RUN_FILTERS = ["all", "running", "failed", "cancelled", "degraded", "exited"] as const;

/** One of `RUN_FILTERS`. */
export type RunFilter = (typeof RUN_FILTERS)[number];

/** A run in the list (GET /v1/runs). */
export interface ListedRun {
  readonly id: string;
  readonly graph: string;
  readonly requestId: string;
  readonly state: string;
  readonly error: string;
  readonly created: number | undefined;
  readonly durationMs: number | undefined;
  readonly calls: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly cachedTokens: number | undefined;
  readonly earlyExits: number;
  /** Agents that failed, and that the run did without. */
  readonly failedAgents: number;
  /** Undefined where a model has no price. */
  readonly cost: number | undefined;
}

/** The runs of an answer of GET /v1/runs. */
export function listedRuns(answer: unknown): readonly ListedRun[] {
  return listField(answer, "data").map((run) => ({
    id: textField(run, "id"),
    graph: textField(run, "graph"),
    requestId: textField(run, "request_id"),
    state: textField(run, "state"),
    error: textField(run, "error", "message"),
    created: numberAt(run, "created"),
    durationMs: numberAt(run, "duration_ms"),
    calls: numberAt(run, "usage", "calls") ?? 0,
    promptTokens: numberAt(run, "usage", "prompt_tokens") ?? 0,
    completionTokens: numberAt(run, "usage", "completion_tokens") ?? 0,
    cachedTokens: numberAt(run, "usage", "cached_tokens"),
    earlyExits: numberAt(run, "early_exits") ?? 0,
    failedAgents: listField(run, "usage", "degraded", "failed").length +
      (numberAt(fieldOf(run, "usage", "degraded"), "more") ?? 0),
    cost: numberAt(run, "usage", "cost"),
  }));
}

/** The state by which the server chooses for a filter; empty where the page has to. */
export function stateOfFilter(filter: RunFilter): string {
  return filter === "running" || filter === "failed" || filter === "cancelled" ? filter : "";
}

/** The runs that a filter and a search leave; the search looks at ids, the graph, the state and the error. */
export function filteredRuns(
  runs: readonly ListedRun[],
  { filter, search }: { readonly filter: RunFilter; readonly search: string },
): readonly ListedRun[] {
  const words = search.toLowerCase().split(/\s+/).filter((word) => word !== "");
  return runs.filter((run) => {
    const text = [run.id, run.graph, run.requestId, run.state, run.error].join(" ").toLowerCase();
    return passes(run, filter) && words.every((word) => text.includes(word));
  });
}

function passes(run: ListedRun, filter: RunFilter): boolean {
  switch (filter) {
    case "all":
      return true;
    case "degraded":
      return run.failedAgents > 0;
    case "exited":
      return run.earlyExits > 0;
    default:
      return run.state === filter;
  }
}
