import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { withSystem } from "../served.ts";

async function bench(...args: string[]) {
  return await withSystem(async (io) => {
    const code = await runCommand([benchCommand], ["bench", "laboratory", ...args], io);
    return { code, out: io.out.text, err: io.err.text };
  });
}

test("bench laboratory measures real models, keeps what it has measured, and writes a page and JSON", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-laboratory-"));
  try {
    const [rows, html, json] = ["rows.jsonl", "r.html", "r.json"].map((name) => join(folder, name));
    const args = ["--questions", "1", "--part", "singles", "--part", "predictors", "--resume", rows!];
    const first = await bench(...args, "--html", html!, "--json", json!);
    assert.equal(first.code, 0, first.err);
    assert.match(first.out, /Measured, not simulated: laboratory\/s, m and l in this process/);
    for (const size of ["s", "m", "l"]) {
      assert.match(first.out, new RegExp(`^${size} alone +(0\\.0|100\\.0) %`, "m"));
    }
    assert.match(first.out, /^confidence \(geometric\) +right /m);
    assert.match(await readFile(html!, "utf8"), /<h2>Every way to answer<\/h2>/);
    const { simulated, conditions } = JSON.parse(await readFile(json!, "utf8"));
    assert.deepEqual([simulated, conditions.length], [false, 3]);
    const kept = await readFile(rows!, "utf8");
    assert.equal(kept.trim().split("\n").length, 1 + 3 * 1 + 1);
    const again = await bench(...args);
    assert.equal(again.out, first.out, "the same figures, latencies too: nothing was asked again");
    assert.equal(await readFile(rows!, "utf8"), kept);
    const same = await bench("--questions", "1", "--part", "singles", "--same-as", rows!);
    assert.match(same.out, /^l alone +1 +1 +100\.0 % +–$/m, "what draws nothing answers the same again");
    const other = await bench(...args, "--seed", "other");
    assert.equal(other.code, 1);
    assert.match(other.err, /Cannot go on with .*rows\.jsonl: it was begun with/);
  } finally {
    await rm(folder, { recursive: true });
  }
});

test("bench laboratory wants a server for each model, and says which is missing", async () => {
  const { code, err } = await bench("--url", "s=http://127.0.0.1:1", "--url", "m=http://127.0.0.1:2");
  assert.equal(code, 2);
  assert.match(err, /--url must name a server for each of s, m, l.*: l is missing/);
  assert.match((await bench("--engine", "vllm")).err, /--engine needs --url/);
});
