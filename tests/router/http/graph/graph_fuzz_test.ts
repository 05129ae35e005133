import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often, SEED } from "../../../properties.ts";
import {
  graphAnswerSchema,
  graphChunkSchema,
  warmSchema,
} from "../../../../router/http/graph/response_schema.ts";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { parseEvents } from "../fakes.ts";
import { makeWorld } from "../../../simulation/world.ts";

const BODIES = often(75);

const junk = fc.oneof(
  fc.constantFrom<unknown>(null, true, 0, -1, 0.5, 1e308, 2 ** 60, "", "x", "\ud800", [], {}, [[]], [null], [
    1,
  ]),
  fc.jsonValue({ maxDepth: 2 }),
);
/** Mostly what is right for a field, sometimes anything. */
const field = (right: fc.Arbitrary<unknown>) =>
  fc.oneof({ weight: 40, arbitrary: right }, { weight: 1, arbitrary: junk });
const pick = (...values: unknown[]) => field(fc.constantFrom(...values));
const some = (fields: Record<string, fc.Arbitrary<unknown>>, max: number) =>
  fc.subarray(Object.keys(fields), { maxLength: max }).chain((names) =>
    fc.record(Object.fromEntries(names.map((name) => [name, fields[name]!])))
  );

const ids = ["a", "b", "c", "d", "constructor"];
const model = pick("4b", "8b", "32b");

/** Prompts that read some of the agents before them; now and then any agent. */
function promptOf(before: readonly string[]): fc.Arbitrary<unknown> {
  const one = before.length === 0
    ? fc.constant("")
    : fc.constantFrom(...before.map((id) => `<|answer:${id}|>`));
  const anywhere = fc.constantFrom(
    "<|answer:a|>",
    "<|answer:x|>",
    "<|answer:",
    "[responses]",
    "[input_prompts]",
    "\ud800",
  );
  const piece = fc.oneof(
    { weight: 12, arbitrary: one },
    { weight: 12, arbitrary: fc.constantFrom("Hi ", "\n", "é") },
    { weight: 1, arbitrary: anywhere },
  );
  const text = fc.array(piece, { maxLength: 4 }).map((pieces) => `Q${pieces.join("")}`);
  return field(fc.oneof(
    text.map((prompt) => ({ prompt })),
    text.map((system) => ({ prompt: { system, user: "U" } })),
    text.map((raw) => ({ prompt: { text: raw } })),
    text.map((content) => ({ messages: [{ role: "system", content: "S" }, { role: "user", content }] })),
    text.map((content) => ({ messages: [{ role: "user", content: [{ type: "text", text: content }] }] })),
    text.map((prompt) => ({ prompt: `${prompt}[responses]`, reads: before })),
  ));
}

const parameters = {
  max_tokens: pick(1, 3, null),
  temperature: pick(0, 1),
  top_k: pick(-1, 20),
  seed: pick(1, null),
  stop: pick("a", ["a", "b"], []),
  deadline_ms: pick(1e6, null),
  on_deadline: pick("drop", "use_partial"),
  min_responses: pick(null),
  n: pick(1),
  ignore_eos: pick(true),
  response_format: pick({ type: "text" }),
};

function agentOf(before: readonly string[]): fc.Arbitrary<unknown> {
  return fc.tuple(model, promptOf(before), some(parameters, 3)).map(([name, prompt, more]) => ({
    model: name,
    max_tokens: 2,
    ...more,
    ...(typeof prompt === "object" ? prompt : { prompt }),
  }));
}

const graphBody = fc.tuple(
  fc.integer({ min: 0, max: ids.length }).chain((count) =>
    fc.record(Object.fromEntries(ids.slice(0, count).map((id, at) => [id, field(agentOf(ids.slice(0, at)))])))
  ),
  some({
    stream: pick(true, false),
    include: pick(["prompts", "trace"], []),
    slots: pick("declared", "completion"),
    strip_reasoning: pick(true, false),
    deadline_ms: pick(1e6, null),
    sampling: pick({ temperature: 0 }, {}),
    incremental_prefill: pick({ mode: "off" }, { chunk_tokens: 16 }, {}),
    min_responses: pick(1),
    root: junk,
  }, 3),
).map(([agents, rules]) => ({ agents, ...rules }));

const warmBody = fc.tuple(
  model,
  fc.oneof(
    fc.record({ prompt: pick("Hello", "Hello ".repeat(50), [1, 2, 3]) }),
    fc.record({ messages: pick([{ role: "user", content: "Hi" }]) }),
  ),
  some({ ...parameters, session: pick("s"), stream: pick(true), tools: pick([]) }, 3),
).map(([name, question, more]) => ({ model: name, ...more, ...question }));

