import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { demoCommand } from "../../../cli/demo/demo.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { withSystem } from "../served.ts";
import { tinyFiles } from "../../embedded/tiny_model.ts";
import { COMMIT, FakeHub } from "../../ml/hub/fake_hub.ts";

test("demo --real says what it would fetch, fetches it when allowed to, and measures all modes on real models", async () => {
  const home = await mkdtemp(join(tmpdir(), "canopy-real-"));
  const files: Record<string, { content: Uint8Array<ArrayBuffer>; large: boolean }> = {};
  for (const [name, path] of Object.entries(tinyFiles)) {
    files[name] = { content: new Uint8Array(await readFile(path)), large: name.endsWith(".onnx") };
  }
  const hub = await FakeHub.start({ files });
  const env = { HF_HOME: home, HF_ENDPOINT: hub.endpoint };
  const demo = async (args: string[], options: Parameters<typeof withSystem>[1] = {}) =>
    await withSystem(async (io) => {
      const code = await runCommand([demoCommand], ["demo", "--real", "--model", "acme/model", ...args], io);
      return { code, out: io.out.text, err: io.err.text };
    }, { env, ...options });
  try {
    const refused = await demo([]);
    assert.equal(refused.code, 1);
    assert.match(refused.err, /acme\/model: 1\.\d MB/);
    assert.ok(
      refused.err.includes(`from ${hub.endpoint} to `) && refused.err.includes("say so with --yes"),
      refused.err,
    );
    assert.match((await demo([], { typed: ["n"] })).err, /nothing was fetched/);
    const offline = await demo([], { env: { ...env, HF_HUB_OFFLINE: "1" } });
    assert.equal(offline.code, 1);
    assert.match(offline.err, /Cannot show real models: HF_HUB_OFFLINE forbids to fetch acme\/model/);
    // Another program has fetched a file of the model that is no ONNX.
    const known = join(home, "hub", "models--acme--model");
    await mkdir(join(known, "snapshots", COMMIT), { recursive: true });
    await mkdir(join(known, "refs"));
    await writeFile(join(known, "refs", "main"), COMMIT);
    await writeFile(join(known, "snapshots", COMMIT, "model.safetensors"), "");
    const shown = await demo(["--yes", "--max-tokens", "6", "--question", "Why is the sky blue?"]);
    assert.equal(shown.code, 0, shown.err);
    assert.match(shown.err, /onnx\/model\.onnx: 1\.\d MB of 1\.\d MB, 100 %/);
    assert.match(shown.out, /^Question 1 of 1: Why is the sky blue\?$/m);
    for (const mode of [1, 2, 3, 4]) assert.match(shown.out, new RegExp(`^#${mode} .* [\\d.]+ (ms|s) `, "m"));
    // Fetched once.
    assert.equal((await demo(["--max-tokens", "2", "--question", "Why?"])).code, 0);
  } finally {
    await hub.close();
    await rm(home, { recursive: true });
  }
});

test("demo --real refuses options of other demonstrations", async () => {
  for (const args of [["--real", "--speedup", "2"], ["--real", "--url", "http://h"], ["--yes"]]) {
    await withSystem(async (io) => {
      assert.equal(await runCommand([demoCommand], ["demo", ...args], io), 2);
      assert.match(io.err.text, /--real/);
    });
  }
});
