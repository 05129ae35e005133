import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../../../properties.ts";
import { VirtualClock } from "../../../../base/clock.ts";
import { Random } from "../../../../base/random.ts";
import { configSchema, promptSchema } from "../../../../cfgs/schema/config.ts";
import { HfTokenizer } from "../../../../ml/tokenizers/hf_tokenizer.ts";
import type { ModelTokenizer } from "../../../../ml/tokenizers/model_tokenizer.ts";
import type { AgentNode, Graph } from "../../../../router/moa/graph/graph_types.ts";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import { parseTemplate } from "../../../../router/moa/graph/template.ts";
import { type AgentAnswer, answerSoFar, answerText } from "../../../../router/moa/prompt/answer.ts";
import type { Precursor } from "../../../../router/moa/prompt/answer_layout.ts";
import { RunPrompts } from "../../../../router/moa/prompt/run_prompts.ts";
import { SplicedPrompt } from "../../../../router/moa/prompt/spliced_prompt.ts";
import type { ServedModel } from "../../../../router/served/served_model.ts";
import { randomText, shapes } from "../../../ml/tokenizers/tokenizer_shapes.ts";
import { FakeEngine } from "../fake_engine.ts";
import { noMembership } from "../../no_membership.ts";

const { models } = configSchema.parse({ models: { m: { model: "some/model", engine: "vllm" } } });

function served(tokenizer: ModelTokenizer | undefined, tokenIds = true): ServedModel {
  const engine = new FakeEngine(new VirtualClock(), () => ({ pieces: [] }), { capabilities: { tokenIds } });
  return { name: "m", config: models["m"]!, engine, pool: engine.pool, membership: noMembership, tokenizer };
}

/** An agent with this prompt. */
function agent(prompt: unknown): AgentNode {
  return {
    id: "reader",
    model: "m",
    template: parseTemplate(promptSchema.parse(prompt)),
    sampling: {},
    deadlineMs: undefined,
    onDeadline: "drop",
    reads: [],
  };
}

function splice(
  prompts: RunPrompts,
  node: AgentNode,
  model: ServedModel,
  slots: Graph["slots"],
  precursors: () => readonly Precursor[],
): SplicedPrompt {
  const spliced = prompts.splice({ node, served: model, sampling: {} }, {
    slots,
    precursors,
    key: "0123456789abcdef",
  });
  assert.ok(spliced instanceof SplicedPrompt, JSON.stringify(spliced));
  return spliced;
}

const promptsOf = (text: string, n: number): unknown[] => [
  { system: `${text}[responses]` },
  { system: `${text}\n[responses]`, user: "Q: [input_prompts]\n\nNow." },
  {
    user: `[responses]\n${text}[input_prompts]`,
    responses: { item: "[index]) [answer]", separator: "\n---\n" },
  },
  { user: `[responses]`, responses: { item: "<[agent]>[answer]</[agent]> ", separator: "" } },
  { user: `[input_prompts] [responses]`, responses: { item: "[answer]", separator: " " } },
  { user: "[responses]", responses: { item: "[index] says [answer] ([answer])", separator: "\n" } },
  {
    system: `A: <|answer:a0|>${text}`,
    user: Array.from({ length: n }, (_, i) => `${i}<|answer:a${n - 1 - i}|>`).join(text) + text,
  },
  { text: `${text}[input_prompts]\n[responses] ` },
  { text: ` <|answer:a0|>${text}<|answer:a${n - 1}|>\n` },
];

interface Fate {
  readonly agent: string;
  readonly output: string;
  readonly fails: boolean;
  readonly reasonsFirst: boolean;
  /** Characters written so far. */
  written: number;
  ended: boolean;
  sequence: number;
}

function fateOf(index: number, random: Random): Fate {
  const text = () => randomText(random, random.int(10));
  const output = random.pick([
    () => "",
    () => text(),
    () => text(),
    () => ` \n${text()}\n\n`,
    () => `<think>${text()}</think>\n\n${text()}`,
    () => `${text()}</think>${text()}`,
    () => `${text()}<think>${text()}`,
  ])();
  const close = output.indexOf("</think>");
  const open = output.indexOf("<think>");
  const reasonsFirst = close >= 0 && (open < 0 || close < open);
  return {
    agent: `a${index}`,
    output,
    fails: random.int(8) === 0,
    reasonsFirst,
    written: 0,
    ended: false,
    sequence: 0,
  };
}

