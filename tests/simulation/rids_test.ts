import assert from "node:assert/strict";
import { test } from "node:test";
import type { Router } from "../../router/router.ts";
import { makeWorld } from "./world.ts";

const TOKENS = 200;

/** A client with a key; each stream ends by itself, or is left after `leaveMs`. */
function clientOf(router: Router, key: string) {
  const post = (path: string, body: unknown, signal?: AbortSignal) =>
    Promise.resolve(router.app.request(path, {
      method: "POST",
      headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
      body: JSON.stringify(body),
      ...(signal === undefined ? {} : { signal }),
    }));
  const ask = async (fields: Record<string, unknown>, signal?: AbortSignal): Promise<string> => {
    const sampling_params = { max_new_tokens: TOKENS, ignore_eos: true };
    const body = { model: "8b", text: "Once upon a time", stream: true, sampling_params, ...fields };
    const response = await post("/generate", body, signal);
    assert.equal(response.status, 200);
    return await response.text();
  };
  return { post, ask };
}

const lastOf = (stream: string) => JSON.parse(stream.split("\n\n").at(-3)!.slice("data: ".length)).meta_info;

for (const pairs of [undefined, { engine: "sglang-pd" }] as const) {
  const kind = pairs === undefined ? "servers" : "pairs";
  test(`a user's rid ends nobody else's request, neither by leaving nor by an abort: ${kind}`, async () => {
    const world = makeWorld({
      seed: "rids",
      replicas: 1,
      graphs: {},
      ...(pairs === undefined ? {} : { pairs }),
      server: { api_keys: ["alice", "bob"], admin_key: "boss" },
    });
    await world.clock.run(async () => {
      const router = world.router();
      await router.ready();
      const alice = clientOf(router, "alice");
      const bob = clientOf(router, "bob");
      const streams = {
        unnamed: bob.ask({}),
        longer: bob.ask({ rid: "c-2" }),
        same: bob.ask({ rid: "c" }),
        own: alice.ask({ rid: "c-1" }),
      };
      const gone = new AbortController();
      const left = alice.ask({ rid: "c" }, gone.signal).catch(() => "left");
      const stopped = alice.ask({ rid: "a1" });
      const other = alice.ask({ rid: "a10" });
      await world.clock.sleep(500);
      gone.abort();
      assert.equal(await left, "left");
      for (const rid of ["c", "canopy-", "a1", ""]) {
        assert.equal((await alice.post("/abort_request", { rid })).status, 200);
      }
      for (const abort_all of [true, 1, "1", "true", "True", "yes", "on", "t", "y"]) {
        assert.equal((await alice.post("/abort_request", { abort_all })).status, 403, String(abort_all));
      }
      assert.equal((await alice.post("/abort_request", { rid: "x", abort_all: "no" })).status, 200);
      assert.equal((await alice.post("/abort_request", { rid: "x", abort_all: "maybe" })).status, 400);
      assert.equal((await alice.post("/abort_request", { rid: 5 })).status, 400);
      assert.equal(lastOf(await stopped).finish_reason.type, "abort");
      assert.equal(lastOf(await stopped).id, "a1");
      assert.deepEqual([lastOf(await other).id, lastOf(await other).completion_tokens], ["a10", TOKENS]);
      const ids = { longer: "c-2", same: "c", own: "c-1" };
      for (const [name, stream] of Object.entries(streams)) {
        const meta = lastOf(await stream);
        assert.deepEqual([meta.finish_reason.type, meta.completion_tokens], ["length", TOKENS], name);
        if (name !== "unnamed") assert.equal(meta.id, Reflect.get(ids, name));
      }
      const last = bob.ask({});
      await world.clock.sleep(500);
      assert.equal((await clientOf(router, "boss").post("/abort_request", { abort_all: "1" })).status, 200);
      assert.equal(lastOf(await last).finish_reason.type, "abort");
      await router.close();
    }, { limitMs: 300_000 });
  });
}

test("the admin key may end any request by its rid; an id that the client was given is as good as its own", async () => {
  const server = { api_keys: ["alice", "bob"], admin_key: "boss" };
  const world = makeWorld({ seed: "rids", replicas: 1, graphs: {}, server });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    const batch = clientOf(router, "alice").post("/generate", {
      model: "8b",
      rid: "batch",
      text: ["One", "Two", "Three"],
      sampling_params: { max_new_tokens: TOKENS, ignore_eos: true },
    });
    await world.clock.sleep(500);
    const boss = clientOf(router, "boss");
    await boss.post("/abort_request", { rid: "batch_1" });
    const answers: { meta_info: { id: string; finish_reason: { type: string } } }[] = await (await batch)
      .json();
    assert.deepEqual(
      answers.map(({ meta_info: { id, finish_reason } }) => [id, finish_reason.type]),
      [["batch_0", "length"], ["batch_1", "abort"], ["batch_2", "length"]],
    );
    const chat = {
      model: "8b",
      stream: true,
      max_tokens: TOKENS,
      messages: [{ role: "user", content: "Hi" }],
    };
    const answer = await clientOf(router, "alice").post("/v1/chat/completions", chat);
    const reader = answer.body!.getReader();
    const first = new TextDecoder().decode((await reader.read()).value);
    const { id } = JSON.parse(first.split("\n\n")[0]!.slice("data: ".length));
    await clientOf(router, "bob").post("/abort_request", { rid: id });
    await clientOf(router, "alice").post("/abort_request", { rid: id });
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      rest += new TextDecoder().decode(value);
    }
    assert.match(rest, /"finish_reason":"abort"/);
    await router.close();
  }, { limitMs: 300_000 });
});
