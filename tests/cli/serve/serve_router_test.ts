import assert from "node:assert/strict";
import { test } from "node:test";
import "../../loopback.ts";
import { chat, type Engine, models, whileServing, withServers } from "./routers.ts";

test("canopy serve --worker-urls serves the model that its workers name, and shares requests among them", async () => {
  await withServers([{}, {}], async (urls) => {
    const { code, out, err } = await whileServing(
      ["--policy", "round_robin", "--worker-urls", ...urls],
      async (url) => {
        assert.deepEqual(await models(url), ["org/a"]);
        for (const name of ["org/a", "org/a", "any/name", "org/a"]) {
          const response = await chat(url, name);
          assert.equal(response.status, 200, await response.text());
        }
        const { workers }: { workers: { served: number }[] } = await (await fetch(`${url}/workers`)).json();
        assert.deepEqual(workers.map(({ served }) => served), [2, 2]);
      },
    );
    assert.equal(code, 0, err);
    assert.match(out, /^ {2}org\/a {2}sglang, 2 workers$/m);
    assert.match(err, /^Anybody who reaches 0\.0\.0\.0 can use this server/m);
  });
});

test("workers of several models, SGLang and vLLM, are each asked for theirs; a request goes by its model", async () => {
  const servers: Partial<Engine>[] = [{}, { engine: "vllm", models: ["org/b"] }];
  await withServers(servers, async (urls) => {
    const env = { CANOPY_ROUTER_WORKER_URLS: urls.join(" ") };
    const { code, out, err } = await whileServing(["--enable-igw"], async (url) => {
      assert.deepEqual((await models(url)).sort(), ["org/a", "org/b"]);
      for (const name of ["org/a", "org/b"]) {
        const response = await chat(url, name);
        assert.equal(response.status, 200);
        assert.equal((await response.json()).model, name);
      }
      const missing = await chat(url, "org/c");
      assert.equal(missing.status, 404);
      assert.match(await missing.text(), /org\/c/);
    }, env);
    assert.equal(code, 0, err);
    assert.match(out, /^ {2}org\/a {2}sglang, 1 worker$/m);
    assert.match(out, /^ {2}org\/b {2}vllm, 1 worker$/m);
  });
});

test("a router without workers waits for POST /workers, also from this host while it listens everywhere", async () => {
  await withServers([{}, {}], async ([one = "", other = ""]) => {
    const { code, out, err } = await whileServing(["--enable-igw", "--host", "0.0.0.0"], async (url) => {
      const early = await chat(url, "org/a");
      assert.equal(early.status, 503);
      assert.match(await early.text(), /No worker is here yet: add one by POST \/workers/);
      assert.equal((await fetch(`${url}/health`)).status, 200);
      assert.equal((await fetch(`${url}/readiness`)).status, 503);
      const post = (worker: object) =>
        fetch(`${url}/workers`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(worker),
        });
      const added = await post({ url: one });
      assert.equal(added.status, 202);
      assert.deepEqual((await added.json()).model, "org/a");
      assert.equal((await chat(url, "org/a")).status, 200);
      assert.equal((await fetch(`${url}/readiness`)).status, 200);
      assert.equal((await post({ url: `${one}/` })).status, 409);
      // One that is not up yet joins later.
      const late = await post({ url: "http://127.0.0.1:9", worker_type: "regular" });
      assert.equal(late.status, 202);
      const { worker_id: id, location } = await late.json();
      assert.equal(id, "http://127.0.0.1:9");
      const waiting = await (await fetch(`${url}${location}`)).json();
      assert.match(waiting.last_error, /has not named its model yet/);
      assert.equal((await fetch(`${url}${location}`, { method: "DELETE" })).status, 202);
      assert.equal((await fetch(`${url}${location}`)).status, 404);
      const second = await (await post({ url: other, model_id: "org/a" })).json();
      assert.equal((await fetch(`${url}${second.location}`, { method: "DELETE" })).status, 202);
      // A page whose name was bound to our address, and somebody behind a proxy, are not this host.
      for (const headers of [{ "x-forwarded-for": "203.0.113.9" }]) {
        const proxied = await fetch(`${url}/workers`, {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: JSON.stringify({ url: other }),
        });
        assert.equal(proxied.status, 403);
        assert.match(await proxied.text(), /From another host this route needs an admin key/);
      }
    });
    assert.equal(code, 0, err);
    assert.match(out, /No worker is here yet: POST http:\/\/127\.0\.0\.1:\d+\/workers/);
  });
});

test("engines on other hosts may add themselves without a key where their hosts are named, and others may not", async () => {
  await withServers([{}], async ([one = ""]) => {
    const args = ["--enable-igw", "--set", 'server.worker_hosts=["gpu7"]'];
    const { code, err } = await whileServing(args, async (url) => {
      // As somebody behind a proxy: not from this host.
      const post = (worker: string) =>
        fetch(`${url}/workers`, {
          method: "POST",
          headers: { "content-type": "application/json", "x-forwarded-for": "203.0.113.9" },
          body: JSON.stringify({ url: worker }),
        });
      assert.equal((await post(one)).status, 202);
      assert.equal((await post("http://gpu7:30000")).status, 202);
      const refused = await post("http://gpu8:30000");
      assert.equal(refused.status, 403);
      assert.match(
        await refused.text(),
        /"gpu8\\", which is neither this one .* list it in server\.worker_hosts/,
      );
    });
    assert.equal(code, 0, err);
  });
});

test("a vLLM pair is known for one, whichever peer's flag asks for pairs", async () => {
  const pair: Partial<Engine>[] = [{ engine: "vllm" }, { engine: "vllm" }];
  for (const flag of ["--vllm-pd-disaggregation", "--pd-disaggregation", "--mini-lb"]) {
    await withServers(pair, async ([prefill = "", decode = ""]) => {
      const args = [flag, "--prefill", prefill, "--decode", decode];
      const { code, out, err } = await whileServing(args, async (url) => {
        assert.equal((await chat(url, "org/a")).status, 200);
      });
      assert.equal(code, 0, err);
      assert.match(out, /^ {2}org\/a {2}vllm-pd, 1 prefill and 1 decode server$/m);
    });
  }
});
