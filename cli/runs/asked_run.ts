import { CanopyError } from "../../base/errors.ts";
import type { Json } from "../../base/json.ts";
import { getJson, type Server } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { readRunList, type RunSummary } from "./shown_run.ts";

/** Stands for the newest run in the place of an id. */
export const LAST_RUN = "last";

/** A run's record as the server gives it. */
export async function getRun(server: Server, id: string, io: Io): Promise<Json> {
  return await getJson(
    io.transport,
    server,
    `/v1/runs/${encodeURIComponent(await askedRunId(server, id, io))}`,
    io.stop,
  );
}

/** A run's id as it was given, or that of the newest run for `last`. Throws 404 `run_not_found` where there is none. */
export async function askedRunId(server: Server, id: string, io: Io): Promise<string> {
  if (id !== LAST_RUN) return id;
  const [newest] = await listRuns(server, { limit: 1 }, io);
  if (newest !== undefined) return newest.id;
  throw new CanopyError(`The server at ${server.url} knows no run yet`, {
    code: "run_not_found",
    status: 404,
  });
}

/** Runs that a list is to have; absent filters do not matter. */
export interface AskedList {
  /** Most of them. */
  readonly limit: number;
  readonly state?: string | undefined;
  readonly graph?: string | undefined;
  /** True: none that goes on. */
  readonly ended?: boolean | undefined;
}

/** Most runs of one answer of the server. */
const PAGE = 1000;

/** The newest runs of a server, live ones first, by as many requests as it takes. */
export async function listRuns(
  server: Server,
  { limit, state, graph, ended = false }: AskedList,
  io: Io,
): Promise<RunSummary[]> {
  const runs: RunSummary[] = [];
  let after: string | undefined;
  while (true) {
    const query = new URLSearchParams({ limit: String(Math.min(PAGE, limit - runs.length)) });
    for (const [name, value] of Object.entries({ state, graph, after })) {
      if (value !== undefined) query.set(name, value);
    }
    const { data, has_more: hasMore } = readRunList(
      await getJson(io.transport, server, `/v1/runs?${query}`, io.stop),
    );
    // A server of before knows no filters.
    runs.push(
      ...data.filter((run) =>
        (state === undefined || run.state === state) && (graph === undefined || run.graph === graph) &&
        !(ended && run.state === "running")
      ),
    );
    after = data.at(-1)?.id;
    if (!hasMore || after === undefined || runs.length >= limit) return runs;
  }
}
