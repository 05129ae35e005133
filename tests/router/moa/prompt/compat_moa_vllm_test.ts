import assert from "node:assert/strict";
import { test } from "node:test";
import { fillMoaVllm, pythonStrip } from "../../../../router/moa/prompt/compat_moa_vllm.ts";
import { makeWorld, readAll } from "../run_harness.ts";

const propose = { text: "Basing on [responses], answer the question: [input_prompts]" };
const synthesize = { text: "Synthesize.\n[responses]\nQuestion: [input_prompts] ([input_prompts])" };

test("a 3-3-1 run sends, byte for byte, the prompts that MoA-vllm sends", async () => {
  let call = 0;
  const world = makeWorld({
    graph: {
      compat: "moa-vllm",
      sampling: { temperature: 0.7, top_p: 0.9, max_tokens: 1024, repetition_penalty: 1.1 },
      layers: [
        { agents: [{ model: "a" }, { model: "a" }, { model: "a" }], prompt: "propose" },
        { agents: [{ model: "a" }, { model: "a" }, { model: "a" }], prompt: "propose" },
        { agents: [{ model: "a" }], prompt: "synthesize" },
      ],
    },
    prompts: { propose, synthesize },
    capabilities: { tokenIds: true },
    script: () => ({ pieces: [" \n<think>x</think> answer", ` ${++call}\n`], startMs: 1 }),
  });
  await world.clock.run(async () => {
    await readAll(world.start({ question: { kind: "text", text: "What is 2+2?" } }));
  });
  const requests = world.engines.get("a")!.calls.map(({ request }) => request);
  const first = "Basing on , answer the question: What is 2+2?";
  const second = "Basing on <think>x</think> answer 1<think>x</think> answer 2<think>x</think> answer 3, " +
    "answer the question: What is 2+2?";
  const third = "Synthesize.\n<think>x</think> answer 4<think>x</think> answer 5<think>x</think> answer 6\n" +
    "Question: What is 2+2? (What is 2+2?)";
  assert.deepEqual(
    requests.map((request) => request.prompt),
    [first, first, first, second, second, second, third].map((text) => ({ kind: "text", text })),
  );
  for (const { sampling } of requests) {
    assert.deepEqual(sampling, { temperature: 0.7, top_p: 0.9, max_tokens: 1024, repetition_penalty: 1.1 });
  }
});

test("substitution has MoA-vllm's two passes: a question may hold [responses], an answer nothing", () => {
  const answers = [{ agent: "a", text: "A [input_prompts] $& " }, { agent: "b", text: "\tB" }];
  assert.equal(
    fillMoaVllm("Q=[input_prompts] R=[responses]", "say [responses] $1", answers),
    "Q=say A [input_prompts] $&B $1 R=A [input_prompts] $&B",
  );
});

test("texts are stripped as Python strips them", () => {
  assert.equal(pythonStrip(" \u001c\u0085\u00a0x\u2003y\u3000\n"), "x\u2003y");
  assert.equal(pythonStrip("\ufeffx\ufeff"), "\ufeffx\ufeff");
  assert.equal(pythonStrip(" \n\t "), "");
});
