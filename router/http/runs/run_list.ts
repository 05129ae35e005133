import { badRequest } from "../../../base/errors.ts";
import type { ArchivePage } from "../../archive/archived_run.ts";
import type { ArchivedPage } from "../../archive/archive_thread.ts";
import type { RunArchive } from "../../archive/run_archive.ts";
import type { RunRecord } from "../../moa/record/run_record.ts";
import type { Moa } from "../../moa/run/moa.ts";
import { summaryBody } from "./run_bodies.ts";

const DEFAULT_LIMIT = 100;
/** Most runs of one answer. */
export const MAX_RUNS_LISTED = 1000;
/** Most runs that come from the archive at once: each takes some kB. */
const PART = 100;
const STATES = ["running", "done", "failed", "cancelled"];
/** The parameters that `runPage` reads, and what each is. */
export const RUN_PAGE_QUERY: Readonly<Record<string, string>> = {
  limit: `Most runs of the answer, from 1 to ${MAX_RUNS_LISTED}; ${DEFAULT_LIMIT} by default`,
  after: "Id of a run: those behind it in the list",
  state: `Runs in this state: ${STATES.join(", ")}`,
  graph: "Runs of this graph",
  request_id: "Runs of the request with this id",
};

/** The archive while it can be used. */
export function usableArchive(archive: RunArchive | undefined): RunArchive | undefined {
  return archive?.usable === true ? archive : undefined;
}

/** The query of `GET /v1/runs`, for the runs of `owner`; undefined: of all. Throws 400 naming the parameter. */
export function runPage(
  query: (name: string) => string | undefined,
  owner: string | undefined,
): ArchivePage {
  const state = query("state");
  if (state !== undefined && !STATES.includes(state)) {
    throw badRequest("state", `state must be one of ${STATES.join(", ")}: current value is ${state}`);
  }
  return {
    owner,
    limit: limitOf(query("limit")),
    state,
    graph: query("graph"),
    requestId: query("request_id"),
    after: query("after"),
  };
}

function limitOf(text: string | undefined): number {
  if (text === undefined) return DEFAULT_LIMIT;
  const limit = Number(text);
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_RUNS_LISTED) {
    throw badRequest(
      "limit",
      `limit must be a whole number from 1 to ${MAX_RUNS_LISTED}: current value is ${text}`,
    );
  }
  return limit;
}

/**
 * A list of runs as JSON: live ones first, then ended ones, the newest first, those of the archive where there is one.
 * Throws what the archive throws.
 */
export async function runList(
  { moa, archive }: { readonly moa: Moa; readonly archive: RunArchive | undefined },
  page: ArchivePage,
): Promise<Response> {
  const inMemory = moa.list().filter((record) =>
    isOf(page, record) && (archive === undefined || record.state === "running" || archive.lacks(record.id))
  );
  const at = page.after === undefined ? -1 : inMemory.findIndex(({ id }) => id === page.after);
  // After one that has ended there are ended ones only; of one that is not kept any more, all older ones are gone, too.
  const rest = page.after !== undefined && at < 0 ? [] : inMemory.slice(at + 1);
  const shown = rest.slice(0, page.limit);
  const first = shown.map((record) => JSON.stringify(summaryBody(record))).join(",");
  const head = `{"object":"list","data":[${first}`;
  const isMore = rest.length > shown.length;
  if (archive === undefined || page.state === "running") return jsonResponse(`${head}${tail(isMore)}`);
  const but = inMemory.map(({ id }) => id);
  const after = at < 0 ? page.after : undefined;
  const parts = archived(archive, { ...page, limit: page.limit - shown.length, after }, but);
  // A list that cannot be read at all is an error, not the beginning of an answer.
  const part = await parts.next();
  return jsonResponse(body({ head, comma: first !== "", part, parts, isMore }));
}

/** The objects of a page in parts, each in a turn of its own; returns whether there are more behind it. */
async function* archived(
  archive: RunArchive,
  page: ArchivePage,
  but: readonly string[],
): AsyncGenerator<ArchivedPage, boolean, undefined> {
  let { after, limit } = page;
  while (true) {
    const part = await archive.list({ ...page, limit: Math.min(limit, PART), after }, but);
    if (part.count > 0) yield part;
    limit -= Math.min(limit, PART);
    after = part.last;
    if (!part.more || limit === 0) return part.more;
  }
}

/** The bytes of a list, as fast as they are read. */
function body(
  { head, comma, part, parts, isMore }: {
    readonly head: string;
    /** True when something of the list stands in the head. */
    readonly comma: boolean;
    readonly part: IteratorResult<ArchivedPage, boolean>;
    readonly parts: AsyncGenerator<ArchivedPage, boolean, undefined>;
    readonly isMore: boolean;
  },
): ReadableStream<Uint8Array> {
  const utf8 = new TextEncoder();
  async function* pieces() {
    yield utf8.encode(comma && part.done !== true ? `${head},` : head);
    let next = part;
    while (next.done !== true) {
      yield next.value.bytes;
      next = await parts.next();
      if (next.done !== true) yield utf8.encode(",");
    }
    yield utf8.encode(tail(isMore || next.value));
  }
  const all = pieces();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await all.next();
      if (done === true) controller.close();
      else controller.enqueue(value);
    },
    cancel: async () => void await all.return(),
  }, { highWaterMark: 0 });
}

function jsonResponse(content: string | ReadableStream<Uint8Array>): Response {
  return new Response(content, { headers: { "content-type": "application/json" } });
}

function tail(hasMore: boolean): string {
  return `],"has_more":${hasMore}}`;
}

function isOf({ owner, state, graph, requestId }: ArchivePage, record: RunRecord): boolean {
  return (owner === undefined || record.owner === owner) && (state === undefined || record.state === state) &&
    (graph === undefined || record.graph === graph) &&
    (requestId === undefined || record.requestId === requestId);
}
