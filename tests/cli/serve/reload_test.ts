import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serveCommand } from "../../../cli/serve/serve.ts";
import { until } from "../../until.ts";
import "../../loopback.ts";
import type { FakeIo } from "../fake_io.ts";
import { withSystem } from "../served.ts";
import { chat, models, whileServing, withServers } from "./routers.ts";

/** `canopy serve FILE`, with a function that writes the file anew. */
async function whileConfigured(
  first: Record<string, unknown>,
  use: (url: string, io: FakeIo, rewrite: (config: Record<string, unknown>) => void) => Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-reload-"));
  try {
    const path = join(folder, "canopy.json");
    const rewrite = (config: Record<string, unknown>) => writeFileSync(path, JSON.stringify(config));
    rewrite(first);
    await withSystem(async (io) => {
      const args = ["serve", path, "--port", "0", "--set", "server.log_level=fatal"];
      const running = runCommand([serveCommand], args, io);
      try {
        let url: string | undefined;
        await until("it listens", () => (url = /listening on (\S+)/.exec(io.out.text)?.[1]) !== undefined);
        await use(url!, io, rewrite);
      } finally {
        io.interrupt();
        assert.equal(await running, 0, io.err.text);
      }
    });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const admin = { authorization: "Bearer boss" };

async function workerUrls(url: string): Promise<string[]> {
  const { workers }: { workers: { url: string }[] } =
    await (await fetch(`${url}/workers`, { headers: admin })).json();
  return workers.map((worker) => worker.url);
}

test("SIGHUP: workers, models, graphs and keys of the file are in effect, and a stream goes on", async () => {
  await withServers([{ cost: "4b" }, {}, { models: ["org/b"] }], async ([a, b, c]) => {
    const model = (name: string, ...workers: (string | undefined)[]) => ({
      model: name,
      engine: "sglang",
      workers,
    });
    const server = { admin_key: "boss", api_keys: ["k1"] };
    const first = { server, models: { a: model("org/a", a) } };
    await whileConfigured(first, async (url, io, rewrite) => {
      const streaming = await fetch(`${url}/v1/completions`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer k1" },
        body: JSON.stringify({ model: "a", prompt: "Hi", max_tokens: 100, ignore_eos: true, stream: true }),
      });
      const graphs = { duo: { layers: [{ agents: [{ model: "a" }] }, { agents: [{ model: "b" }] }] } };
      rewrite({
        server: { ...server, api_keys: ["k2"] },
        models: { a: model("org/a", b), b: model("org/b", c) },
        graphs,
      });
      assert.equal(io.hangUp(), true);
      assert.equal((await chat(url, "a", { authorization: "Bearer k1" })).status, 401);
      const k2 = { authorization: "Bearer k2" };
      for (const name of ["a", "b", "duo"]) assert.equal((await chat(url, name, k2)).status, 200, name);
      assert.deepEqual(await workerUrls(url), [b, c]);
      assert.match(await streaming.text(), /data: \[DONE\]\s*$/);

      rewrite({ server, models: { a: { engine: "sglang" } } });
      io.hangUp();
      assert.deepEqual(await workerUrls(url), [b, c], "a bad file changes nothing");
      const metrics = await (await fetch(`${url}/metrics`, { headers: k2 })).text();
      assert.match(metrics, /canopy_config_reloads_total\{result="applied"\} 1/);
      assert.match(metrics, /canopy_config_reloads_total\{result="refused"\} 1/);
      assert.match(metrics, /canopy_config_last_reload_successful 0/);
    });
  });
});

test("a changed file is in effect without a signal", async () => {
  await withServers([{}], async ([a]) => {
    const models = { a: { model: "org/a", engine: "sglang", workers: [a] } };
    await whileConfigured({ models }, async (url, _io, rewrite) => {
      assert.equal((await chat(url, "a")).status, 200);
      rewrite({ models, server: { api_keys: ["k"], admin_key: "boss" } });
      await until("the key is asked for", async () => (await chat(url, "a")).status === 401);
    });
  });
});

test("named servers of a fleet come and go by SIGHUP, those that were added over HTTP stay", async () => {
  await withServers([{}, {}, {}], async ([a, b, c]) => {
    const server = { admin_key: "boss" };
    await whileConfigured({ server, fleet: { workers: [a] } }, async (url, io, rewrite) => {
      await until("the first has joined", async () => (await models(url)).length === 1);
      const body = JSON.stringify({ url: c });
      const headers = { ...admin, "content-type": "application/json" };
      assert.equal((await fetch(`${url}/workers`, { method: "POST", headers, body })).status, 202);
      rewrite({ server, fleet: { workers: [b], model: { policy: "round_robin" } } });
      io.hangUp();
      await until(
        "they have changed",
        async () => (await workerUrls(url)).sort().join() === [b, c].sort().join(),
      );
      assert.equal((await chat(url, "org/a")).status, 200);
    });
  });
});

test("a router that was started by flags alone hears SIGHUP and goes on", async () => {
  await withServers([{}], async ([a]) => {
    const { code, err } = await whileServing(["--worker-urls", a!], async (url, io) => {
      assert.equal(io.hangUp(), true);
      assert.equal((await chat(url, "org/a")).status, 200);
    });
    assert.equal(code, 0, err);
  });
});
