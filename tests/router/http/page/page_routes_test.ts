import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeApp } from "../fakes.ts";

const HTML = { accept: "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8" };

test("/ is a page for who takes HTML, and for all others the unknown path that it is at other routers", async () => {
  const { app } = fakeApp();
  for (const method of ["GET", "HEAD"]) {
    const page = await app.request("/", { method, headers: HTML });
    assert.equal(page.status, 200);
    assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
    assert.equal(page.headers.get("vary"), "accept");
  }
  const others = [undefined, "*/*", "application/json", "text/html;q=0", "text/htmlx, */*"];
  for (const accept of others) {
    const answer = await app.request("/", accept === undefined ? {} : { headers: { accept } });
    assert.equal(answer.status, 404, String(accept));
    assert.match(await answer.text(), /There is no \/ here/);
  }
  assert.equal((await app.request("/", { method: "POST", headers: HTML })).status, 404);
});

test("the page loads its own files only, runs nothing inline, and stands in nobody's frame", async () => {
  const { app } = fakeApp();
  const html = await (await app.request("/", { headers: HTML })).text();
  assert.doesNotMatch(html, /<script(?![^>]*\bsrc=)|<style|\bon\w+=|javascript:|https?:\/\//i);
  const files = [...html.matchAll(/(?:src|href)="(\/[^"]*)"/g)].map(([, path = ""]) => path);
  assert.deepEqual(files.sort(), ["/page/page.css", "/page/page.js"]);
  for (const path of ["/", ...files]) {
    const answer = await app.request(path, { headers: HTML });
    assert.equal(answer.status, 200, path);
    const policy = answer.headers.get("content-security-policy") ?? "";
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
    assert.match(policy, /frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe|\*/);
    assert.equal(answer.headers.get("x-frame-options"), "DENY");
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
  }
});

test("a browser that has the page is not sent it again", async () => {
  const { app } = fakeApp();
  const etag = (await app.request("/page/page.js")).headers.get("etag") ?? "";
  assert.match(etag, /^"\w{32}"$/);
  const again = await app.request("/page/page.js", { headers: { "if-none-match": etag } });
  assert.equal(again.status, 304);
  assert.equal(await again.text(), "");
  assert.equal((await app.request("/page/page.js", { headers: { "if-none-match": '"other"' } })).status, 200);
});

test("the page is open where keys are asked for, and what it shows is not", async () => {
  const { app } = fakeApp({ config: { server: { api_keys: ["k"], admin_key: "boss" } } });
  assert.equal((await app.request("/", { headers: HTML })).status, 200);
  for (const path of ["/v1/runs", "/v1/config", "/workers", "/metrics", "/v1/models"]) {
    assert.equal((await app.request(path)).status, 401, path);
  }
});

test("pages of other origins can have nothing done", async () => {
  const { app } = fakeApp();
  const headers = { origin: "https://evil.example", "content-type": "application/json" };
  for (
    const [method, path] of [
      ["POST", "/v1/chat/completions"],
      ["DELETE", "/v1/runs/run_1"],
      ["POST", "/workers"],
      ["GET", "/v1/runs"],
      ["GET", "/v1/config"],
    ] as const
  ) {
    const answer = await app.request(path, { method, headers, ...(method === "POST" ? { body: "{}" } : {}) });
    assert.equal(answer.status, 403, path);
  }
});

test("server.page off: there is no page, and no file of it", async () => {
  const { app } = fakeApp({ config: { server: { page: false } } });
  for (const path of ["/", "/page/page.js", "/page/page.css"]) {
    assert.equal((await app.request(path, { headers: HTML })).status, 404, path);
  }
});
