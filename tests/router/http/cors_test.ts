import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { fakeApp } from "./fakes.ts";

const PAGE = "https://chat.example.com";

function appFor(origins: readonly string[]) {
  return fakeApp({ config: { models: {}, server: { cors_origins: origins, api_keys: ["k1"] } } });
}

function preflight(origin: string): RequestInit {
  return {
    method: "OPTIONS",
    headers: {
      origin,
      "access-control-request-method": "POST",
      "access-control-request-headers": "authorization, content-type",
    },
  };
}

test("a browser's preflight is answered, without a key, for the origins of the config only", async () => {
  const { app } = appFor([PAGE, "http://localhost:3000"]);
  const response = await app.request("/v1/completions", preflight(PAGE));
  assert.equal(response.status, 204);
  assert.equal(response.headers.get("access-control-allow-origin"), PAGE);
  assert.match(response.headers.get("access-control-allow-methods") ?? "", /\bPOST\b/);
  assert.equal(response.headers.get("access-control-allow-headers"), "authorization,content-type");
  assert.ok(response.headers.has("x-request-id"));
  const other = await app.request("/v1/completions", preflight("https://evil.example.com"));
  assert.equal(other.headers.has("access-control-allow-origin"), false);
});

test("answers and errors, streams included, may be read by pages of those origins", async () => {
  const { app, chat } = appFor([PAGE]);
  const headers = { origin: PAGE, authorization: "Bearer k1" };
  const answers = [
    await app.request("/v1/models", { headers }),
    await app.request("/v1/models", { headers: { origin: PAGE } }),
    await app.request("/nowhere", { headers }),
    await chat({ stream: true }, { headers }),
  ];
  assert.deepEqual(answers.map(({ status }) => status), [200, 401, 404, 200]);
  for (const answer of answers) {
    assert.equal(answer.headers.get("access-control-allow-origin"), PAGE);
    assert.equal(answer.headers.get("access-control-expose-headers"), "*");
    assert.equal(answer.headers.get("vary"), "Origin");
    assert.ok(answer.headers.has("x-request-id"));
    await answer.text();
  }
  const other = await app.request("/v1/models", {
    headers: { ...headers, origin: "https://evil.example.com" },
  });
  assert.equal(other.headers.has("access-control-allow-origin"), false);
});

test("* stands for every origin; without origins there is no header, and OPTIONS is a 405", async () => {
  const all = await appFor(["*"]).app.request("/v1/completions", preflight(PAGE));
  assert.equal(all.headers.get("access-control-allow-origin"), "*");
  const { app } = fakeApp();
  const none = await app.request("/v1/models", { headers: { origin: PAGE } });
  assert.equal(none.headers.has("access-control-allow-origin"), false);
  assert.equal((await app.request("/v1/completions", preflight(PAGE))).status, 405);
});

test("what is no origin is refused in the config", () => {
  const parse = (origin: string) =>
    configSchema.safeParse({ models: {}, server: { cors_origins: [origin] } }).success;
  for (const origin of ["*", PAGE, "http://localhost:3000"]) assert.ok(parse(origin), origin);
  for (
    const origin of ["", "chat.example.com", `${PAGE}/`, `${PAGE}/path`, "https://*.example.com", "null"]
  ) {
    assert.equal(parse(origin), false, origin);
  }
});
