import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { Random } from "../../../../base/random.ts";
import { configSchema, promptSchema } from "../../../../cfgs/schema/config.ts";
import type { ChatMessage } from "../../../../ml/tokenizers/chat_message.ts";
import type { AgentNode } from "../../../../router/moa/graph/graph_types.ts";
import { parseTemplate } from "../../../../router/moa/graph/template.ts";
import type { Precursor } from "../../../../router/moa/prompt/answer_layout.ts";
import { AskedPrompt } from "../../../../router/moa/prompt/asked_prompt.ts";
import { RunPrompts } from "../../../../router/moa/prompt/run_prompts.ts";
import type { ServedModel } from "../../../../router/served/served_model.ts";
import { builtinTokenizer } from "../../../../simulator/server/backend.ts";
import { FakeEngine } from "../fake_engine.ts";
import { noMembership } from "../../no_membership.ts";

const { models } = configSchema.parse({ models: { m: { model: "some/model", engine: "vllm" } } });
const WORDS =
  "the sum of all numbers below one hundred is, as Gauss found; 4950.\n\nNa\u00efvely \u{1f600} so".split(
    /(?<=\s)/,
  );

/** What an engine makes of a conversation. */
function tokensOf(messages: readonly ChatMessage[]): readonly number[] {
  return builtinTokenizer().encode(builtinTokenizer().renderChat(messages));
}

/** A model whose tokenizer nobody here knows, and whose engine is asked. */
function world(prompt: unknown, tell: (messages: readonly ChatMessage[]) => readonly number[] = tokensOf) {
  let asked = 0;
  const engine = new FakeEngine(new VirtualClock(), () => ({ pieces: [] }), {
    capabilities: { tokenIds: true },
  });
  const served: ServedModel = {
    name: "m",
    config: models["m"]!,
    engine,
    pool: engine.pool,
    membership: noMembership,
    tokenizer: undefined,
    askTokens: async (messages) => {
      asked++;
      await Promise.resolve();
      return tell(messages);
    },
  };
  const node: AgentNode = {
    id: "reader",
    model: "m",
    template: parseTemplate(promptSchema.parse(prompt)),
    sampling: {},
    deadlineMs: undefined,
    onDeadline: "drop",
    reads: [],
  };
  const precursors: Precursor[] = [];
  const prompts = new RunPrompts({ kind: "chat", messages: [{ role: "user", content: "Why?" }] });
  const target = { node, served, sampling: {} };
  const open = () => {
    const spliced = prompts.splice(target, {
      slots: "declared",
      precursors: () => precursors,
      key: "0123456789abcdef",
    });
    assert.ok(spliced instanceof AskedPrompt, JSON.stringify(spliced));
    return spliced;
  };
  return { open, precursors, prompts, target, asks: () => asked };
}

const PROMPTS = [
  { system: "Read these:\n[responses]\nNow answer." },
  { system: "Read these:\n[responses]", user: "Q: [input_prompts]" },
  { user: "[input_prompts]\n[responses]\nWhich is best?" },
  { system: "First <|answer:a0|>.", user: "Then <|answer:a1|> and [input_prompts]" },
];

for (const prompt of PROMPTS) {
  test(`What an engine tells of a growing prompt is the beginning of the final one: ${JSON.stringify(prompt)}`, async () => {
    const random = new Random(JSON.stringify(prompt));
    for (let turn = 0; turn < 20; turn++) {
      const { open, precursors, prompts, target, asks } = world(prompt);
      const fates = [0, 1].map((at) => ({
        agent: `a${at}`,
        words: Array.from({ length: 1 + random.int(300) }, () => random.pick(WORDS)),
        gone: random.int(6) === 0,
        sequence: at,
      }));
      let written = 0;
      const state = () =>
        precursors.splice(
          0,
          2,
          ...fates.map(({ agent, words, gone, sequence }): Precursor => {
            const text = words.join("").trim();
            if (written < words.length) {
              return { agent, state: "writing", text: words.slice(0, written).join("").trim() };
            }
            return gone ? { agent, state: "gone" } : { agent, state: "answered", text, sequence };
          }),
        );
      state();
      const asked = open();
      // As a warmer counts.
      let sent = 0;
      let steps = 0;
      const sure: number[][] = [];
      const look = async () => {
        while (true) {
          const step = asked.update();
          sent = Math.min(sent, step.kept);
          assert.ok(step.kept <= asked.stableTokens);
          const before = sure.at(-1) ?? [];
          assert.deepEqual(asked.stable.slice(0, sent), before.slice(0, sent), "what was kept is the same");
          sent = asked.stableTokens;
          sure.push([...asked.stable]);
          steps++;
          if (step.busy === undefined) return;
          await step.busy;
        }
      };
      const longest = Math.max(...fates.map(({ words }) => words.length));
      while (written <= longest) {
        await look();
        written += 1 + random.int(20);
        state();
      }
      await look();
      assert.ok(asks() < 2 * steps && asks() > 0, `${asks()} questions`);
      const answers = fates.filter(({ gone }) => !gone).map(({ agent, words }) => ({
        agent,
        text: words.join("").trim(),
      }));
      const wire = await prompts.wire(target, answers);
      assert.ok(wire.kind === "chat", "the prompt itself goes out as text");
      const final = tokensOf(wire.messages);
      assert.deepEqual(asked.stable, final.slice(0, asked.stableTokens));
      for (let wait = 0; wait < 5; wait++) await Promise.resolve();
      const spliced = prompts.splicedTokens(target.node) ?? 0;
      assert.ok(
        answers.length === 0 || spliced - asked.stableTokens < 40,
        `${asked.stableTokens} of ${spliced} are known`,
      );
      assert.ok(spliced <= final.length);
    }
  });
}

test("An engine that tells no more is not asked for ever, and the run goes on", async () => {
  let fails = 0;
  const { open, precursors, prompts, target } = world(PROMPTS[0], () => {
    fails++;
    throw new Error("404");
  });
  precursors.push({ agent: "a0", state: "writing", text: "" });
  const asked = open();
  for (let length = 0; length < 100; length++) {
    precursors[0] = { agent: "a0", state: "writing", text: "word ".repeat(100 * length) };
    await asked.update().busy;
  }
  assert.equal(fails, 6);
  assert.equal(asked.stableTokens, 0);
  const wire = await prompts.wire(target, [{ agent: "a0", text: "word" }]);
  assert.equal(wire.kind, "chat");
  assert.equal(prompts.splicedTokens(target.node), undefined);
});

test("Images, tools and parameters of the chat endpoint are not spliced by asking", () => {
  const { prompts, target, precursors } = world(PROMPTS[0]);
  const source = { slots: "declared" as const, precursors: () => precursors, key: "0123456789abcdef" };
  const spliced = prompts.splice({ ...target, sampling: { extra: { tools: [] } } }, source);
  assert.deepEqual(spliced, {
    refusal: "its conversation or parameters need the engine's chat endpoint",
  });
});
