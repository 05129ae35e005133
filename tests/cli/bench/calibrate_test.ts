import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { simCommand } from "../../../cli/sim/sim.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { H200_COSTS } from "../../../simulator/engine/cost.ts";
import { readCostFile } from "../../../simulator/engine/cost_file.ts";
import { createSimulator } from "../../../simulator/simulator.ts";
import { fakeIo } from "../fake_io.ts";

async function canopy(args: readonly string[], cwd: string) {
  const clock = new VirtualClock();
  const simulator = createSimulator({ engine: "vllm", models: ["m"], cost: "4b", clock, seed: "cli" });
  const transport = new MemoryTransport(() => (request, signal) => simulator.handle(request, signal));
  const io = fakeIo({ cwd, clock, transport, columns: 200 });
  const work = () => runCommand([benchCommand, simCommand], args, io);
  // A replay has a clock of its own.
  const code = args.includes("replay") ? await work() : await clock.run(work);
  return { code, out: io.out.text, err: io.err.text };
}

async function inFolder(use: (cwd: string) => Promise<void>): Promise<void> {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-calibrate-"));
  try {
    await use(cwd);
  } finally {
    rmSync(cwd, { recursive: true });
  }
}

const SHORT = ["--max-prompt", "512", "--streams", "4", "--answer-tokens", "8", "--repeats", "1"];

test("canopy bench calibrate writes a cost file with where it is from, which a replay takes for a size of its own", async () => {
  await inFolder(async (cwd) => {
    const calibrate = ["bench", "calibrate", "--url", "http://engine", "--out", "cost.json", ...SHORT];
    const { code, out, err } = await canopy([...calibrate, "--json", "r.json"], cwd);
    assert.equal(code, 0, err);
    assert.match(out, /Simulated engine, so that this is the cost of a simulation: m at http:\/\/engine/);
    assert.match(out, /mean error of the fit 0\.\d %, largest 0\.\d %/);
    assert.doesNotMatch(out, /NaN|undefined/);
    assert.deepEqual(readdirSync(cwd).sort(), ["cost.json", "r.json"]);
    const text = readFileSync(join(cwd, "cost.json"), "utf8");
    const { provenance } = JSON.parse(text);
    assert.deepEqual([provenance.url, provenance.model, provenance.simulated], ["http://engine", "m", true]);
    const { d0, kvTokens } = readCostFile(text);
    assert.ok(Math.abs(d0 / H200_COSTS["4b"].d0 - 1) < 0.01, `${d0}`);
    assert.equal(kvTokens, 1_000_000);
    const agent = { id: "a", model: "small", state: "done", ended_at_ms: 100 };
    const usage = { agents: [{ agent: "a", calls: 1, prompt_tokens: 100, completion_tokens: 10 }] };
    const run = { object: "run", id: "run_1", state: "done", created: 1, usage, agents: [agent] };
    writeFileSync(join(cwd, "runs.jsonl"), JSON.stringify(run));
    const replayed = async (cost: string) => {
      const result = await canopy(["bench", "replay", "runs.jsonl", "--cost", cost, "--json", "p.json"], cwd);
      assert.equal(result.code, 0, result.err);
      const { results, origin } = JSON.parse(readFileSync(join(cwd, "p.json"), "utf8"));
      return { ms: Number(results[0].runs[0].simulatedMs), origin: String(origin) };
    };
    const [known, fitted] = [await replayed("4b"), await replayed("small=cost.json")];
    assert.ok(Math.abs(fitted.ms / known.ms - 1) < 0.02, `${fitted.ms} and ${known.ms}`);
    assert.match(fitted.origin, /Simulated, not measured: cost model of 2 calibrated servers/);
  });
});

test("a calibration without a file to write, a cost file that is none, and an endpoint that refuses are said in a sentence", async () => {
  await inFolder(async (cwd) => {
    const refused = async (args: readonly string[]) => {
      const { code, err } = await canopy(args, cwd);
      assert.notEqual(code, 0);
      return err;
    };
    assert.match(await refused(["bench", "calibrate"]), /Needs a file for the cost: --out/);
    writeFileSync(join(cwd, "other.json"), JSON.stringify({ format: "canopy-cost/1", prefill: {} }));
    assert.match(
      await refused(["sim", "--cost", "other.json"]),
      /--cost must be one of 4b, 8b, 32b, instant, or a file .*: prefill\.fixed_ms is not as canopy bench calibrate/,
    );
    assert.match(await refused(["sim", "--cost", "7b"]), /cannot read "7b"/);
    const other = ["bench", "calibrate", "--url", "http://engine", "--model", "none", "--out", "c.json"];
    assert.match(await refused(other), /Cannot calibrate: status 404: /);
    assert.deepEqual(readdirSync(cwd), ["other.json"]);
  });
});
