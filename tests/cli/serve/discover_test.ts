import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chatCommand } from "../../../cli/chat/chat.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serveCommand } from "../../../cli/serve/serve.ts";
import { startSimulator } from "../../../simulator/serve.ts";
import { until } from "../../until.ts";
import { withSystem } from "../served.ts";

const model = { model: "org/a", engine: "vllm", tokenizer: false };

async function withConfig(use: (path: string) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-discover-"));
  try {
    const path = join(folder, "canopy.json");
    writeFileSync(path, JSON.stringify({ server: { port: 0, log_level: "fatal" }, models: { a: model } }));
    await use(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

test("canopy serve finds its workers in Kubernetes and by DNS, and serves with them", async () => {
  const simulator = await withSystem((io) =>
    startSimulator({ engine: "vllm", models: ["org/a"], cost: "instant", seed: "x", clock: io.clock })
  );
  const port = Number(new URL(simulator.url).port);
  const pod = {
    metadata: { name: "a-0", resourceVersion: "1", labels: { "app.kubernetes.io/part-of": "canopy" } },
    spec: { containers: [{ ports: [{ containerPort: port }] }] },
    status: { phase: "Running", podIP: "127.0.0.1", conditions: [{ type: "Ready", status: "True" }] },
  };
  const api = createServer((request, response) => {
    if (request.url?.includes("watch=1")) return void response.write("\n");
    response.end(JSON.stringify({ kind: "PodList", metadata: { resourceVersion: "1" }, items: [pod] }));
  });
  await new Promise<void>((resolve) => api.listen(0, "127.0.0.1", () => resolve()));
  const address = api.address();
  const apiPort = typeof address === "object" && address !== null ? address.port : 0;
  try {
    await withConfig(async (path) => {
      for (
        const source of [
          ["--discover", "kubernetes", "--kubernetes-api", `http://127.0.0.1:${apiPort}/`],
          ["--discover", "dns", "--dns", `a=localhost:${port}`],
        ]
      ) {
        await withSystem(async (io) => {
          const serving = runCommand([serveCommand], ["serve", path, ...source], io);
          try {
            let url: string | undefined;
            while ((url = /listening on (\S+)/.exec(io.out.text)?.[1]) === undefined) await io.clock.sleep(5);
            const chat = ["chat", "Hello", "--url", url, "--model", "a"];
            await until(
              `served with ${source.join(" ")}`,
              async () => await withSystem((own) => runCommand([chatCommand], chat, own)) === 0,
            );
          } finally {
            io.interrupt();
            assert.equal(await serving, 0);
            assert.equal(io.err.text, "");
          }
        });
      }
    });
  } finally {
    await simulator.close();
    api.closeAllConnections();
    await new Promise<void>((resolve) => api.close(() => resolve()));
  }
});

test("a model whose servers are found by DNS alone needs none in the configuration", async () => {
  await withConfig(async (path) => {
    const pairs = { server: { port: 0, log_level: "fatal" }, models: { a: { ...model, engine: "vllm-pd" } } };
    writeFileSync(path, JSON.stringify(pairs));
    await withSystem(async (io) => {
      const names = ["--dns-prefill", "a=localhost:1", "--dns-decode", "a=localhost:2"];
      const serving = runCommand([serveCommand], ["serve", path, ...names], io);
      await until("it listens", () => /listening on/.test(io.out.text));
      io.interrupt();
      assert.equal(await serving, 0);
      assert.equal(io.err.text, "");
    });
  });
});

test("options of discovery that do not fit are told", async () => {
  await withConfig(async (path) => {
    const cases: [string[], RegExp][] = [
      [["--discover", "dns"], /Option --discover dns needs names: add --dns MODEL=NAME:PORT/],
      [["--dns", "a"], /Option --dns must look like MODEL=NAME:PORT: current value is "a"/],
      [["--dns", "a=engines"], /must look like MODEL=NAME:PORT/],
      [["--dns-prefill", "b=engines:1"], /Option --dns-prefill names model "b", and there are a /],
      [["--discover", "kubernetes"], /works in a pod: elsewhere run kubectl proxy and add --kubernetes-api/],
      [["--discover", "kubernetes", "--kubernetes-api", "x"], /must be a URL: current value is "x"/],
      [["--discover", "consul"], /must be one of kubernetes, dns/],
      [["--selector", "app=x"], /Option --selector has no effect without --discover kubernetes/],
      [
        ["--dns", "a=engines:1", "--discover-port", "1"],
        /--discover-port has no effect without --discover kubernetes/,
      ],
      [
        ["--dns-interval", "5"],
        /Option --dns-interval has no effect without names: add --dns MODEL=NAME:PORT/,
      ],
      [
        ["--dns", "a=engines:1", "--dns-bootstrap-port", "1"],
        /--dns-bootstrap-port has no effect without --dns-prefill/,
      ],
    ];
    for (const [args, message] of cases) {
      await withSystem(async (io) => {
        assert.equal(await runCommand([serveCommand], ["serve", path, ...args], io), 2);
        assert.match(io.err.text, message);
      });
    }
  });
});
