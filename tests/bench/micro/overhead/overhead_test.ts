import assert from "node:assert/strict";
import { test } from "node:test";
import { inTurns } from "../../../../bench/micro/measure.ts";
import { agentOverhead } from "../../../../bench/micro/overhead/overhead_agent.ts";
import { relayOverhead } from "../../../../bench/micro/overhead/overhead_relay.ts";
import { requestOverhead } from "../../../../bench/micro/overhead/overhead_request.ts";
import { treeOverhead } from "../../../../bench/micro/overhead/overhead_tree.ts";

test("things are measured in turns, and the round that warms up does not count", async () => {
  const order: string[] = [];
  const figures = { a: [100, 5, 1, 3], b: [0, 2, 2, 2] };
  const measure = (name: keyof typeof figures) => () => {
    order.push(name);
    return Promise.resolve(figures[name].shift()!);
  };
  assert.deepEqual(await inTurns(3, { a: measure("a"), b: measure("b") }), { a: 3, b: 2 });
  assert.equal(order.join(""), "abababab");
});

test("the router's overhead can be measured: chunks, requests, tokens of either engine, a tree over loopback", async () => {
  const relay = await relayOverhead({ streams: 2, chunks: 20, rounds: 1 });
  const agents = await Promise.all((["vllm", "sglang"] as const).map(async (engine) => {
    const { bare, panel, root } = await agentOverhead(engine, { tokens: 20, answers: 3, rounds: 1 });
    return { bare, panel, root };
  }));
  const request = await requestOverhead({ requests: 4, atOnce: 2, rounds: 1 });
  const tree = await treeOverhead({ tokens: 4, rounds: 1 });
  for (
    const [name, figure] of [relay, request, ...agents, tree].flatMap((figures) => Object.entries(figures))
  ) {
    assert.ok(Number.isFinite(figure) && figure >= 0, `${name} is ${figure}`);
  }
});
