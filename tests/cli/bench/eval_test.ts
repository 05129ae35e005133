import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { benchCommand } from "../../../cli/bench/bench.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { createSimulator } from "../../../simulator/simulator.ts";
import { fakeIo } from "../fake_io.ts";

/** Runs `canopy bench eval` before one simulated engine of two models that says the right answer to one question. */
async function evaluated(cwd: string, args: readonly string[], failures = 0) {
  const clock = new VirtualClock();
  const engine = createSimulator({
    engine: "vllm",
    models: ["org/m", "org/n"],
    cost: "4b",
    clock,
    seed: "x",
    answers: {
      answer: (prompt) => ({
        text: /bolts/.test(prompt) ? "So it is \\boxed{15}." : "Never mind.",
        doubt: 1,
      }),
    },
  });
  if (failures > 0) engine.inject({ kind: "status_500", count: failures });
  const transport = new MemoryTransport(() => (request, signal) => engine.handle(request, signal));
  const io = fakeIo({ cwd, clock, transport, columns: 200 });
  const work = () => runCommand([benchCommand], ["bench", "eval", ...args], io);
  // A page is drawn by a library that is loaded then, which takes real time.
  const code = args.includes("--html") ? await work() : await clock.run(work);
  return { code, out: io.out.text, err: io.err.text, requests: engine.stats.requests };
}

test("bench eval asks all models that a server lists, calls samples samples, and goes on with its records", async () => {
  const cwd = mkdtempSync(join(tmpdir(), "canopy-eval-"));
  try {
    const args = ["gsm8k", "--ids", "sample/17", "--ids", "sample/0", "--simulated", "--records", "r.jsonl"];
    const cut = await evaluated(cwd, args, 1);
    assert.equal(cut.code, 1);
    assert.match(cut.out, /1 without an answer, left out of all figures: .*500/);
    const whole = await evaluated(cwd, [...args, "--json", "e.json"]);
    assert.equal(whole.code, 0, whole.err);
    assert.equal(whole.requests, 1, "only what failed is asked again");
    assert.match(whole.out, /^Simulated engines, so that no figure says anything about models: http/m);
    assert.match(whole.out, /^GSM8K sample \(21 questions by Canopy, not the data set\): 2 of 21$/m);
    for (const model of ["org/m", "org/n"]) {
      assert.match(whole.out, new RegExp(`^${model} +2 +50\\.0 % +9\\.5 % – 90\\.5 % +0 +1 `, "m"));
    }
    assert.match(whole.out, /^GSM8K sample .* org\/n +2 +0\.0 % +0 +0 +1\.000$/m);
    const again = await evaluated(cwd, [...args, "--html", "e.html"]);
    assert.deepEqual([again.requests, again.out], [0, whole.out]);
    const { simulated, figures } = JSON.parse(readFileSync(join(cwd, "e.json"), "utf8"));
    assert.deepEqual([simulated, figures.length], [true, 2]);
    assert.match(readFileSync(join(cwd, "e.html"), "utf8"), /<figure><svg /);
    const other = await evaluated(cwd, [...args, "--seed", "other"]);
    assert.match(other.err, /Cannot go on with .*r\.jsonl: it was begun with/);
  } finally {
    rmSync(cwd, { recursive: true });
  }
});

test("bench eval refuses what it cannot do before it asks anything", async () => {
  const refused: readonly (readonly [readonly string[], RegExp])[] = [
    [[], /Needs a data set: canopy bench eval SET…/],
    [["gsm8k", "--protocol", "lm-eval"], /--protocol lm-eval is not there yet: .*; use chat/],
    [["humanevalplus"], /Cannot evaluate HumanEval\+ sample .*: answers are programs, .*sandbox/],
    [["gsm8k", "ifbench"], /Cannot evaluate IFBench sample .*: its checkers/],
  ];
  for (const [args, message] of refused) {
    const { code, err, requests } = await evaluated("/", args);
    assert.notEqual(code, 0);
    assert.match(err, message);
    assert.equal(requests, 0);
  }
});
