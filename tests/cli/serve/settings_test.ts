import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import "../../loopback.ts";
import { withFakeWorkers } from "./fake_worker.ts";
import { chat, whileServing } from "./routers.ts";

test("--prometheus-port has /metrics for everybody, and nothing else", async () => {
  await withFakeWorkers([{}], async ([worker]) => {
    const { code, err } = await whileServing(
      ["--worker-urls", worker!.url, "--api-key", "sk"],
      async (url, io) => {
        const page = /Metrics are at (\S+)/.exec(io.out.text)?.[1]?.replace("//0.0.0.0:", "//127.0.0.1:") ??
          "";
        assert.notEqual(new URL(page).port, new URL(url).port);
        const metrics = await fetch(page);
        assert.equal(metrics.status, 200);
        assert.match(await metrics.text(), /^canopy_requests_in_flight 0$/m);
        for (const path of ["/workers", "/v1/models", "/"]) {
          assert.equal((await fetch(new URL(path, page))).status, 404, path);
        }
      },
    );
    assert.equal(code, 0, err);
  });
});

test("a server that answers 500 is tried again where there is no other, as by the peers", async () => {
  await withFakeWorkers([{ status: 500 }], async ([worker]) => {
    const { code, err } = await whileServing(["--worker-urls", worker!.url], async (url) => {
      assert.ok((await chat(url, "org/a")).status >= 500);
    });
    assert.equal(code, 0, err);
    const sent = worker!.seen.filter(({ path }) => path === "/v1/chat/completions");
    assert.equal(sent.length, 5);
  });
});

test("--retry-max-retries is the number of attempts in all", async () => {
  for (
    const [flags, attempts] of [
      [["--retry-max-retries", "2"], 2],
      [["--disable-retries"], 1],
      // All of them have failed once by then: they are asked again.
      [[], 5],
    ] as const
  ) {
    await withFakeWorkers([{ status: 500 }, { status: 500 }, { status: 500 }], async (workers) => {
      const urls = workers.map(({ url }) => url);
      const { code, err } = await whileServing(["--worker-urls", ...urls, ...flags], async (url) => {
        const answer = await chat(url, "org/a");
        assert.ok(answer.status >= 500);
      });
      assert.equal(code, 0, err);
      const sent = workers.flatMap(({ seen }) => seen).filter(({ path }) => path === "/v1/chat/completions");
      assert.equal(sent.length, attempts, flags.join(" "));
    });
  }
});

test("--log-dir, --request-id-headers and --cors-allowed-origins", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-logs-"));
  try {
    await withFakeWorkers([{}], async ([worker]) => {
      const flags = ["--log-dir", join(folder, "logs"), "--request-id-headers", "x-my-id"];
      const origins = ["--cors-allowed-origins", "https://a.example", "https://b.example"];
      const args = ["--worker-urls", worker!.url, ...flags, ...origins, "--set", "server.log_level=info"];
      const { code, err } = await whileServing(args, async (url) => {
        const answer = await chat(url, "org/a", { "x-my-id": "id-1", "x-request-id": "id-2" });
        assert.equal(answer.headers.get("x-request-id"), "id-1");
        const preflight = await fetch(`${url}/v1/chat/completions`, {
          method: "OPTIONS",
          headers: { "origin": "https://b.example", "access-control-request-method": "POST" },
        });
        assert.equal(preflight.headers.get("access-control-allow-origin"), "https://b.example");
      });
      assert.equal(code, 0, err);
      assert.match(readFileSync(join(folder, "logs", "canopy.log"), "utf8"), /serves model org\/a/);
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("--disable-health-check asks no worker for its health, --health-check-endpoint asks elsewhere", async () => {
  await withFakeWorkers([{}], async ([worker]) => {
    const paths = () => worker!.seen.map(({ path }) => path);
    await whileServing(["--worker-urls", worker!.url, "--disable-health-check"], async (url) => {
      assert.equal((await chat(url, "org/a")).status, 200);
    });
    assert.ok(!paths().includes("/health"));
    await whileServing(
      ["--worker-urls", worker!.url, "--health-check-endpoint", "v1/models?health"],
      async (url, io) => {
        while (!paths().includes("/v1/models?health")) await io.clock.sleep(5);
        assert.equal((await chat(url, "org/a")).status, 200);
      },
    );
    assert.ok(!paths().includes("/health"));
  });
});
