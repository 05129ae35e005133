import assert from "node:assert/strict";
import { test } from "node:test";
import { warmSchema } from "../../../../router/http/graph/response_schema.ts";
import { errorSchema } from "../../../../router/http/openai/response_schema.ts";
import { graphApp } from "./graph_app.ts";
import { makeWorld, type World } from "../../../simulation/world.ts";

const LONG = "The quick brown fox jumps over the lazy dog. ".repeat(40);

async function inWorld(
  options: { replicas: number },
  use: (
    post: (path: string, body: unknown, headers?: Record<string, string>) => Promise<Response>,
    world: World,
  ) => Promise<void>,
): Promise<void> {
  const world = makeWorld({ seed: "warm", cost: "instant", graphs: {}, ...options });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    await use(
      async (path, body, headers = {}) =>
        await router.app.request(path, {
          method: "POST",
          body: JSON.stringify(body),
          headers: { "content-type": "application/json", ...headers },
        }),
      world,
    );
    await router.close();
  });
  for (const { simulator } of world.workers) assert.equal(simulator.running, 0);
}

for (const model of ["4b", "8b", "32b"]) {
  test(`a warm on ${model} makes the same request cheap, raw and chat`, async () => {
    await inWorld({ replicas: 1 }, async (post) => {
      for (
        const [path, question] of [
          ["/v1/completions", { prompt: LONG }],
          ["/v1/chat/completions", { messages: [{ role: "user", content: `Chat: ${LONG}` }] }],
        ] as const
      ) {
        const body = { model, ...question, max_tokens: 4, temperature: 0 };
        const first = warmSchema.parse(await (await post("/v1/warm", body)).json());
        assert.equal(first.worker, `${model}.w1`);
        assert.ok(first.prompt_tokens > 100);
        const again = warmSchema.parse(await (await post("/v1/warm", body)).json());
        assert.ok(again.cached_tokens! >= first.prompt_tokens - 16, JSON.stringify(again));
        const answer = await (await post(path, body)).json();
        const { prompt_tokens: asked, prompt_tokens_details } = answer.usage;
        assert.ok(asked >= first.prompt_tokens, JSON.stringify(answer.usage));
        const cached = prompt_tokens_details?.cached_tokens;
        if (typeof cached === "number") assert.ok(cached >= asked - 16, JSON.stringify(answer.usage));
      }
    });
  });
}

test("a session's warm and its requests go to one worker, by field or header", async () => {
  await inWorld({ replicas: 4 }, async (post, world) => {
    const workersOf = new Map<string, string>();
    for (let at = 0; at < 8; at++) {
      const session = `s${at}`;
      const [body, headers] = at % 2 === 0
        ? [{ session }, {}] as const
        : [{}, { "x-smg-routing-key": session }] as const;
      const prompt = `${session} ${LONG}`;
      const warm = warmSchema.parse(
        await (await post("/v1/warm", { model: "8b", prompt, ...body }, headers)).json(),
      );
      workersOf.set(session, warm.worker);
    }
    assert.ok(new Set(workersOf.values()).size > 1, "they are spread");
    for (const [session, worker] of workersOf) {
      const served = () =>
        world.workers.filter((one) => one.model === "8b").map((one) => one.simulator.stats.requests);
      const before = served();
      await post("/v1/completions", { model: "8b", prompt: `${session} ${LONG}`, max_tokens: 1 }, {
        "x-smg-routing-key": session,
      });
      const after = served();
      const at = after.findIndex((count, index) => count > before[index]!);
      assert.equal(`8b.w${at + 1}`, worker);
    }
  });
});

test("/prefill_only answers as SGLang does: one or many, text up to its first slot, or token ids", async () => {
  await inWorld({ replicas: 1 }, async (post) => {
    const one = await (await post("/prefill_only", { model: "8b", text: LONG, rid: "agent_1" })).json();
    assert.equal(one.text, "");
    assert.equal(one.meta_info.id, "agent_1");
    assert.equal(one.meta_info.completion_tokens, 0);
    assert.deepEqual(one.meta_info.finish_reason, { type: "length", length: 0 });
    const many = await (await post("/prefill_only", {
      model: "8b",
      text: [LONG, `${LONG}<|answer:agent_1|> and more`],
      rid: ["a", "b"],
    })).json();
    assert.deepEqual(
      many.map((answer: { meta_info: { id: string; prompt_tokens: number } }) => [
        answer.meta_info.id,
        answer.meta_info.prompt_tokens,
      ]),
      [["a", one.meta_info.prompt_tokens], ["b", one.meta_info.prompt_tokens]],
    );
    assert.ok(many[1].meta_info.cached_tokens >= one.meta_info.prompt_tokens - 1);
    const ids = await (await post("/prefill_only", { model: "8b", input_ids: [1, 2, 3, 4] })).json();
    assert.equal(ids.meta_info.prompt_tokens, 4);
    const lists = await (await post("/prefill_only", { model: "8b", input_ids: [[1, 2], [3]] })).json();
    assert.equal(lists.length, 2);
  });
});

