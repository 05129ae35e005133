/** Prompts are prefilled ahead without a word in the configuration: a preset and README's example, as they stand. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { takePorts } from "../ports.ts";
import { runBinary, type RunningBinary, startBinary } from "./binary.ts";
import { assertOverlap, overlapOf, tokensKnown } from "./overlap_share.ts";

test("launch launch-6-gpus-pd --engine sim: 95 % of the spliced tokens were cached, say all who tell", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-overlap-"));
  const where = ["--state-dir", folder];
  const ports = await takePorts();
  try {
    const launched = await runBinary([
      ...["launch", "launch-6-gpus-pd", "--engine", "sim", "--gpus", "6xH200"],
      ...["--detach", "--port", "0", "--base-port", `${ports.base}`],
      ...where,
    ]);
    assert.equal(launched.code, 0, launched.stderr);
    const url = /Canopy is listening on (http:\S+) /.exec(launched.stdout)?.[1] ?? "";
    await tokensKnown(url);
    await assertOverlap(() => overlapOf(url, "moa", "launch-6-gpus-pd"), t);
  } finally {
    await runBinary(["stop", ...where]);
    rmSync(folder, { recursive: true });
    await ports.release();
  }
});

test("README's example over canopy sim: 95 % of the spliced tokens were cached, say all who tell", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-overlap-"));
  const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
  const [, config = ""] = /```jsonc\n([^]*?)```/.exec(readme) ?? [];
  const sims = [...readme.matchAll(/^canopy (sim .*) --port (\d+) &$/gm)];
  assert.equal(sims.length, 2);
  const running: RunningBinary[] = [];
  try {
    let text = config;
    for (const [, args = "", port = ""] of sims) {
      const sim = await startBinary([...args.split(" "), "--port", "0"]);
      running.push(sim);
      text = text.replaceAll(`:${port}`, `:${new URL(sim.url).port}`);
    }
    const file = join(folder, "canopy.jsonc");
    writeFileSync(file, text);
    const router = await startBinary(["serve", file, "--port", "0"]);
    running.push(router);
    await tokensKnown(router.url);
    await assertOverlap(() => overlapOf(router.url, "moa", file), t);
  } finally {
    for (const { stop } of running.reverse()) await stop();
    rmSync(folder, { recursive: true });
  }
});
