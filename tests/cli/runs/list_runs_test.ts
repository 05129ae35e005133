import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../base/json.ts";
import type { Transport } from "../../../base/transport.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { listRuns } from "../../../cli/runs/asked_run.ts";
import { runsCommand } from "../../../cli/runs/runs.ts";
import { fakeIo } from "../fake_io.ts";

const usage = { calls: 1, prompt_tokens: 1, completion_tokens: 1, cached_tokens: 0, wasted_tokens: 0 };

/**
 * A server of so many runs, of which the first `live` go on, and every third of the others has failed; an old one knows
 * neither filters nor pages. Those of `forgotten` are listed, and gone when they are asked for.
 */
function server(
  count: number,
  { old = false, live = 0, forgotten = [] }: { old?: boolean; live?: number; forgotten?: string[] } = {},
): { transport: Transport; asked: string[] } {
  const asked: string[] = [];
  const all = Array.from({ length: count }, (_, index): JsonObject => {
    const state = index < live ? "running" : index % 3 === 0 ? "failed" : "done";
    return { id: `run_${index}`, graph: "moa", state, created: 0, duration_ms: 1, error: null, usage };
  });
  const answer = (url: URL): JsonObject => {
    const query = (name: string) => url.searchParams.get(name);
    const after = old ? null : query("after");
    const from = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
    const state = old ? null : query("state");
    const rest = all.slice(from).filter((run) => state === null || run.state === state);
    const data = rest.slice(0, Number(query("limit")));
    return { object: "list", data, ...(old ? {} : { has_more: rest.length > data.length }) };
  };
  const transport: Transport = {
    send: (request) => {
      const url = new URL(request.url);
      asked.push(url.search);
      const id = url.pathname.split("/")[3];
      const status = id !== undefined && forgotten.includes(id) ? 404 : 200;
      const found = id === undefined ? answer(url) : all.find((run) => run.id === id);
      const bytes = new TextEncoder().encode(
        JSON.stringify(status === 200 ? found : { error: "no such run" }),
      );
      async function* body() {
        yield await Promise.resolve(bytes);
      }
      return Promise.resolve({ status, headers: {}, body: body() });
    },
    close: () => Promise.resolve(),
  };
  return { transport, asked };
}

const place = { url: "http://canopy", apiKey: undefined };

test("a list of more runs than one answer has takes several, and no more than are asked for", async () => {
  const { transport, asked } = server(2500);
  const all = await listRuns(place, { limit: 100_000 }, fakeIo({ transport }));
  assert.deepEqual([all.length, all.at(-1)?.id], [2500, "run_2499"]);
  assert.deepEqual(asked, ["?limit=1000", "?limit=1000&after=run_999", "?limit=1000&after=run_1999"]);
  const some = server(2500);
  assert.equal((await listRuns(place, { limit: 1200 }, fakeIo({ transport: some.transport }))).length, 1200);
  assert.deepEqual(some.asked, ["?limit=1000", "?limit=200&after=run_999"]);
});

test("filters are the server's, and hold with a server that does not know them", async () => {
  const { transport, asked } = server(30);
  const failed = await listRuns(place, { limit: 5, state: "failed" }, fakeIo({ transport }));
  assert.deepEqual(failed.map(({ id }) => id), ["run_0", "run_3", "run_6", "run_9", "run_12"]);
  assert.deepEqual(asked, ["?limit=5&state=failed"]);
  const old = server(30, { old: true });
  const few = await listRuns(place, { limit: 5, state: "failed" }, fakeIo({ transport: old.transport }));
  assert.deepEqual(few.map(({ id }) => id), ["run_0", "run_3"]);
});

test("an export has as many ended runs as are asked for beside those that go on, and leaves out what is gone meanwhile", async () => {
  const exported = async (transport: Transport, ...args: string[]) => {
    const io = fakeIo({ transport });
    const code = await runCommand([runsCommand], ["runs", "export", "--url", "http://canopy", ...args], io);
    const ids = io.out.text.trim().split("\n").map((line) => JSON.parse(line).id);
    return { code, ids, err: io.err.text };
  };
  const busy = server(10, { live: 3 });
  assert.deepEqual(await exported(busy.transport, "--limit", "2"), {
    code: 0,
    ids: ["run_3", "run_4"],
    err: "",
  });
  const full = server(4, { forgotten: ["run_2", "run_3"] });
  assert.deepEqual(await exported(full.transport), {
    code: 0,
    ids: ["run_0", "run_1"],
    err: "2 runs were listed and are no longer kept by the server: they are left out\n",
  });
});
