import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../properties.ts";
import { Random } from "../../base/random.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import { BUILTIN_TOKENIZER } from "../../simulator/text/tokenizer.ts";
import { ask, eventsOf } from "./warm_world.ts";
import { makeWorld, type World } from "./world.ts";

async function play(
  options: Omit<Parameters<typeof makeWorld>[0], "replicas" | "tokenizerPath">,
  work: (ask: (question: string) => Promise<RunRecord>, world: World) => Promise<void>,
): Promise<void> {
  const world = makeWorld({ ...options, replicas: 1, tokenizerPath: BUILTIN_TOKENIZER });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    await work((question) => ask(router, "moa", question), world);
    await router.close();
  }, { limitMs: 3_000_000 });
}

/** Writers of answers of exactly so many tokens, and one reader. */
function readerOf(lengths: readonly number[], more: Record<string, unknown> = {}) {
  return {
    layers: [
      {
        agents: lengths.map((max_tokens, index) => ({
          model: index % 2 === 0 ? "4b" : "8b",
          sampling: { max_tokens, ignore_eos: true, seed: index },
        })),
      },
      { agents: [{ model: "32b", sampling: { max_tokens: 16384 } }] },
    ],
    ...more,
  };
}

const promptOf = (record: RunRecord, agent: string): string => {
  const prompt = record.agents.find(({ id }) => id === agent)?.prompt;
  assert.ok(prompt?.kind === "tokens", JSON.stringify(prompt?.kind));
  return builtinTokenizer().decode(prompt.ids);
};

test("A short question is answered although max_tokens of 13 agents could never fit together", async () => {
  const three = [{ model: "4b" }, { model: "8b" }, { model: "32b" }];
  const moa = {
    sampling: { max_tokens: 16384 },
    layers: [{ clusters: 3, agents: three }, { agents: three }, { agents: [{ model: "32b" }] }],
  };
  await play({ seed: "13 agents", graphs: { moa }, contextTokens: 32768 }, async (ask) => {
    const record = await ask("Why is the sky blue?");
    assert.equal(record.state, "done");
    assert.deepEqual(record.agents.map(({ state }) => state), Array(13).fill("done"));
    assert.deepEqual(eventsOf(record, "answers_cut"), []);
    assert.equal(record.usage.cutTokens, undefined);
  });
});

test("max_tokens is lowered to what the prompt leaves of the context, and the trace says so", async () => {
  await play({ seed: "left", graphs: { moa: readerOf([500, 500]) }, contextTokens: 2048 }, async (ask) => {
    const record = await ask("Why?");
    assert.equal(record.state, "done");
    const [lowered] = eventsOf(record, "max_tokens_lowered", "l2.c1.a1");
    const prompt = Number(lowered?.data?.["prompt_tokens"]);
    assert.deepEqual(lowered?.data, { from: 16384, to: 2048 - prompt - 1, prompt_tokens: prompt });
    assert.equal(record.agents.at(-1)?.usage?.promptTokens, prompt);
  });
});

test("Answers that are too long for their reader are cut from their middle, the longest first, and all is reported", async () => {
  await play(
    { seed: "cut", graphs: { moa: readerOf([100, 1500, 1300]) }, contextTokens: 2048 },
    async (ask) => {
      const record = await ask("Why?");
      assert.equal(record.state, "done", record.error?.message ?? "");
      const text = promptOf(record, "l2.c1.a1");
      const [short, long, middle] = record.agents.map(({ text }) => text);
      assert.ok(text.includes(short!.trim()), "the short one is whole");
      for (const cut of [long!, middle!]) {
        assert.ok(!text.includes(cut.trim()));
        assert.ok(text.includes(cut.trim().slice(0, 200)), "its beginning is there");
        assert.ok(text.includes(cut.trim().slice(-200)), "its end is there");
      }
      assert.equal([...text.matchAll(/\[\d+ tokens left out\]/g)].length, 2);
      const [event] = eventsOf(record, "answers_cut", "l2.c1.a1");
      const cuts = event?.data?.["answers"] as { agent: string; tokens: number; kept: number }[];
      assert.deepEqual(cuts.map(({ agent }) => agent), ["l1.c1.a2", "l1.c1.a3"]);
      assert.equal(cuts[0]!.kept, cuts[1]!.kept);
      const left = cuts.reduce((sum, { tokens, kept }) => sum + tokens - kept, 0);
      assert.equal(record.usage.cutTokens, left);
      // A quarter of the context is the reader's own.
      assert.ok(record.agents.at(-1)!.usage!.promptTokens <= 2048 * 3 / 4);
      assert.ok(
        record.agents.at(-1)!.usage!.promptTokens > 2048 * 3 / 4 - 120,
        "not much more than needed is cut",
      );
    },
  );
});

test("With on_overflow refuse the reader fails, and its error says what to do", async () => {
  const moa = readerOf([100, 1500, 1300], { on_overflow: "refuse" });
  await play({ seed: "cut", graphs: { moa }, contextTokens: 2048 }, async (ask) => {
    const record = await ask("Why?");
    assert.equal(record.state, "failed");
    assert.match(
      record.agents.at(-1)?.error ?? "",
      /l2\.c1\.a1 \(model 32b\) cannot read its precursors' answers: its prompt has \d+ tokens, and 1536 of its context of 2048 are for it; lower max_tokens .* or set on_overflow to "cut_middle"/,
    );
  });
});

const overflows = often(4);

test(
  `${overflows} seeds of answers too long for their readers: every prompt is the same with warming on, off and at any pace`,
  {
    timeout: 120_000,
  },
  async () => {
    let cut = 0;
    let warms = 0;
    for (let index = 0; index < overflows; index++) {
      const random = new Random(`overflow ${index}`);
      const lengths = Array.from({ length: 1 + random.int(4) }, () => 20 + random.int(900));
      const slots = "declared";
      const pace = random.pick([{ mode: "on" }, { mode: "auto" }, {
        mode: "on",
        chunk_tokens: 1 + random.int(64),
      }]);
      const said: unknown[] = [];
      for (const incremental_prefill of ["off", pace]) {
        const moa = readerOf(lengths, { slots, incremental_prefill });
        await play(
          { seed: `overflow ${index}`, graphs: { moa }, contextTokens: 1024 },
          async (ask, world) => {
            const record = await ask(`Question ${index}: why?`);
            assert.equal(record.state, "done", record.error?.message ?? "");
            said.push(record.agents.map(({ id, prompt, text }) => ({ id, prompt, text })));
            if (incremental_prefill === "off") return;
            cut += eventsOf(record, "answers_cut").length;
            const sent = eventsOf(record, "warm_sent").map(({ data }) => Number(data?.["tokens"]));
            warms += sent.length;
            // Nothing is warmed that could not be sent.
            assert.ok(
              Math.max(0, ...sent) <= 768,
              `${Math.max(...sent)} of ${world.config.models["32b"]?.model}`,
            );
          },
        );
      }
      assert.deepEqual(said[1], said[0], `seed ${index}, ${JSON.stringify(pace)}`);
    }
    assert.ok(cut > overflows / 3, `${cut} prompts were cut`);
    assert.ok(warms > 10 * overflows, `${warms} warms`);
  },
);
