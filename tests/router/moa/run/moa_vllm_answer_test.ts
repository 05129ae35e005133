import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../../properties.ts";
import { pythonStrip, pythonStripper } from "../../../../router/moa/prompt/compat_moa_vllm.ts";
import { errorOf, makeWorld, readAll } from "../run_harness.ts";
import { brokenWorker } from "../fake_engine.ts";

const prompts = { ask: { text: "Q: [input_prompts]" }, merge: { text: "R: [responses]" } };
const proposers = { agents: [{ model: "a", prompt: "ask" }] };
const graph = (last: number) => ({
  compat: "moa-vllm",
  layers: [proposers, { agents: Array.from({ length: last }, () => ({ model: "a", prompt: "merge" })) }],
});

test("the last agent's text is stripped while it streams, as MoA-vllm strips it", async () => {
  const world = makeWorld({
    graph: graph(1),
    prompts,
    script: () => ({ pieces: ["\n", " The", " answer\n", "\n", "is 4. ", "\n"] }),
  });
  await world.clock.run(async () => assert.deepEqual(await readAll(world.start()), ["The answer\n\nis 4."]));
});

test("where log-probabilities are asked for, the text stays whole", async () => {
  const world = makeWorld({ graph: graph(1), prompts, script: () => ({ pieces: [" x "] }) });
  await world.clock.run(async () =>
    assert.deepEqual(await readAll(world.start({ rootLogprobs: 0 })), [" x "])
  );
});

test("texts that come in pieces are stripped as whole ones are", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom(" ", "\n", "\u0085", "a", "\ufeff") })),
      (pieces) => {
        const strip = pythonStripper();
        assert.equal(pieces.map(strip).join(""), pythonStrip(pieces.join("")));
      },
    ),
  );
});

test("several last agents answer one after the other, in the order of the file, each text stripped", async () => {
  let last = 0;
  const world = makeWorld({
    graph: graph(2),
    prompts,
    script: ({ prompt }) => {
      if (prompt.startsWith("Q")) return { pieces: [" seen "] };
      return ++last === 1 ? { pieces: [" one\n"], startMs: 50 } : { pieces: ["two "], startMs: 5 };
    },
  });
  await world.clock.run(async () => {
    const run = world.start({ rootSampling: { max_tokens: 7 } });
    assert.deepEqual(await readAll(run), ["onetwo"]);
    assert.equal(run.record().state, "done");
    assert.deepEqual(run.record().agents.map(({ state }) => state), ["done", "done", "done"]);
    const sent = world.engines.get("a")!.calls.map(({ request }) => request.sampling.max_tokens);
    assert.deepEqual(sent.slice(1), [7, 7]);
  });
  world.assertIdle();
});

test("one of several last agents that fails ends the run, as there", async () => {
  let calls = 0;
  const world = makeWorld({
    graph: graph(2),
    prompts,
    workers: ["w1"],
    script: () =>
      ++calls === 2 ? { pieces: [], failAt: { piece: 0, error: brokenWorker("w1") } } : { pieces: ["x"] },
  });
  await world.clock.run(async () => {
    assert.match(String(await errorOf(world.start())), /l2\.joined needs 2 of 2 answers/);
  });
  world.assertIdle();
});
