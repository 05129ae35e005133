import assert from "node:assert/strict";
import { test } from "node:test";
import { CLEAN, JSON_HEAD, relayBench } from "./fake_workers.ts";

/** A chat whose conversation begins as `topic` tells. */
function chat(topic: string, end: string, first = ""): string {
  const content = `${`${topic} `.repeat(300)}${end}`;
  return `{${first}"model":"m","messages":${
    JSON.stringify([{ role: "user", content }])
  },"seed":${end.length}}`;
}

const WHOLE = { workers: ["http://a", "http://b", "http://c"], policy: "cache_aware" };
const PAIRS = {
  engine: "sglang-pd",
  workers: [{ prefill: "http://p1", decode: "http://d1" }, { prefill: "http://p2", decode: "http://d2" }],
};

test("conversations that begin alike go to one worker, whatever stands around them in the body", async () => {
  const { workers, post, leaks } = relayBench(WHOLE);
  for (let i = 0; i < 6; i++) {
    await (await post(chat("ants", "x".repeat(i), i % 2 === 0 ? `"user":"u${i}",` : ""))).text();
    await (await post(chat("bees", "x".repeat(i)))).text();
  }
  const hosts = (topic: string) =>
    new Set(workers.seen.filter(({ body }) => body.includes(topic)).map(({ host }) => host));
  assert.equal(hosts("ants").size, 1);
  assert.equal(hosts("bees").size, 1);
  assert.deepEqual(leaks(), CLEAN);
});

test("both halves of a pair are kept together for a prompt", async () => {
  const { workers, post, leaks } = relayBench({ ...PAIRS, policy: "cache_aware" });
  for (const host of ["p1", "p2", "d1", "d2"]) {
    workers.scripts.set(host, [{ headers: JSON_HEAD, body: [{ send: "{}" }] }]);
  }
  for (let i = 0; i < 6; i++) await (await post(chat("ants", "x".repeat(i)))).text();
  const hosts = workers.seen.filter(({ body }) => body.includes("ants")).map(({ host }) => host).sort();
  assert.equal(new Set(hosts).size, 2, hosts.join(" "));
  assert.deepEqual(leaks(), CLEAN);
});

test("each half of a pair has a policy of its own, where one is given", async () => {
  const { workers, post } = relayBench({
    ...PAIRS,
    policy: "round_robin",
    prefill_policy: "cache_aware",
  });
  for (const host of ["p1", "p2", "d1", "d2"]) {
    workers.scripts.set(host, [{ headers: JSON_HEAD, body: [{ send: "{}" }] }]);
  }
  for (let i = 0; i < 4; i++) await (await post(chat("ants", "x".repeat(i)))).text();
  const hosts = workers.seen.filter(({ body }) => body.includes("ants")).map(({ host }) => host);
  assert.equal(new Set(hosts.filter((host) => host.startsWith("p"))).size, 1);
  const decodes = hosts.filter((host) => host.startsWith("d"));
  assert.equal(decodes.filter((host) => host === "d1").length, 2, decodes.join(" "));
});
