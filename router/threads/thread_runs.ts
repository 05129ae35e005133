import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { ArchivePage } from "../archive/archived_run.ts";
import { MAX_RUNS_LISTED, runPage } from "../http/runs/run_list.ts";
import type { Fetches } from "../http/server/fetches.ts";

/** Who knows runs: those that go on their threads, ended ones the app of the thread that leads. */
interface RunHolders {
  readonly app: Fetches;
  readonly threads: readonly Fetches[];
}

interface RunListBody {
  readonly data: readonly JsonObject[];
  readonly hasMore: boolean;
}

/** The answer of `GET /v1/runs` over all threads: a page of the list of live runs, then ended ones. */
export async function runsOfThreads(
  request: Request,
  { app, threads }: RunHolders,
  env?: object,
): Promise<Response> {
  const page = readPage(request);
  if (page === undefined) return await app.fetch(request, env);
  const { limit, after } = page;
  const live: RunListBody[] = [];
  for (const thread of threads) {
    const answer = await thread.fetch(pageOf(request, { limit: MAX_RUNS_LISTED }), env);
    const list = await listIn(answer.clone());
    if (list === undefined) return answer;
    live.push(list);
  }
  // The newest first; of one moment in the threads' order.
  const runs = live.flatMap(({ data }) => data).sort((a, b) => createdMs(b) - createdMs(a));
  const at = after === undefined ? -1 : runs.findIndex(({ id }) => id === after);
  // Behind one that goes on no more there are ended ones only.
  if (after !== undefined && at < 0) return await app.fetch(request, env);
  const rest = runs.slice(at + 1);
  const left = Math.max(0, limit - rest.length);
  const answer = await app.fetch(pageOf(request, { limit: Math.max(1, left) }), env);
  const ended = await listIn(answer.clone());
  if (ended === undefined) return answer;
  const isCut = rest.length > limit || live.some(({ hasMore }) => hasMore);
  return Response.json({
    object: "list",
    data: [...rest.slice(0, limit), ...ended.data.slice(0, left)],
    has_more: isCut || ended.hasMore || ended.data.length > left,
  });
}

function createdMs({ created_ms }: JsonObject): number {
  return typeof created_ms === "number" ? created_ms : 0;
}

/** Undefined for a query that the app refuses. */
function readPage(request: Request): Pick<ArchivePage, "limit" | "after"> | undefined {
  const query = new URL(request.url).searchParams;
  try {
    return runPage((name) => query.get(name) ?? undefined, undefined);
  } catch {
    return undefined;
  }
}

/** The same request from the beginning of the list on. */
function pageOf(request: Request, { limit }: { readonly limit: number }): Request {
  const url = new URL(request.url);
  url.searchParams.delete("after");
  url.searchParams.set("limit", String(limit));
  return new Request(url, { headers: request.headers, signal: request.signal });
}

/** Undefined for what is no list. */
async function listIn(answer: Response): Promise<RunListBody | undefined> {
  const body: unknown = answer.ok ? await answer.json() : undefined;
  if (!isJsonObject(body) || !Array.isArray(body.data)) return undefined;
  return { data: body.data.filter(isJsonObject), hasMore: body.has_more === true };
}
