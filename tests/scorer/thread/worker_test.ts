import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { SystemClock } from "../../../base/clock.ts";
import { logger } from "../../../base/log.ts";
import { WorkerScorer } from "../../../scorer/thread/worker_scorer.ts";
import { startScorerThread } from "../../../scorer/thread/worker_thread.ts";
import { modelFolder, reference, referenceText } from "../onnx/onnx_reference.ts";

function open(file: string, folder = modelFolder): WorkerScorer {
  return new WorkerScorer({
    clock: new SystemClock(),
    log: logger("test"),
    start: startScorerThread,
    maxQueued: 256,
    embedder: {
      files: { folder, path: `${folder}/${file}` },
      model: "tiny",
      threads: 1,
      span: "all",
      maxTokens: 4096,
      maxCachedTokens: 100_000,
    },
  });
}

test("the scorer in its thread gives the reference's similarities for answers that stream side by side", async () => {
  const scorer = open("model_kv.onnx");
  const ids = [...new Set(reference.pairs.flatMap(({ a, b }) => [a, b]))];
  const feeds = ids.map((id) => ({ id, feed: scorer.open(id), text: referenceText(id) }));
  for (let at = 0; at < 10_000; at += 7) {
    for (const { feed, text } of feeds) feed.append(text.slice(at, at + 7));
  }
  for (const { feed } of feeds) feed.end();
  const found = await Promise.all(reference.pairs.map(async ({ a, b, fcs, fcs_u, pooled_cosine }) => {
    for (const [metric, expected] of [["fcs", fcs], ["fcs_u", fcs_u], ["cosine", pooled_cosine]] as const) {
      const { value, reason, tokens } = await scorer.similarity(a, b, metric, 60_000);
      assert.equal(reason, undefined);
      assert.ok(Math.abs(value! - expected) < (metric === "cosine" ? 1e-5 : 1e-6), `${metric} of ${a}, ${b}`);
      assert.equal(tokens[0], reference.texts.find(({ id }) => id === a)!.ids.length);
    }
  }));
  assert.equal(found.length, 10);
  assert.equal(scorer.facts?.details["streams"], true);
  await scorer.close();
  assert.match((await scorer.similarity("bakery_a", "bakery_b", "fcs", 300)).reason!, /closed/);
});

test("a model that cannot be loaded is said in the comparison, in one sentence", async () => {
  const scorer = open("no_such_model.onnx");
  scorer.open("a").end();
  scorer.open("b").end();
  const { value, reason } = await scorer.similarity("a", "b", "fcs", 60_000);
  assert.equal(value, undefined);
  assert.match(reason!, /no_such_model\.onnx/);
  await scorer.close();
});

test("the thread does not keep the process alive, and ONNX Runtime reports to nobody", async () => {
  const cache = await mkdtemp(join(tmpdir(), "canopy-test-"));
  try {
    const program = fileURLToPath(new URL("../onnx/onnx_process.ts", import.meta.url));
    const args = "Deno" in globalThis ? ["run", "-A", "--no-check", program] : [program];
    // It keeps an id of this machine there, for what it sends.
    const env = { ...process.env, XDG_CACHE_HOME: cache, DENO_DIR: denoFolder() };
    const { stdout } = await promisify(execFile)(process.execPath, args, { env, timeout: 60_000 });
    assert.ok(Math.abs(JSON.parse(stdout).value - 1) < 1e-6, stdout);
    const left = (await readdir(cache, { recursive: true })).filter((path) => /onnx|device/i.test(path));
    assert.deepEqual(left, []);
  } finally {
    await rm(cache, { recursive: true });
  }
});

/** Deno's packages, which it would look for in the new folder. */
function denoFolder(): string {
  const { DENO_DIR, XDG_CACHE_HOME } = process.env;
  return DENO_DIR ?? join(XDG_CACHE_HOME ?? join(homedir(), ".cache"), "deno");
}
