import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import { createRouter } from "../../router/router.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";
import { createSimulator } from "../../simulator/simulator.ts";

interface AgentEntry {
  model: string;
  prompt: string;
  temperature: number;
  top_p: number;
  max_tokens: number;
}
type Stage = Record<string, Record<string, AgentEntry>>;

const path = fileURLToPath(new URL("../fixtures/cfgs/moa_vllm/configs.json", import.meta.url));
const configs = JSON.parse(readFileSync(path, "utf8")) as { proposer: Stage; aggregator: Stage };
const layers = [...Object.values(configs.proposer), ...Object.values(configs.aggregator)]
  .map((layer) => Object.values(layer));

/** MoA-vllm's own substitution: Python's `str.replace` of all occurrences, the question first. */
function moaVllmPrompt(template: string, question: string, responses: string): string {
  return template.split("[input_prompts]").join(question).split("[responses]").join(responses);
}

interface Call {
  readonly url: string;
  readonly authorization: string | undefined;
  readonly body: Record<string, unknown>;
  text: string;
}

/** Serves the configuration over simulated vLLM servers and records every call with the text that came back. */
async function ask(question: string): Promise<{ calls: Call[]; answer: string }> {
  const clock = new VirtualClock();
  const calls: Call[] = [];
  const models = [...new Set(layers.flat().map((agent) => agent.model))];
  const simulators = new Map(models.map((model, index) => [
    `localhost:${8010 + index}`,
    createSimulator({
      engine: "vllm",
      version: "0.32.0",
      models: [model],
      cost: "8b",
      clock,
      seed: "moa-vllm",
    }),
  ]));
  const transport = new MemoryTransport((request) => {
    const simulator = simulators.get(new URL(request.url).host);
    if (simulator === undefined) return undefined;
    return async (outgoing, signal) => {
      const response = await simulator.handle(outgoing, signal);
      if (outgoing.method !== "POST") return response;
      const call: Call = {
        url: outgoing.url,
        authorization: outgoing.headers["authorization"],
        body: JSON.parse(String(outgoing.body)) as Record<string, unknown>,
        text: "",
      };
      calls.push(call);
      return { ...response, body: recordText(response.body, (text) => call.text += text) };
    };
  });
  const { config } = loadCheckedConfig({ path, env: {} });
  const answer = await clock.run(async () => {
    const router = createRouter({
      config,
      clock,
      random: new Random("moa-vllm"),
      transport,
      loadTokenizer: () => Promise.reject(new Error("nobody has one")),
    });
    await router.ready();
    const response = await router.app.request("/v1/completions", {
      method: "POST",
      headers: { "content-type": "application/json", authorization: "Bearer EMPTY" },
      body: JSON.stringify({ model: "moa", prompt: question, max_tokens: 64 }),
    });
    assert.equal(response.status, 200);
    const body = await response.json() as { choices: { text: string }[] };
    await router.close();
    return body.choices[0]?.text ?? "";
  });
  return { calls, answer };
}

async function* recordText(body: AsyncIterable<Uint8Array>, record: (text: string) => void) {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) {
      if (!line.startsWith("data: {")) continue;
      const event = JSON.parse(line.slice(6)) as { choices: { text: string }[] };
      record(event.choices[0]?.text ?? "");
    }
    yield chunk;
  }
}

for (
  const [what, question] of [
    ["a plain question", "Janet's ducks lay 16 eggs per day. How many are left after she eats three?"],
    [
      "a question that holds the placeholders themselves",
      "What do [responses] and [input_prompts] mean, $& aside?",
    ],
  ] as const
) {
  test(`Every prompt that MoA-vllm's configs.json sends is the one MoA-vllm would send, for ${what}`, async () => {
    const { calls, answer } = await ask(question);
    assert.equal(calls.length, layers.flat().length);
    let responses = "";
    let at = 0;
    for (const layer of layers) {
      const made = calls.slice(at, at + layer.length);
      at += layer.length;
      const expected = layer.map((agent) => moaVllmPrompt(agent.prompt, question, responses));
      assert.deepEqual(made.map((call) => call.body["prompt"]).sort(), expected.sort());
      responses = layer.map((agent, index) => {
        // Agents of a layer that send the same prompt get the same text from a deterministic engine.
        const call = made.find((one) =>
          one.body["model"] === agent.model && one.body["prompt"] === expected[index]
        );
        assert.ok(call);
        assert.ok(call.text.trim().length > 0);
        return call.text.trim();
      }).join("");
      for (const [index, call] of made.entries()) {
        const agent = layer[index];
        assert.ok(agent);
        assert.equal(new URL(call.url).pathname, "/v1/completions");
        assert.equal(call.authorization, "Bearer EMPTY");
        assert.equal(call.body["temperature"], agent.temperature);
        assert.equal(call.body["top_p"], agent.top_p);
        assert.equal(call.body["repetition_penalty"], 1.1);
        const isRoot = at === calls.length;
        assert.equal(call.body["max_tokens"], isRoot ? 64 : agent.max_tokens);
      }
    }
    assert.equal(answer.trim(), responses);
  });
}
