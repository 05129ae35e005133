import assert from "node:assert/strict";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { loadConfig } from "../../../cfgs/load/load.ts";
import { findServers } from "../../../cli/kit/init/find_servers.ts";
import { initCommand } from "../../../cli/init/init.ts";
import { starterConfig } from "../../../cli/kit/init/starter_config.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serveCommand } from "../../../cli/serve/serve.ts";
import { startSimulator } from "../../../simulator/serve.ts";
import { fakeIo } from "../fake_io.ts";
import { withSystem } from "../served.ts";

async function inFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-init-"));
  try {
    return await use(folder);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** Runs `canopy init` with these arguments in a folder, beside simulated servers of these models. */
async function withEngines(models: readonly string[], use: (urls: string[]) => Promise<void>): Promise<void> {
  await withSystem(async ({ clock }) => {
    const engines = await Promise.all(
      models.map((model, index) =>
        startSimulator({
          engine: index % 2 === 0 ? "vllm" : "sglang",
          models: [model],
          cost: "instant",
          seed: "x",
          clock,
        })
      ),
    );
    try {
      await use(engines.map(({ url }) => url));
    } finally {
      await Promise.all(engines.map((engine) => engine.close()));
    }
  });
}

const init = (cwd: string, ...args: string[]) =>
  withSystem(async (io) => {
    const code = await runCommand([initCommand], ["init", ...args], io);
    return { code, out: io.out.text, err: io.err.text };
  }, { cwd, env: { KEY: "secret" } });

test("canopy init writes a configuration for the servers that it is given, which can be served", async () => {
  await withEngines(["org/Small-3B", "org/Large-32B-Instruct"], async ([small, large]) => {
    await inFolder(async (folder) => {
      const { code, out, err } = await init(folder, "--from", small!, "--from", `${large}/v1/`);
      assert.equal(err, "");
      assert.equal(code, 0);
      assert.ok(
        out.includes(`${small}  vllm: org/Small-3B\n${large}  sglang: org/Large-32B-Instruct\n`),
        out,
      );
      assert.match(out, /in moa small-3b, large-32b-instruct answer, large-32b-instruct joins their answers/);
      assert.match(out, /\nNext:\n {2}canopy serve\n {2}canopy chat "Why is the sky blue\?" --show\n$/);
      const path = join(folder, "canopy.jsonc");
      const { config, warnings } = loadConfig({ path, env: {}, overrides: [] });
      assert.deepEqual(warnings, []);
      const engines = Object.entries(config.models).map((
        [name, { model, engine, workers }],
      ) => [name, model, engine, workers]);
      assert.deepEqual(engines, [
        ["small-3b", "org/Small-3B", "vllm", [small]],
        ["large-32b-instruct", "org/Large-32B-Instruct", "sglang", [large]],
      ]);
      const text = readFileSync(path, "utf8");
      assert.match(text, /"\$schema": "\.\/canopy\.schema\.json"/);
      // What the comment on records says can be put there.
      const records = /"records": \{[^}]*\}/.exec(text)?.[0];
      assert.ok(records !== undefined && text.includes('"canopy serve --records runs.sqlite"'), text);
      writeFileSync(path, text.replace('"port":', `${records}, "port":`));
      const recorded = loadConfig({ path, env: {}, overrides: [] }).config.server.records;
      assert.equal(recorded.file, "runs.sqlite");
      assert.equal(
        JSON.parse(readFileSync(join(folder, "canopy.schema.json"), "utf8")).title,
        "Canopy configuration",
      );
      const again = await init(folder, "--from", small!);
      assert.equal(again.code, 1);
      assert.match(again.err, /canopy\.jsonc is there already: add --force/);
      assert.equal((await init(folder, "--from", small!, "--force")).code, 0);
      assert.match(readFileSync(path, "utf8"), /answers three times/);
    });
  });
});

