import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { SystemClock } from "../../base/clock.ts";
import { startSimulator } from "../../simulator/serve.ts";
import { startBinary } from "./binary.ts";

test("SIGHUP gives a running program its file's new workers and keys, and cuts no stream", async () => {
  const clock = new SystemClock();
  const start = (seed: string) =>
    startSimulator({ engine: "sglang", models: ["org/a"], cost: "4b", speedup: 0.5, seed, clock });
  const [first, second] = [await start("one"), await start("two")];
  const folder = mkdtempSync(join(tmpdir(), "canopy-e2e-reload-"));
  try {
    const path = join(folder, "canopy.json");
    const write = (worker: string, ...keys: string[]) => {
      const server = { port: 0, api_keys: keys, admin_key: "boss" };
      const models = { a: { model: "org/a", engine: "sglang", tokenizer: false, workers: [worker] } };
      writeFileSync(path, JSON.stringify({ server, models }));
    };
    write(first.url, "k1");
    const binary = await startBinary(["serve", path]);
    try {
      const ask = (key: string, max_tokens: number) =>
        fetch(`${binary.url}/v1/completions`, {
          method: "POST",
          headers: { "content-type": "application/json", authorization: `Bearer ${key}` },
          body: JSON.stringify({ model: "a", prompt: "Hi", max_tokens, ignore_eos: true, stream: true }),
        });
      const streaming = await ask("k1", 200);
      write(second.url, "k2");
      process.kill(binary.process.pid!, "SIGHUP");
      await binary.says(/was read again, in effect for new requests: server\.api_keys, models\.a/);
      assert.equal((await ask("k1", 1)).status, 401);
      assert.match(await (await ask("k2", 1)).text(), /\[DONE\]/);
      writeFileSync(path, "{");
      process.kill(binary.process.pid!, "SIGHUP");
      await binary.says(/The configuration stays as it was: .*canopy\.json:1/);
      assert.equal((await ask("k2", 1)).status, 200);
      assert.match(await streaming.text(), /data: \[DONE\]\s*$/);
    } finally {
      assert.equal(await binary.stop(), 0);
    }
  } finally {
    await Promise.all([first.close(), second.close()]);
    rmSync(folder, { recursive: true });
  }
});
