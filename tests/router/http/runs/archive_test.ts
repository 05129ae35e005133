import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../../../base/clock.ts";
import { RunArchive } from "../../../../router/archive/run_archive.ts";
import {
  endedRunSchema,
  runEventSchema,
  runListSchema,
  runSchema,
} from "../../../../router/http/runs/response_schema.ts";
import { archivedRun } from "../../../../router/http/runs/archived_run.ts";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import { inlineArchive } from "../../archive/inline_archive.ts";
import { inFolder } from "../../archive/made_runs.ts";
import { fakeApp, parseEvents } from "../fakes.ts";

const clock = new SystemClock();
const BOUNDS = { maxAgeMs: 1e13, maxBytes: 64 * 1024 * 1024 };

/** Calls `use` with an app whose archive has runs `old_1` … `old_4`, of alice and bob by turns; its memory is empty. */
async function withArchive(
  use: (
    fake: ReturnType<typeof fakeApp>,
    ask: (path: string, key?: string, method?: string) => Promise<{ status: number; text: string }>,
    kill: () => void,
  ) => Promise<void>,
  { texts = false, keys = false }: { texts?: boolean; keys?: boolean } = {},
): Promise<void> {
  await inFolder(async (folder) => {
    let killed = false;
    const archive = await RunArchive.open({
      path: join(folder, "runs"),
      bounds: BOUNDS,
      clock,
      start: inlineArchive(clock, () => {
        if (killed) throw new Error("out of memory");
      }),
    });
    const server = keys ? { api_keys: ["alice", "bob"], admin_key: "boss" } : {};
    const fake = fakeApp({ config: { server }, app: { archive } });
    for (const key of ["alice", "bob", "alice", "bob"]) {
      await (await fake.chat({}, { headers: { authorization: `Bearer ${key}` } })).text();
    }
    for (const [index, run] of fake.moa.runs.splice(0).entries()) {
      const record: RunRecord = { ...run.record(), id: `old_${index + 1}`, requestId: `request_${index}` };
      assert.equal(await archive.add(record.id, () => archivedRun(record, { texts, clock })), true);
    }
    const ask = async (path: string, key = "", method = "GET") => {
      const headers = { authorization: `Bearer ${key}` };
      const response = await fake.app.request(path, { method, headers });
      return { status: response.status, text: await response.text() };
    };
    await use(fake, ask, () => killed = true);
    await archive.close();
  });
}

const listed = ({ text }: { text: string }) => {
  const { object, data, has_more: more } = JSON.parse(text);
  assert.equal(object, "list");
  return [data.map((run: { id: string }) => run.id), more];
};

test("a list goes from live runs to those on disk, page by page, and by state, graph and request", async () => {
  await withArchive(async (fake, ask) => {
    const answer = fake.chat({ stream: true });
    const live = (await answer).body!.getReader();
    // Its script ends whoever reads it, sooner or later.
    await fake.moa.run.ended;
    fake.moa.run.state = "running";
    assert.deepEqual(listed(await ask("/v1/runs")), [["run_5", "old_4", "old_3", "old_2", "old_1"], false]);
    assert.deepEqual(listed(await ask("/v1/runs?limit=1")), [["run_5"], true]);
    assert.deepEqual(listed(await ask("/v1/runs?limit=2")), [["run_5", "old_4"], true]);
    assert.deepEqual(listed(await ask("/v1/runs?limit=2&after=run_5")), [["old_4", "old_3"], true]);
    assert.deepEqual(listed(await ask("/v1/runs?limit=2&after=old_3")), [["old_2", "old_1"], false]);
    assert.deepEqual(listed(await ask("/v1/runs?after=gone")), [[], false]);
    assert.deepEqual(listed(await ask("/v1/runs?state=running")), [["run_5"], false]);
    assert.deepEqual(listed(await ask("/v1/runs?state=done")), [["old_4", "old_3", "old_2", "old_1"], false]);
    assert.deepEqual(listed(await ask("/v1/runs?graph=other")), [[], false]);
    assert.deepEqual(listed(await ask("/v1/runs?request_id=request_1")), [["old_2"], false]);
    const refused = await ask("/v1/runs?state=over");
    assert.equal(refused.status, 400);
    assert.match(
      refused.text,
      /state must be one of running, done, failed, cancelled: current value is over/,
    );
    await live.cancel();
  });
});

test("a run on disk is what it was, without texts unless they were asked for", async () => {
  for (const texts of [false, true]) {
    await withArchive(async (fake, ask) => {
      await (await fake.chat()).text();
      const whole = JSON.parse((await ask("/v1/runs/run_5")).text);
      const old = JSON.parse((await ask("/v1/runs/old_1")).text);
      const agents = texts
        ? whole.agents
        : whole.agents.map((agent: object) => ({ ...agent, prompt: null, text: "" }));
      const { texts_kept: kept, ...rest } = old;
      assert.equal(kept, texts ? undefined : false);
      const request = texts ? whole.request : null;
      assert.equal(whole.request.body.model, "moa");
      assert.deepEqual(rest, { ...whole, id: "old_1", request_id: "request_0", request, agents });
      assert.equal((await ask("/v1/runs/old_9")).status, 404);
      const events = await ask("/v1/runs/old_1/events");
      assert.deepEqual(parseEvents(events.text), [...whole.events, "[DONE]"]);
      const cancelled = await ask("/v1/runs/old_1", "", "DELETE");
      assert.deepEqual(JSON.parse(cancelled.text), { id: "old_1", object: "run", state: "done" });
      assert.equal((await ask("/v1/runs/old_9/events")).status, 404);
      assert.equal((await ask("/v1/runs/old_9/cancel", "", "POST")).status, 404);
    }, { texts });
  }
});

