import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fakeApp } from "../fakes.ts";

const REPORT = "<!doctype html>\n<title>Exits &amp; &lt;latencies&gt;</title>\n<h1>Exits</h1>\n";

/** Calls `use` with a folder of reports, and a file beside it that is none of them. */
async function inReports(use: (folder: string) => Promise<void>): Promise<void> {
  const root = mkdtempSync(join(tmpdir(), "canopy-reports-"));
  const folder = join(root, "reports");
  mkdirSync(join(folder, "inner.html"), { recursive: true });
  writeFileSync(join(root, "secret.html"), "secret");
  writeFileSync(join(folder, "old.html"), "<p>No title");
  writeFileSync(join(folder, "exit.html"), REPORT);
  for (const name of ["exit.json", ".hidden.html"]) writeFileSync(join(folder, name), "x");
  symlinkSync(join(root, "secret.html"), join(folder, "link.html"));
  utimesSync(join(folder, "old.html"), 1_700_000_000, 1_700_000_000);
  try {
    await use(folder);
  } finally {
    rmSync(root, { recursive: true });
  }
}

test("the reports of a folder are listed by their titles, the newest first, and shown where nothing can run", async () => {
  await inReports(async (reports) => {
    const { app } = fakeApp({ config: { server: { reports } } });
    const { object, folder, data } = await (await app.request("/v1/reports")).json();
    assert.deepEqual([object, folder], ["list", reports]);
    assert.deepEqual(data.map((one: { name: string; title: string }) => [one.name, one.title]), [
      ["exit.html", "Exits & <latencies>"],
      ["old.html", "old.html"],
    ]);
    assert.deepEqual([data[1].bytes, data[1].modified], [11, 1_700_000_000]);
    const shown = await app.request("/v1/reports/exit.html");
    assert.equal(await shown.text(), REPORT);
    assert.equal(shown.headers.get("content-type"), "text/html; charset=utf-8");
    assert.equal(shown.headers.get("x-content-type-options"), "nosniff");
    const policy = shown.headers.get("content-security-policy") ?? "";
    assert.match(policy, /^default-src 'none';.*; sandbox$/);
    assert.doesNotMatch(policy, /script|allow-|\*/);
  });
});

test("no name leads out of the folder of reports, or to what is no report", async () => {
  await inReports(async (reports) => {
    const { app } = fakeApp({ config: { server: { reports } } });
    for (
      const name of [
        "nobody.html",
        "exit.json",
        ".hidden.html",
        "link.html",
        "inner.html",
        "..",
        "../secret.html",
        "..%2Fsecret.html",
        "%2e%2e%2fsecret.html",
        "..%5Csecret.html",
        "inner.html%2F..%2Fexit.html",
        "exit.html%00",
        "exit.html%00.html",
        "%E0%A4%A.html",
      ]
    ) {
      const answer = await app.request(`/v1/reports/${name}`);
      assert.equal(answer.status, 404, name);
      assert.doesNotMatch(await answer.text(), /^secret/);
    }
  });
});

test("reports are for who may see the configuration, and for no page from elsewhere", async () => {
  await inReports(async (reports) => {
    const keyed = fakeApp({ config: { server: { reports, api_keys: ["alice"], admin_key: "boss" } } });
    const bare = fakeApp({ config: { server: { reports, host: "0.0.0.0", allowed_hosts: ["*"] } } });
    for (const path of ["/v1/reports", "/v1/reports/exit.html"]) {
      const status = async (app: typeof keyed.app, headers: Record<string, string>) =>
        (await app.request(path, { headers })).status;
      assert.equal(await status(keyed.app, {}), 401);
      assert.equal(await status(keyed.app, { authorization: "Bearer alice" }), 403);
      assert.equal(await status(keyed.app, { authorization: "Bearer boss" }), 200);
      assert.equal(await status(bare.app, {}), 403);
      assert.equal(
        await status(fakeApp({ config: { server: { reports } } }).app, { origin: "https://evil.example" }),
        403,
      );
    }
  });
});

test("without a folder there are no reports, and one that cannot be read is named", async () => {
  const none = fakeApp().app;
  assert.deepEqual(await (await none.request("/v1/reports")).json(), {
    object: "list",
    folder: null,
    data: [],
  });
  assert.equal((await none.request("/v1/reports/exit.html")).status, 404);
  const gone = await fakeApp({ config: { server: { reports: "no/such/folder" } } }).app.request(
    "/v1/reports",
  );
  assert.equal(gone.status, 500);
  assert.match(await gone.text(), /Cannot list the reports in no\/such\/folder \(server\.reports\)/);
});
