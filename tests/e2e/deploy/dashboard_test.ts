import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import "../../loopback.ts";
import { mortalEnv } from "../../lifeline.ts";
import { takePorts } from "../../ports.ts";
import { until } from "../../until.ts";
import { startBinary } from "../binary.ts";

// The dashboard's queries, asked of a real Prometheus that looks at a router whose clients meet all that it shows.

const skip = spawnSync("prometheus", ["--version"]).status === 0
  ? false
  : "prometheus is not installed (Debian: prometheus)";

const QUESTION = "Omar writes 13 lines a day for 9 days. What is the number of lines in the end?";

/** Two servers that are well, and answer every question with an error. */
async function startIll(): Promise<{ readonly urls: readonly string[]; close(): void }> {
  const servers = [1, 2].map(() =>
    createServer((request, response) => {
      request.resume();
      response.writeHead(request.method === "GET" ? 200 : 503, { "content-type": "application/json" });
      response.end(JSON.stringify({ object: "list", data: [{ id: "ill", object: "model" }] }));
    })
  );
  await Promise.all(
    servers.map((one) => new Promise<void>((resolve) => one.listen(0, "127.0.0.1", resolve))),
  );
  const urls = servers.map((one) => `http://127.0.0.1:${(one.address() as AddressInfo).port}`);
  return { urls, close: () => servers.forEach((one) => one.close()) };
}

/** The tree of small models, a model whose servers fail, and room for two requests at once. */
const configOf = (ill: readonly string[]) =>
  readFileSync(new URL("../../../cfgs/presets/laboratory.jsonc", import.meta.url), "utf8").replace(
    '"models": {',
    `"server": { "max_running": 2, "max_queued": 1, "log_level": "fatal", "readiness": "any" },
     "models": {
       "ill": {
         "model": "ill", "engine": "openai", "retries": 1, "workers": ${JSON.stringify(ill)},
         "health": { "interval_ms": 500 }, "breaker": { "failures": 100000 }
       },`,
  );

/** Panels' titles with their queries, as Grafana would ask them of a minute. */
function queries(): [title: string, query: string][] {
  const text = readFileSync(new URL("../../../docs/grafana-dashboard.json", import.meta.url), "utf8");
  const { panels }: { panels: { title: string; targets?: { expr: string }[] }[] } = JSON.parse(text);
  return panels.flatMap(({ title, targets = [] }) =>
    targets.map(({ expr }): [string, string] => [title, expr.replaceAll("$__rate_interval", "1m")])
  );
}

async function ask(url: string, model: string): Promise<void> {
  const messages = [{ role: "user", content: QUESTION }];
  const answer = await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages, max_tokens: 40, stream: true }),
  });
  await answer.text();
}

/** True when a query gives a number. */
async function hasData(prometheus: string, query: string): Promise<boolean> {
  const answer = await fetch(`${prometheus}/api/v1/query?query=${encodeURIComponent(query)}`);
  const { status, data, error } = await answer.json();
  assert.equal(status, "success", `${query}: ${error}`);
  return data.result.some(({ value }: { value: [number, string] }) => value[1] !== "NaN");
}

test("each query of the dashboard gives data in a real Prometheus", { skip }, async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-dashboard-"));
  const ports = await takePorts();
  const config = join(folder, "canopy.jsonc");
  const ill = await startIll();
  writeFileSync(config, configOf(ill.urls));
  const router = await startBinary(["serve", config, "--host", "127.0.0.1", "--port", "0"]);
  writeFileSync(
    join(folder, "prometheus.yml"),
    `global: { scrape_interval: 1s }\nscrape_configs:\n- job_name: canopy\n` +
      `  static_configs: [{ targets: ["${new URL(router.url).host}"] }]\n`,
  );
  const url = `http://127.0.0.1:${ports.base}`;
  const prometheus = spawn("prometheus", [
    `--config.file=${join(folder, "prometheus.yml")}`,
    `--storage.tsdb.path=${join(folder, "data")}`,
    `--web.listen-address=127.0.0.1:${ports.base}`,
  ], { stdio: "ignore", env: mortalEnv() });
  try {
    await until("both listen", async () => {
      const answers = [`${router.url}/readiness`, `${url}/-/ready`].map((one) =>
        fetch(one).then(({ ok }) => ok, () => false)
      );
      return (await Promise.all(answers)).every(Boolean);
    });
    const left = new Map(queries().map(([title, query]) => [query, title]));
    assert.ok(left.size > 20);
    await until("data for all panels", async () => {
      await ask(router.url, "ill");
      // More than there is room for.
      await Promise.all(["moa", "moa", "s", "moa", "nobody"].map((model) => ask(router.url, model)));
      for (const query of left.keys()) if (await hasData(url, query)) left.delete(query);
      return left.size === 0;
    }).catch((error) => {
      throw new Error(`No data for ${JSON.stringify([...left])}`, { cause: error });
    });
  } finally {
    prometheus.kill("SIGKILL");
    await router.stop();
    ill.close();
    await ports.release();
    rmSync(folder, { recursive: true, force: true });
  }
});
