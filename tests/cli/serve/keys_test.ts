import assert from "node:assert/strict";
import { test } from "node:test";
import "../../loopback.ts";
import { withFakeWorkers } from "./fake_worker.ts";
import { chat, models, whileServing } from "./routers.ts";

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

test("--api-key guards the router and goes to the workers", async () => {
  await withFakeWorkers([{ key: "sk" }], async ([worker]) => {
    const { url: workerUrl, seen } = worker!;
    const { code, err } = await whileServing(["--worker-urls", workerUrl, "--api-key", "sk"], async (url) => {
      assert.equal((await chat(url, "org/a")).status, 401);
      assert.equal((await chat(url, "org/a", bearer("other"))).status, 401);
      const added = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
      for (
        const [path, init] of [["/workers", undefined], ["/workers", added], [
          "/v1/models",
          undefined,
        ]] as const
      ) {
        assert.equal((await fetch(url + path, init)).status, 401, path);
      }
      const answered = await chat(url, "org/a", bearer("sk"));
      assert.equal(answered.status, 200, await answered.text());
      assert.equal((await fetch(`${url}/workers`, { headers: bearer("sk") })).status, 200);
      const metrics = await fetch(`${url}/metrics`, { headers: bearer("sk") });
      assert.equal(metrics.status, 200);
    });
    assert.equal(code, 0, err);
    assert.doesNotMatch(err, /Anybody/);
    assert.ok(seen.every(({ headers }) => headers.authorization === "Bearer sk"));
  });
});

test("without a key of the router the client's bearer passes through, and the worker's 401 comes back as 401", async () => {
  await withFakeWorkers([{ key: "theirs" }], async ([worker]) => {
    const { url: workerUrl, seen } = worker!;
    const { code, err } = await whileServing(["--worker-urls", workerUrl], async (url) => {
      assert.deepEqual(await models(url), ["default"]);
      const refused = await chat(url, "org/a", bearer("wrong"));
      assert.equal(refused.status, 401);
      assert.match(await refused.text(), /Unauthorized/);
      assert.equal((await chat(url, "org/a")).status, 401);
      const { workers }: { workers: { breaker: string; failures: number }[] } =
        await (await fetch(`${url}/workers`))
          .json();
      assert.deepEqual(workers.map(({ breaker, failures }) => [breaker, failures]), [["closed", 0]]);
      const answered = await chat(url, "org/a", bearer("theirs"));
      assert.equal(answered.status, 200, await answered.text());
    });
    assert.equal(code, 0, err);
    assert.ok(err.includes(`${workerUrl} wants a key (status 401): it gets those of clients`), err);
    const chats = seen.filter(({ path }) => path === "/v1/chat/completions");
    assert.deepEqual(
      chats.map(({ headers }) => headers.authorization),
      ["Bearer wrong", undefined, "Bearer theirs"],
      "none is sent twice",
    );
    // What the clients send is for generations, not for our own questions.
    assert.ok(
      seen.filter((one) => !chats.includes(one)).every(({ headers }) => headers.authorization === undefined),
    );
  });
});

test("with a key for changes alone, that key stays here and other bearers pass", async () => {
  await withFakeWorkers([{}], async ([worker]) => {
    const { url: workerUrl, seen } = worker!;
    const args = [
      "--worker-urls",
      workerUrl,
      "--control-plane-api-keys",
      "1:Ops:admin:boss",
      "2:R:user:reader",
    ];
    const { code, err } = await whileServing(args, async (url) => {
      assert.equal((await chat(url, "org/a", bearer("boss"))).status, 200);
      assert.equal((await chat(url, "org/a", bearer("mine"))).status, 200);
      for (const [key, status] of [["boss", 200], ["reader", 401], ["", 401]] as const) {
        assert.equal((await fetch(`${url}/workers`, { headers: bearer(key) })).status, status, key);
      }
    });
    assert.equal(code, 0, err);
    const chats = seen.filter(({ path }) => path === "/v1/chat/completions");
    assert.deepEqual(chats.map(({ headers }) => headers.authorization), [undefined, "Bearer mine"]);
  });
});

test("a key that every named worker refuses ends the start at once; one that some refuse is told", async () => {
  await withFakeWorkers([{ key: "a" }, { key: "b" }], async ([one, other]) => {
    const all = await whileServing(["--worker-urls", one!.url, other!.url, "--api-key", "x"], () => {
      throw new Error("It serves");
    });
    assert.equal(all.code, 1);
    assert.ok(
      all.err.includes(`${one!.url} refused our key (status 401): give the router the key of its workers`),
    );
    const some = await whileServing(
      ["--worker-urls", one!.url, other!.url, "--api-key", "a"],
      async (url) => {
        assert.equal((await chat(url, "org/a", bearer("a"))).status, 200);
      },
    );
    assert.equal(some.code, 0, some.err);
    assert.ok(some.err.includes(`${other!.url} refused our key (status 401)`));
  });
});

test("--tenant-api-key adds keys of clients", async () => {
  await withFakeWorkers([{}], async ([worker]) => {
    const args = ["--worker-urls", worker!.url, "--tenant-api-key", "a:ka", "--tenant-api-key", "b:kb"];
    const { code, err } = await whileServing(args, async (url) => {
      for (const [key, status] of [["ka", 200], ["kb", 200], ["a:ka", 401]] as const) {
        assert.equal((await chat(url, "org/a", bearer(key))).status, status, key);
      }
    });
    assert.equal(code, 0, err);
    assert.ok(worker!.seen.every(({ headers }) => headers.authorization === undefined));
  });
});
