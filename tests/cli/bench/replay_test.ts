import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { fakeIo } from "../fake_io.ts";

function recordOf(id: string, model = "org/Qwen3-8B"): object {
  const agent = (name: string, reads: readonly string[], endedAtMs: number) => ({
    id: name,
    model,
    state: "done",
    reads,
    first_token_at_ms: endedAtMs / 2,
    ended_at_ms: endedAtMs,
  });
  const agents = [agent("a", [], 300), agent("b", [], 320), agent("root", ["a", "b"], 700)];
  return {
    object: "run",
    id,
    graph: "moa",
    state: "done",
    created: 1_700_000_000,
    texts_kept: false,
    usage: {
      agents: agents.map(({ id }) => ({ agent: id, calls: 1, prompt_tokens: 200, completion_tokens: 30 })),
    },
    agents,
  };
}

async function replay(lines: readonly unknown[], args: readonly string[] = []) {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-replay-"));
  try {
    const input = lines.map((line) => typeof line === "string" ? line : JSON.stringify(line)).join("\n");
    const io = fakeIo({ input, cwd, columns: 200 });
    const code = await runCommand([benchCommand], ["bench", "replay", "-", ...args], io);
    const read = (name: string) => args.includes(name) ? readFileSync(join(cwd, name), "utf8") : "";
    return { code, out: io.out.text, err: io.err.text, json: read("r.json"), markdown: read("r.md") };
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

test("canopy bench replay says of each run what was recorded and what is simulated, and what stands in for what it does not know", async () => {
  const files = ["--json", "r.json", "--markdown", "r.md", "--mode", "off", "--mode", "auto"];
  const { code, out, err, json, markdown } = await replay([recordOf("run_1"), recordOf("run_2")], files);
  assert.equal(code, 0, err);
  for (const text of [out, markdown]) {
    assert.match(text, /Simulated, not measured: cost model of 2 H200 GPUs; SGLang/);
    assert.match(text, /costs of the models \(simulated\): org\/Qwen3-8B as 8b/);
    assert.match(text, /2 runs without texts: /);
    assert.match(text, /arrivals are known to the second/);
    assert.match(text, /records have no log-probabilities/);
    assert.doesNotMatch(text, /NaN|undefined/);
  }
  assert.match(out, /Runs, #2 without incremental prefill \(simulated\)/);
  assert.match(out, /run_2 +moa +0\.0 ms +700\.0 ms +\d/);
  const { simulated, settings, results } = JSON.parse(json);
  assert.deepEqual([simulated, settings.costs, settings.file], [true, { "org/Qwen3-8B": "8b" }, "-"]);
  assert.deepEqual(results.map(({ mode, runs }: { mode: string; runs: unknown[] }) => [mode, runs.length]), [
    ["off", 2],
    ["auto", 2],
  ]);
});

test("lines that are no runs, files without any, and models of which nothing is known are refused by name", async () => {
  const refused = async (lines: readonly unknown[], args: readonly string[] = []) => {
    const { code, err } = await replay(lines, args);
    assert.notEqual(code, 0);
    return err;
  };
  assert.match(
    await refused([recordOf("run_1"), "", { text: "5" }]),
    /runs from -, line 3: it is no record of a run/,
  );
  assert.match(await refused([recordOf("run_1"), "{"]), /Cannot read runs from -, line 2: /);
  assert.match(await refused([]), /Cannot read runs from -: there is no run in it/);
  assert.match(
    await refused([{ ...recordOf("run_1"), state: "cancelled" }]),
    /none of its 1 runs can be simulated: 1 did not end well/,
  );
  assert.match(
    await refused([recordOf("run_1", "small")]),
    /Nothing says what small takes: add --cost small=SIZE/,
  );
  assert.match(
    await refused([recordOf("run_1")], ["--cost", "7b"]),
    /--cost must be one of 4b, 8b, 32b, or a file .* cannot read "7b"/,
  );
  assert.match(
    await refused([recordOf("run_1")], ["--cost", "x=4b"]),
    /names "x", which is no model here; there are /,
  );
});
