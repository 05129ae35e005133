import { fieldOf } from "./json_fields.ts";
import { type ListedRun, listedRuns } from "./run_list.ts";

/** The runs that were loaded, live ones first, then the newest, and whether the server has older ones. */
export interface RunPages {
  readonly runs: readonly ListedRun[];
  readonly hasMore: boolean;
}

/** Ended runs of a page: few enough to be asked for every two seconds. */
const PAGE_RUNS = 100;
/** Most runs that the server gives at once. */
const MOST_RUNS = 1_000;

/** What the server chooses runs by. */
export interface RunQuery {
  /** Empty for all. */
  readonly state: string;
  /** Empty for all. */
  readonly graph: string;
}

/** The path of the newest runs: as many as are known to go on, and a page of those that have ended. */
export function pathOfNewest(query: RunQuery, known: RunPages | undefined): string {
  const live = known?.runs.filter(({ state }) => state === "running").length ?? 0;
  return pathOfRuns(query, { limit: String(Math.min(MOST_RUNS, PAGE_RUNS + live)) });
}

/** The path of the page behind what is known. */
export function pathOfOlder(query: RunQuery, { runs }: RunPages): string {
  return pathOfRuns(query, { limit: String(PAGE_RUNS), after: runs.at(-1)?.id ?? "" });
}

function pathOfRuns({ state, graph }: RunQuery, page: Readonly<Record<string, string>>): string {
  const wanted = Object.entries({ ...page, state, graph }).filter(([, value]) => value !== "");
  return `/v1/runs?${new URLSearchParams(wanted)}`;
}

/** The page of an answer of GET /v1/runs. */
export function readRunPage(answer: unknown): RunPages {
  return { runs: listedRuns(answer), hasMore: fieldOf(answer, "has_more") === true };
}

/** What was loaded, with the newest runs as they are now; those that have gone on beyond these since stay. */
export function withNewest(known: RunPages, page: RunPages): RunPages {
  if (!page.hasMore) return page;
  const ids = new Set(page.runs.map(({ id }) => id));
  const ended = known.runs.filter(({ state }) => state !== "running");
  // Live ones come first: what is not on a page with ended ones has ended. Where no ended one is on both, others lie between.
  if (!ended.some(({ id }) => ids.has(id))) return page;
  const rest = ended.filter(({ id }) => !ids.has(id));
  return { runs: [...page.runs, ...rest], hasMore: rest.length === 0 || known.hasMore };
}

/** What was loaded, and the page behind it. */
export function withOlder(known: RunPages, page: RunPages): RunPages {
  const ids = new Set(known.runs.map(({ id }) => id));
  return { runs: [...known.runs, ...page.runs.filter(({ id }) => !ids.has(id))], hasMore: page.hasMore };
}
