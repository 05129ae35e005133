import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../properties.ts";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import { fakeApp } from "../fakes.ts";

const EVIL = "https://evil.example";

/** The status of an answer, and of a refusal the field and the sentence. */
async function outcome(response: Response): Promise<[number, string?, string?]> {
  if (response.status !== 403) return [response.status];
  const { error } = await response.json();
  return [403, error.param, error.message];
}

function appOf(server: Record<string, unknown> = {}) {
  const { app } = fakeApp({ config: { models: {}, server } });
  return (path: string, headers: Record<string, string>, method = "GET") =>
    Promise.resolve(app.request(path, { method, headers })).then(outcome);
}

test("a page of another origin reaches no route of a loopback server but the open ones", async () => {
  const ask = appOf();
  for (const path of ["/v1/models", "/v1/runs", "/workers", "/metrics", "/flush_cache"]) {
    const [status, param, message] = await ask(path, { host: "127.0.0.1:8000", origin: EVIL });
    assert.deepEqual([status, param], [403, "origin"], path);
    assert.match(message ?? "", /https:\/\/evil\.example.*server\.cors_origins/);
  }
  for (const path of ["/v1/chat/completions", "/workers", "/generate", "/abort_request"]) {
    assert.deepEqual((await ask(path, { origin: "null" }, "POST")).slice(0, 2), [403, "origin"], path);
  }
  for (const path of ["/health", "/openapi.json"]) assert.deepEqual(await ask(path, { origin: EVIL }), [200]);
});

test("the server's own pages, listed ones and clients that are no browser are let in", async () => {
  const ask = appOf({ cors_origins: ["https://chat.example.com", "app://obsidian.md"] });
  const host = "localhost:8000";
  for (
    const headers of [
      {},
      { host },
      { host, origin: "http://localhost:8000" },
      { host, origin: "https://localhost:8000" },
      { host, origin: "https://chat.example.com" },
      { host, origin: "app://obsidian.md" },
      { host: "[::1]:8000" },
      { host: "127.0.0.1" },
      { host, "sec-fetch-site": "same-origin" },
      { host, "sec-fetch-site": "none" },
    ]
  ) assert.deepEqual(await ask("/v1/models", headers), [200], JSON.stringify(headers));
  assert.deepEqual((await ask("/v1/models", { host, origin: "http://localhost:3000" }))[0], 403);
  assert.deepEqual(await appOf({ cors_origins: ["*"] })("/v1/models", { host, origin: EVIL }), [200]);
});

test("a page's request that hides its origin is refused: an image, a link", async () => {
  const ask = appOf({ cors_origins: ["https://chat.example.com"] });
  for (const site of ["cross-site", "same-site"]) {
    const [status, param] = await ask("/flush_cache", { "sec-fetch-site": site });
    assert.deepEqual([status, param], [403, "sec-fetch-site"]);
  }
});

test("a name that was bound to the loopback is refused: a page of that name would be the server's own", async () => {
  const rebound = { host: "rebind.evil:8000", origin: "http://rebind.evil:8000" };
  const [status, param, message] = await appOf()("/v1/runs", rebound);
  assert.deepEqual([status, param], [403, "host"]);
  assert.match(message ?? "", /rebind\.evil.*server\.allowed_hosts/);
  const open = appOf({ allowed_hosts: ["canopy.example.com", "*.internal"] });
  assert.deepEqual(await open("/v1/runs", { host: "canopy.example.com" }), [200]);
  assert.deepEqual(await open("/v1/runs", { host: "a.internal:8000" }), [200]);
  assert.deepEqual(await open("/v1/runs", { host: "localhost" }), [200]);
  assert.deepEqual((await open("/v1/runs", { host: "rebind.evil" }))[0], 403);
});

test("elsewhere hosts are free unless they are listed, and keys do for origins", async () => {
  const host = "gpu1:8000";
  const keyed = fakeApp({ config: { models: {}, server: { host: "0.0.0.0", api_keys: ["k"] } } });
  const headers = { host, origin: EVIL, authorization: "Bearer k" };
  assert.equal((await keyed.app.request("/v1/models", { headers })).status, 200);
  const keyless = appOf({ host: "0.0.0.0" });
  assert.deepEqual(await keyless("/v1/models", { host }), [200]);
  assert.deepEqual((await keyless("/v1/models", { host, origin: EVIL })).slice(0, 2), [403, "origin"]);
  const listed = appOf({ host: "0.0.0.0", allowed_hosts: ["gpu1"] });
  assert.deepEqual(await listed("/v1/models", { host }), [200]);
  assert.deepEqual((await listed("/v1/models", { host: "gpu2:8000" })).slice(0, 2), [403, "host"]);
});

test("whatever host and origin a request names, a loopback server lets in loopback names and its own pages only", async () => {
  const word = fc.oneof(
    fc.constantFrom(
      "localhost",
      "127.0.0.1",
      "[::1]",
      "0.0.0.0",
      "127.0.0.1.nip.io",
      "localhost.evil",
      "a@localhost",
    ),
    fc.domain(),
    fc.ipV4(),
    fc.stringMatching(/^[!-~]{1,20}$/),
  );
  const authority = fc.tuple(word, fc.constantFrom("", ":80", ":8000", ":")).map((parts) => parts.join(""));
  const origin = fc.oneof(
    fc.constantFrom("null", ""),
    fc.tuple(fc.constantFrom("http://", "https://", "file://", ""), authority).map((parts) => parts.join("")),
  );
  const ask = appOf();
  await fc.assert(
    fc.asyncProperty(authority, fc.option(origin), async (host, origin) => {
      const [status] = await ask("/v1/runs", { host, ...(origin === null ? {} : { origin }) });
      assert.ok(status === 200 || status === 403);
      if (status === 403) return;
      const name = new URL(`http://${host}`).hostname;
      assert.match(name, /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/);
      if (origin !== null) {
        assert.equal(new URL(origin).host, new URL(`${new URL(origin).protocol}//${host}`).host);
      }
    }),
  );
});

test("what is no host is refused in the config", () => {
  const parse = (server: Record<string, unknown>) => configSchema.safeParse({ models: {}, server }).success;
  for (const name of ["gpu1", "*.example.com", "10.0.0.7", "fd00::1", "[fd00::1]", "*"]) {
    assert.ok(parse({ allowed_hosts: [name], worker_hosts: [name] }), name);
  }
  for (const name of ["", "http://gpu1", "gpu1:8000", "gpu1/", "a b", "*gpu", "a.*"]) {
    assert.equal(parse({ allowed_hosts: [name] }), false, name);
    assert.equal(parse({ worker_hosts: [name] }), false, name);
  }
});