/** One prompt from its first token to its last; returns how often what was known was compared with the outcome. */
function play(model: ServedModel, slots: Graph["slots"], random: Random): number {
  const graph = { compat: undefined, stripReasoning: random.int(5) > 0 };
  const fates = Array.from({ length: 1 + random.int(4) }, (_, index) => fateOf(index, random));
  const node = agent(random.pick(promptsOf(randomText(random, random.int(4)), fates.length)));
  const content = randomText(random, random.int(5));
  const messages = random.int(3) === 0
    ? [{ role: "system", content: " Be brief. " }, { role: "user", content }]
    : [{ role: "user", content }];
  const question: RunInput["question"] = { kind: "chat", messages };
  const prompts = new RunPrompts(question);
  // Endings in the order in which they will happen; each fate writes before it ends.
  const order = fates.map((fate) => ({ fate, at: random.next() })).sort((a, b) => a.at - b.at)
    .map(({ fate }) => fate);
  order.forEach((fate, index) => fate.sequence = index + 1);
  const text = (fate: Fate) => answerText(fate.output, graph);
  const precursor = (fate: Fate): Precursor => {
    const name = { agent: fate.agent };
    if (!fate.ended) {
      const soFar = answerSoFar(fate.output.slice(0, fate.written), graph, fate.reasonsFirst);
      return { ...name, state: "writing", text: soFar };
    }
    return fate.fails
      ? { ...name, state: "gone" }
      : { ...name, state: "answered", text: text(fate), sequence: fate.sequence };
  };
  const spliced = splice(prompts, node, model, slots, () => fates.map(precursor));
  /** The final prompt if those that still write come to their ends. */
  const outcome = () => {
    const answering = (slots === "declared" ? fates : order).filter((fate) => !fate.fails || !fate.ended);
    const answers = answering.map((fate): AgentAnswer => ({ agent: fate.agent, text: text(fate) }));
    const prompt = new RunPrompts(question).wire({ node, served: model, sampling: {} }, answers);
    assert.ok(!(prompt instanceof Promise) && prompt.kind !== "chat");
    // Of a raw text the engine makes tokens.
    const ids = prompt.kind === "tokens" ? prompt.ids : textTokens(model.tokenizer!, prompt.text);
    return { prompt, ids, answers };
  };
  let expected = outcome();
  let checked = 0;
  let before = [...spliced.stable];
  const check = () => {
    const { kept } = spliced.update();
    const { stable } = spliced;
    assert.deepEqual(stable.slice(0, kept), before.slice(0, kept));
    for (let i = 0; i < stable.length; i++) {
      if (stable[i] !== expected.ids[i]) assert.fail(JSON.stringify([node.template, messages, fates, i]));
    }
    before = stable.slice();
    checked++;
  };
  check();
  for (const [index, ending] of order.entries()) {
    while (ending.written < ending.output.length) {
      const fate = random.pick(order.slice(index));
      fate.written = Math.min(fate.output.length, fate.written + 1 + random.int(12));
      check();
    }
    ending.ended = true;
    if (ending.fails) expected = outcome();
    check();
  }
  const final = prompts.wire({ node, served: model, sampling: {} }, expected.answers);
  assert.deepEqual(final, expected.prompt);
  return checked;
}

/** A raw text's tokens, as an engine makes them. */
function textTokens(tokenizer: ModelTokenizer, text: string): number[] {
  return [...tokenizer.textPrefix!, ...tokenizer.encode(text)];
}

/** Chat templates of which each does something else with contents. */
const templates = [
  "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n",
  "{% for m in messages %}[INST] {{ m.content | trim }} [/INST]{% endfor %}",
  "{% for m in messages %}{% if m.role == 'system' %}{% set s = m.content %}{% endif %}{% endfor %}" +
  "{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }}\n\n{% endif %}{% endfor %}",
  "{% if messages[0].role == 'system' %}{{ '# ' + messages[0].content.strip() + '\n' }}{% set messages = messages[1:] %}" +
  "{% endif %}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:",
];