const prefillBody = fc.tuple(
  model,
  some({
    text: pick("Hello", ["a", "b <|answer:x|>"]),
    input_ids: pick([1, 2], [[1], [2]]),
    rid: pick("r", ["r", "s"]),
    sampling_params: junk,
  }, 3),
).map(([name, more]) => ({ model: name, ...more }));

const shellBody = fc.record({
  model: field(fc.oneof(model, fc.constant(["4b", "8b"]))),
  rid: pick("r", ["r_0", "r_1"]),
  text: pick(["A", "B <|answer:r_0|>"], ["A <|answer:r_1|>", "B"], ["<|answer:r_0|>", "B"]),
  sampling_params: pick({ max_new_tokens: 2 }, [{}, { max_new_tokens: 1 }], { temperature: 0 }),
  stream: pick(true, false, null),
});

const request: fc.Arbitrary<[string, unknown]> = fc.oneof(
  { weight: 4, arbitrary: fc.tuple(fc.constant("/v1/graph"), graphBody) },
  { weight: 1, arbitrary: fc.tuple(fc.constant("/v1/warm"), warmBody) },
  { weight: 1, arbitrary: fc.tuple(fc.constant("/prefill_only"), prefillBody) },
  { weight: 1, arbitrary: fc.tuple(fc.constant("/generate"), shellBody) },
  {
    weight: 1,
    arbitrary: fc.tuple(fc.constantFrom("/v1/graph", "/v1/warm", "/prefill_only"), junk),
  },
);

/** What each path answers, and what it refuses, so that none is tried one way only, whatever the seed. */
const KNOWN: readonly [string, unknown][] = [
  ["/v1/graph", { agents: { a: { model: "4b", prompt: "Hello", max_tokens: 2 } } }],
  ["/v1/graph", { agents: {} }],
  ["/v1/warm", { model: "4b", prompt: "Hello" }],
  ["/v1/warm", { model: "4b" }],
  ["/prefill_only", { model: "4b", text: "Hello" }],
  ["/prefill_only", { model: "4b", text: 1 }],
  ["/generate", { model: "4b", rid: ["r_0", "r_1"], text: ["A", "B <|answer:r_0|>"] }],
  ["/generate", { model: "4b", rid: ["r_0", "r_1"], text: ["A", "B <|answer:nobody|>"] }],
];

for (const seed of [1, 2, 3]) {
  test(`${BODIES} bodies for graphs and warms give only 2xx and 4xx, and leave nothing behind (seed ${seed})`, async () => {
    const world = makeWorld({ seed: "graph fuzz", replicas: 1, cost: "instant", graphs: {} });
    const answered = new Map<string, number>();
    const refused = new Map<string, number>();
    await world.clock.run(async () => {
      const router = world.router();
      await router.ready();
      const sampled = fc.sample(request, { numRuns: BODIES, seed: SEED + seed });
      for (const [path, body] of [...KNOWN, ...sampled]) {
        const sent = JSON.stringify(body);
        const response = await router.app.request(path, { method: "POST", body: sent });
        const text = await response.text();
        const counts = response.status === 200 ? answered : refused;
        counts.set(path, (counts.get(path) ?? 0) + 1);
        if (response.status === 200) checkAnswer(path, text);
        else {
          assert.ok(response.status >= 400 && response.status < 500, `${path} ${sent}\n${text}`);
          if (path !== "/generate") assert.ok(errorSchema.parse(JSON.parse(text)).error.message.length > 0);
        }
      }
      assert.match(await (await router.app.request("/metrics")).text(), /canopy_places_in_use 0/);
      await router.close();
    });
    for (const path of ["/v1/graph", "/v1/warm", "/prefill_only", "/generate"]) {
      assert.ok((answered.get(path) ?? 0) > 0 && (refused.get(path) ?? 0) > 0, `${path} is tried both ways`);
    }
    assert.deepEqual(world.workers.map((worker) => worker.simulator.running), [0, 0, 0]);
  });
}

function checkAnswer(path: string, text: string): void {
  if (text.startsWith("data: ")) {
    const events = parseEvents(text);
    const last = events.pop();
    // A root whose prompt has become too long fails when the stream has long begun.
    if (last !== "[DONE]") assert.ok(errorSchema.parse(last).error.message.length > 0, text);
    if (path === "/v1/graph") { for (const event of events) graphChunkSchema.parse(event); }
  } else if (path === "/v1/graph") graphAnswerSchema.parse(JSON.parse(text));
  else if (path === "/v1/warm") warmSchema.parse(JSON.parse(text));
}