test("canopy init leaves out who is no server of models, and says why; with none left it writes nothing", async () => {
  await inFolder(async (folder) => {
    const keyed = createServer((request, response) => {
      response.statusCode = request.headers.authorization === "Bearer secret" ? 200 : 401;
      response.end(JSON.stringify({ data: [{ id: "qwen3:4b" }, { id: "nomic-embed-text" }] }));
    });
    await new Promise<void>((resolve) => keyed.listen(0, "127.0.0.1", resolve));
    try {
      const url = `http://127.0.0.1:${(keyed.address() as AddressInfo).port}`;
      const refused = await init(folder, "--from", url, "--from", "http://127.0.0.1:9");
      assert.equal(refused.code, 1);
      assert.ok(
        refused.out.includes(
          `${url}  left out: wants a key: name its environment variable with --api-key-env (status 401)`,
        ),
      );
      assert.match(refused.out, /^http:\/\/127\.0\.0\.1:9 {2}left out: has not named its model yet: /m);
      assert.match(
        refused.err,
        /No server of models answers at .*"canopy serve laboratory" serves small models without any/,
      );
      assert.equal(existsSync(join(folder, "canopy.jsonc")), false);
      const { code, out } = await init(folder, "--from", url, "--api-key-env", "KEY");
      assert.equal(code, 0, out);
      const text = readFileSync(join(folder, "canopy.jsonc"), "utf8");
      assert.match(text, /"qwen3-4b": \{ "model": "qwen3:4b", "engine": "openai", .*"api_key_env": "KEY" \}/);
      assert.doesNotMatch(text, /embed|secret/);
      const unset = await init(folder, "--from", url, "--api-key-env", "NOPE", "--force");
      assert.equal(unset.code, 2);
      assert.match(unset.err, /the environment variable NOPE is not set/);
    } finally {
      await new Promise((resolve) => keyed.close(resolve));
    }
  });
});

test("a starter configuration gives models on several servers all of them, and equal names numbers", () => {
  const config = starterConfig({
    servers: [
      { url: "http://a", engine: "vllm", models: ["org/M-7B", "other/M-7B"] },
      { url: "http://b", engine: "vllm", models: ["org/M-7B", "moa", "text-embedding-3", "tiny-500m"] },
    ],
    port: 8001,
    schema: "x",
  });
  assert.match(
    config!.text,
    /"m-7b": \{ "model": "org\/M-7B", "engine": "vllm", "workers": \["http:\/\/a", "http:\/\/b"\] \}/,
  );
  assert.match(config!.text, /"m-7b-2": \{ "model": "other\/M-7B"/);
  assert.match(config!.text, /"moa-2": \{ "model": "moa"/);
  assert.deepEqual(config!.proposers, ["m-7b", "m-7b-2", "moa-2"]);
  assert.equal(config!.aggregator, "m-7b");
  assert.equal(
    starterConfig({
      servers: [{ url: "http://a", engine: "vllm", models: ["bge-m3"] }],
      port: 1,
      schema: "x",
    }),
    undefined,
  );
});

test("a Canopy that runs is no engine, and a port at which nobody listens is nobody", async () => {
  await withSystem(async (io) => {
    const canopy = createServer((request, response) =>
      response.end(
        JSON.stringify(
          request.url === "/openapi.json" ? { info: { title: "Canopy" } } : { data: [{ id: "moa" }] },
        ),
      )
    );
    await new Promise<void>((resolve) => canopy.listen(0, "127.0.0.1", resolve));
    try {
      const url = `http://127.0.0.1:${(canopy.address() as AddressInfo).port}`;
      const { found, refused, silent } = await findServers([url, "http://127.0.0.1:9"], undefined, io);
      assert.deepEqual(found, []);
      assert.deepEqual(refused.map((one) => [one.url, one.problem]), [[
        url,
        "is a Canopy that runs already, and no engine",
      ]]);
      assert.deepEqual(silent.map((one) => one.url), ["http://127.0.0.1:9"]);
    } finally {
      await new Promise((resolve) => canopy.close(resolve));
    }
  });
});

test("canopy serve in a folder without a configuration offers one; who declines, or cannot answer, is told how", async () => {
  await inFolder(async (folder) => {
    const declined = { ...fakeIo({ cwd: folder, typed: ["n"] }), canAsk: true };
    assert.equal(await runCommand([serveCommand], ["serve"], declined), 2);
    assert.match(
      declined.err.text,
      /No configuration: .*or let "canopy init" write one for the servers that run here/,
    );
    // Nobody listens at any port of this network.
    const accepted = { ...fakeIo({ cwd: folder, typed: ["", ""] }), canAsk: true };
    assert.equal(await runCommand([serveCommand], ["serve"], accepted), 1);
    assert.match(accepted.out.text, /^Looking at ports 11434, 8000, /);
    assert.match(accepted.err.text, /No server of models runs here: start one, or name one with --from URL/);
    writeFileSync(join(folder, "canopy.json"), "{");
    const present = { ...fakeIo({ cwd: folder }), canAsk: true };
    assert.equal(await runCommand([serveCommand], ["serve"], present), 1);
    assert.doesNotMatch(present.out.text, /Looking/);
  });
});