const splicesPerShape = often(1_000);
let splices = 0;
for (const shape of await shapes()) {
  test(`The spliced beginning stays the beginning: ${shape.name}`, () => {
    const random = new Random(`splice ${shape.name}`);
    const variants = templates.filter((_, index) => index !== 2).map((chatTemplate) =>
      served(withTemplate(shape.tokenizer, chatTemplate))
    );
    let checked = 0;
    while (checked < splicesPerShape) {
      checked += play(random.pick(variants), random.pick(["declared", "completion"]), random);
    }
    splices += checked;
  });
}

test("splices of at least ten shapes were compared", () =>
  assert.ok(splices >= 10 * splicesPerShape, `${splices}`));

/** A tokenizer with another chat template. */
function withTemplate(tokenizer: ModelTokenizer, chatTemplate: string): ModelTokenizer {
  const files = {
    tokenizer: {
      model: { type: "BPE", vocab: { a: 0 }, merges: [], unk_token: "a" },
      added_tokens: [],
      normalizer: null,
      pre_tokenizer: null,
      post_processor: null,
      decoder: null,
    },
    config: {},
    chatTemplate,
  };
  const renderer = new HfTokenizer("template", files);
  return {
    vocabSize: tokenizer.vocabSize,
    hasChatTemplate: true,
    encode: (text, options) => tokenizer.encode(text, options),
    control: tokenizer.control,
    decode: (ids) => tokenizer.decode(ids),
    renderChat: (messages) => renderer.renderChat(messages),
    ...(tokenizer.streaming === undefined ? {} : { streaming: tokenizer.streaming }),
    ...(tokenizer.textPrefix === undefined ? {} : { textPrefix: tokenizer.textPrefix }),
  };
}

test("Chat templates that do more with an answer than to put it somewhere are refused with a reason", async () => {
  const { tokenizer } = (await shapes())[0]!;
  const refused: readonly [string, RegExp][] = [
    ["{% for m in messages %}{{ m.content | upper }}{% endfor %}", /changes the answers/],
    ["{% for m in messages %}{{ m.content | tojson }}{% endfor %}", /changes the answers/],
    ["{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}", /changes the answers/],
    ["{% for m in messages %}{{ m.content.split('<b>')[-1] }}{% endfor %}", /changes the answers/],
    [
      "{{ messages[0].content }}{% if '<b>' in messages[0].content %}!{% endif %}",
      /changes with the answers/,
    ],
    ["{% for m in messages %}{{ m.content | length }}{% endfor %}", /changes the answers/],
    ["{{ raise_exception('no system messages') }}", /no system messages|raise_exception/],
  ];
  for (const [template, reason] of refused) {
    const prompts = new RunPrompts({ kind: "text", text: "why?" });
    const spliced = prompts.splice(
      {
        node: agent({ user: "Q: [input_prompts]\n[responses]\nEnd." }),
        served: served(withTemplate(tokenizer, template)),
        sampling: {},
      },
      { slots: "declared", precursors: () => [], key: "0123456789abcdef" },
    );
    assert.ok("refusal" in spliced, template);
    assert.match(spliced.refusal, reason);
  }
});

test("Without a tokenizer, token ids or a chat template of the router's own there is nothing to splice", async () => {
  const { tokenizer } = (await shapes())[0]!;
  const node = agent({ user: "[responses]" });
  const refusal = (model: ServedModel, sampling = {}, prompt = node) => {
    const spliced = new RunPrompts({ kind: "text", text: "why?" }).splice(
      { node: prompt, served: model, sampling },
      { slots: "declared", precursors: () => [], key: "0123" },
    );
    return "refusal" in spliced ? spliced.refusal : undefined;
  };
  assert.match(refusal(served(undefined))!, /does not know the model's tokenizer/);
  assert.match(refusal(served(tokenizer, false))!, /takes no token ids/);
  assert.match(refusal(served(tokenizer), { extra: { tools: [] } })!, /chat endpoint/);
  const raw = agent({ text: "[responses]" });
  assert.equal(refusal(served(tokenizer), { extra: { tools: [] } }, raw), undefined);
  assert.match(refusal(served(tokenizer), { extra: { add_special_tokens: false } }, raw)!, /raw text/);
  const { textPrefix: _, ...prefixless } = withTemplate(tokenizer, "");
  assert.match(refusal(served(prefixless), {}, raw)!, /raw text/);
  assert.match(
    refusal(served({ ...withTemplate(tokenizer, ""), hasChatTemplate: false }))!,
    /engine applies/,
  );
});
