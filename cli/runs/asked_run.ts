import { CanopyError } from "../../base/errors.ts";
import type { Json } from "../../base/json.ts";
import { getJson, type Server } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { readRunList } from "./shown_run.ts";

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
  const [newest] = readRunList(await getJson(io.transport, server, "/v1/runs?limit=1", io.stop));
  if (newest !== undefined) return newest.id;
  throw new CanopyError(`The server at ${server.url} knows no run yet`, {
    code: "run_not_found",
    status: 404,
  });
}