test("runs in memory and on disk are as /openapi.json describes them", async () => {
  for (const texts of [false, true]) {
    await withArchive(async (fake, ask) => {
      await (await fake.chat()).text();
      for (const id of ["run_5", "old_1"]) {
        const { text } = await ask(`/v1/runs/${id}`);
        assert.equal(runSchema.parse(JSON.parse(text)).agents.length, 3);
        for (const line of parseEvents((await ask(`/v1/runs/${id}/events`)).text).slice(0, -1)) {
          runEventSchema.parse(line);
        }
        endedRunSchema.parse(JSON.parse((await ask(`/v1/runs/${id}`, "", "DELETE")).text));
      }
      assert.equal(runListSchema.parse(JSON.parse((await ask("/v1/runs")).text)).data.length, 4);
    }, { texts });
  }
});

test("runs on disk belong to the keys that started them", async () => {
  await withArchive(async (_, ask) => {
    assert.deepEqual(listed(await ask("/v1/runs", "alice")), [["old_3", "old_1"], false]);
    assert.deepEqual(listed(await ask("/v1/runs?limit=1", "bob")), [["old_4"], true]);
    assert.deepEqual(listed(await ask("/v1/runs", "boss")), [["old_4", "old_3", "old_2", "old_1"], false]);
    for (const [path, method] of [["", "GET"], ["/events", "GET"], ["/cancel", "POST"]] as const) {
      assert.equal((await ask(`/v1/runs/old_1${path}`, "bob", method)).status, 403);
      assert.equal((await ask(`/v1/runs/old_1${path}`, "alice", method)).status, 200);
      assert.equal((await ask(`/v1/runs/old_1${path}`, "nobody", method)).status, 401);
    }
    assert.doesNotMatch((await ask("/v1/runs/old_1", "alice")).text, /owner/);
  }, { keys: true });
});

test("when the file cannot be used any more, lists have what is in memory", async () => {
  await withArchive(async (fake, ask, kill) => {
    await (await fake.chat()).text();
    kill();
    assert.equal((await ask("/v1/runs")).status, 500);
    assert.deepEqual(listed(await ask("/v1/runs")), [["run_5"], false]);
    assert.equal((await ask("/v1/runs/old_1")).status, 404);
  });
});

test("without a file pages are of what is in memory", async () => {
  const fake = fakeApp();
  for (let count = 0; count < 3; count++) await (await fake.chat()).text();
  const ask = async (path: string) => ({ text: await (await fake.app.request(path)).text() });
  assert.deepEqual(listed(await ask("/v1/runs?limit=2")), [["run_1", "run_2"], true]);
  assert.deepEqual(listed(await ask("/v1/runs?limit=2&after=run_2")), [["run_3"], false]);
  assert.deepEqual(listed(await ask("/v1/runs?after=gone")), [[], false]);
});

test("final answers in decisions are texts, too: their figures alone are recorded", async () => {
  const fake = fakeApp();
  await (await fake.chat()).text();
  const votes = [{ agent: "l1.c1.a1", kind: "number", text: "forty-two", value: "42" }];
  const record: RunRecord = {
    ...fake.moa.run.record(),
    events: [
      { atMs: 1, type: "consensus_decided", data: { exit: true, votes, needed: 2 } },
      { atMs: 2, type: "consensus_audited", data: { found: "same", exit: "42", whole: "42", off: false } },
    ],
  };
  const { record: text } = await archivedRun(record, { texts: false, clock });
  assert.doesNotMatch(text, /"42"|forty|prompt of|"first"|Hello/);
  const { events } = JSON.parse(text);
  assert.deepEqual(events[0].data, { exit: true, votes: [{ agent: "l1.c1.a1", kind: "number" }], needed: 2 });
  assert.deepEqual(events[1].data, { found: "same", off: false });
});

test("a record has its start in ms, and with texts the log-probabilities by which exits are decided again", async () => {
  const fake = fakeApp();
  await (await fake.chat()).text();
  const whole = fake.moa.run.record();
  const [first, ...others] = whole.agents;
  const record: RunRecord = {
    ...whole,
    startedAtUnixMs: 1_700_000_000_500.25,
    agents: [{ ...first!, logprobs: [-0.12345678, -Infinity] }, ...others],
  };
  const bodies = await Promise.all([true, false].map(async (texts) => {
    const kept = await archivedRun(record, { texts, clock });
    assert.equal(JSON.parse(kept.summary).created_ms, 1_700_000_000_500);
    return JSON.parse(kept.record);
  }));
  for (const { created, created_ms: ms } of bodies) {
    assert.deepEqual([created, ms], [1_700_000_000, 1_700_000_000_500]);
  }
  const logprobs = bodies.map(({ agents }) => agents.map((agent: { logprobs?: unknown }) => agent.logprobs));
  assert.deepEqual(logprobs, [[[-0.123457, null], undefined, undefined], [undefined, undefined, undefined]]);
});