test("what cannot be warmed is a 4xx that names the field", async () => {
  await inWorld({ replicas: 1 }, async (post) => {
    for (
      const [path, body, status, param] of [
        ["/v1/warm", {}, 400, "model"],
        ["/v1/warm", { model: "nope", prompt: "x" }, 404, "model"],
        ["/v1/warm", { model: "8b" }, 400, "prompt"],
        ["/v1/warm", { model: "8b", prompt: "" }, 400, "prompt"],
        ["/v1/warm", { model: "8b", prompt: [] }, 400, "prompt"],
        [
          "/v1/warm",
          { model: "8b", prompt: "x", messages: [{ role: "user", content: "x" }] },
          400,
          "messages",
        ],
        ["/v1/warm", { model: "8b", messages: [{ role: "user" }] }, 400, "messages[0].content"],
        ["/v1/warm", { model: "8b", prompt: "x", session: "" }, 400, "session"],
        ["/v1/warm", { model: "8b", prompt: "x", rid: "r" }, 400, "rid"],
        ["/v1/warm", { model: "8b", prompt: "x", top_k: 2 ** 40 }, 400, "top_k"],
        ["/prefill_only", { text: "x" }, 400, "model"],
        ["/prefill_only", { model: "8b" }, 400, "text"],
        ["/prefill_only", { model: "8b", text: "x", input_ids: [1] }, 400, "text"],
        ["/prefill_only", { model: "8b", text: "<|answer:a|>" }, 400, "text"],
        ["/prefill_only", { model: "8b", text: ["x", "<|answer:a|>"] }, 400, "text[1]"],
        ["/prefill_only", { model: "8b", input_ids: [1, [2]] }, 400, "input_ids"],
        ["/prefill_only", { model: "8b", input_ids: [-1] }, 400, "input_ids[0]"],
      ] as const
    ) {
      const response = await post(path, body);
      const text = await response.text();
      assert.equal(response.status, status, `${JSON.stringify(body)}: ${text}`);
      assert.equal(errorSchema.parse(JSON.parse(text)).error.param, param, text);
    }
  });
  const { clock, post } = graphApp();
  await clock.run(async () => {
    for (const model of ["small", "moa"]) {
      const response = await post("/v1/warm", { model, prompt: "x" });
      assert.equal(response.status, 400);
      assert.equal(errorSchema.parse(await response.json()).error.param, "model");
    }
  });
});

test("a warm that fails on one worker is done on another; a client that leaves ends it", async () => {
  await inWorld({ replicas: 2 }, async (post, world) => {
    const eights = world.workers.filter((worker) => worker.model === "8b");
    for (const { simulator } of eights) simulator.inject({ kind: "reset", count: 1 });
    const failed = await post("/v1/warm", { model: "8b", prompt: LONG });
    assert.equal(failed.status, 502);
    eights[0]!.simulator.inject({ kind: "reset", count: 1 });
    for (let at = 0; at < 2; at++) {
      assert.equal((await post("/v1/warm", { model: "8b", prompt: LONG })).status, 200);
    }
  });
  const world = makeWorld({ seed: "leave", cost: "32b", graphs: {}, replicas: 1 });
  await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    const client = new AbortController();
    const pending = router.app.request("/v1/warm", {
      method: "POST",
      body: JSON.stringify({ model: "32b", prompt: LONG.repeat(30) }),
      signal: client.signal,
    });
    await world.clock.sleep(100);
    assert.equal(world.workers.at(-1)?.simulator.running, 1);
    client.abort();
    assert.equal((await pending).status, 499);
    await world.clock.sleep(1000);
    assert.equal(world.workers.at(-1)?.simulator.running, 0);
    assert.match(
      await (await router.app.request("/metrics")).text(),
      /canopy_worker_in_flight\{[^}]*32b.w1"\} 0/,
    );
    await router.close();
  });
});
