import "../../loopback.ts";
import assert from "node:assert/strict";
import { test } from "node:test";
import { z } from "zod";
import type { Fetches } from "../../../router/http/server/fetches.ts";
import { runsOfThreads } from "../../../router/threads/thread_runs.ts";

const listSchema = z.object({ data: z.array(z.object({ id: z.string() })), has_more: z.boolean() });

/** Answers `GET /v1/runs` of these runs as an app does, and keeps what it was asked. A run's age is the number in its id. */
function holderOf(ids: readonly string[]): Fetches & { readonly asked: string[] } {
  const asked: string[] = [];
  return {
    asked,
    fetch(request) {
      const url = new URL(request.url);
      asked.push(url.search);
      const limit = Number(url.searchParams.get("limit") ?? 100);
      if (!(limit >= 1 && limit <= 1000)) return Response.json({ error: "limit" }, { status: 400 });
      const after = url.searchParams.get("after");
      const at = after === null ? -1 : ids.indexOf(after);
      const rest = after !== null && at < 0 ? [] : ids.slice(at + 1);
      const data = rest.slice(0, limit).map((id) => ({ id, created_ms: 100 - Number(id.slice(1)) }));
      return Response.json({ object: "list", data, has_more: rest.length > limit });
    },
  };
}

/** All pages of a list. */
async function pagesOf(limit: number, holders: Parameters<typeof runsOfThreads>[1]): Promise<string[][]> {
  const pages: string[][] = [];
  let after = "";
  for (let hasMore = true; hasMore;) {
    const query = new URLSearchParams({ limit: String(limit), ...(after === "" ? {} : { after }) });
    const answer = await runsOfThreads(new Request(`http://m/v1/runs?${query}`), holders);
    const list = listSchema.parse(await answer.json());
    pages.push(list.data.map(({ id }) => id));
    hasMore = list.has_more;
    after = list.data.at(-1)?.id ?? after;
  }
  return pages;
}

test("a list of runs goes on from page to page over all threads, whatever its pages hold", async () => {
  const threads = [holderOf(["a1", "a2", "a6"]), holderOf([]), holderOf(["b0", "b2", "b4"])];
  const app = holderOf(["e1", "e2"]);
  // Live ones first, and of these the newest, whatever thread they are on.
  const all = ["b0", "a1", "a2", "b2", "b4", "a6", "e1", "e2"];
  for (const limit of [1, 2, 3, 4, 5, 7, 8, 100]) {
    const pages = await pagesOf(limit, { app, threads });
    assert.deepEqual(pages.flat(), all, `${limit} a page`);
    assert.equal(pages.length, Math.ceil(all.length / limit), `${limit} a page`);
  }
  const none = { app: holderOf([]), threads: [holderOf([])] };
  assert.deepEqual(await pagesOf(10, none), [[]]);
});

test("filters go to all that are asked, and a refusal is the app's", async () => {
  const thread = holderOf(["a"]);
  const app = holderOf(["e"]);
  const ask = (query: string) =>
    runsOfThreads(new Request(`http://m/v1/runs?${query}`), { app, threads: [thread] });
  await ask("state=failed&limit=7");
  assert.deepEqual([thread.asked, app.asked], [["?state=failed&limit=1000"], ["?state=failed&limit=6"]]);
  assert.equal((await ask("limit=0")).status, 400);
  assert.equal(thread.asked.length, 1);
});
