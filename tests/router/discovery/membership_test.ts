import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { type DnsName, followDns, type Resolver } from "../../../router/discovery/dns.ts";
import { DiscoveredWorkers, type Member } from "../../../router/discovery/membership.ts";
import { createRouter } from "../../../router/router.ts";

const member = (url: string, leaving = false, model = "m"): Member => ({ model, worker: { url }, leaving });

/** Workers of a router whose model `m` has `http://fixed`, and `p` pairs, as `url health`. */
async function withWorkers(
  use: (workers: DiscoveredWorkers, shown: (model?: string) => string[]) => Promise<void> | void,
): Promise<void> {
  const router = createRouter({
    config: configSchema.parse({
      models: {
        m: { model: "org/m", engine: "vllm", tokenizer: false, workers: ["http://fixed"] },
        p: { model: "org/p", engine: "sglang-pd", tokenizer: false },
      },
    }),
    clock: new VirtualClock(),
    random: new Random("members"),
    transport: {
      send: () => Promise.resolve({ status: 200, headers: {}, body: (async function* () {})() }),
      close: () => Promise.resolve(),
    },
  });
  const { models } = router.services;
  await use(
    new DiscoveredWorkers(models),
    (model = "m") =>
      models.get(model)?.pool.workers().map(({ url, role, health }) =>
        [role, url.replace("http://", ""), health === "draining" ? health : undefined].filter((part) =>
          part !== undefined
        )
          .join(" ")
      ) ?? [],
  );
  await router.close();
}

test("members join, drain and leave; the workers of the configuration stay", async () => {
  await withWorkers((workers, shown) => {
    workers.set([member("http://a"), member("http://b")]);
    assert.deepEqual(shown(), ["fixed", "a", "b"]);
    workers.set([member("http://a", true), member("http://b"), member("http://c", true)]);
    assert.deepEqual(shown(), ["fixed", "a draining", "b"]);
    workers.set([member("http://a"), member("http://fixed")]);
    assert.deepEqual(shown(), ["fixed", "a"]);
    workers.set([]);
    assert.deepEqual(shown(), ["fixed"]);
    workers.set([member("http://x", false, "unknown"), member("http://b")]);
    assert.deepEqual(shown(), ["fixed", "b"]);
  });
});

test("a prefill server whose registry has moved joins anew, and halves are not taken for whole servers", async () => {
  await withWorkers((workers, shown) => {
    const prefill = (bootstrapPort: number): Member => ({
      model: "p",
      worker: { url: "http://a", role: "prefill", bootstrapPort },
      leaving: false,
    });
    workers.set([prefill(1), { model: "p", worker: { url: "http://b", role: "decode" }, leaving: false }]);
    assert.deepEqual(shown("p"), ["prefill a", "decode b"]);
    workers.set([prefill(2), member("http://whole", false, "p")]);
    assert.deepEqual(shown("p"), ["prefill a"]);
  });
});

test("names are asked again and again; those that do not exist have no members, failures change nothing", async () => {
  const clock = new VirtualClock();
  const rounds: (readonly string[] | string)[] = [["10.0.0.2", "10.0.0.1"], "EAI_AGAIN", [
    "10.0.0.1",
    "fd00::1",
  ], "ENOTFOUND"];
  const resolver: Resolver = {
    addresses: () => {
      const round = rounds.shift() ?? [];
      if (typeof round !== "string") return Promise.resolve(round);
      return Promise.reject(Object.assign(new Error(`queryA ${round}`), { code: round }));
    },
    services: () => Promise.resolve([{ name: "pod-1.engines", port: 8001 }]),
  };
  const names: DnsName[] = [
    { model: "m", name: "engines.llm.svc", port: 30_000, role: undefined, bootstrapPort: undefined },
    { model: "p", name: "_http._tcp.prefill", port: undefined, role: "prefill", bootstrapPort: 8998 },
  ];
  const seen: string[][] = [];
  const stop = new AbortController();
  await clock.run(async () => {
    await followDns({
      names,
      resolver,
      clock,
      intervalMs: 10_000,
      onMembers: (members) => {
        seen.push(members.filter(({ model }) => model === "m").map(({ worker }) => worker.url));
        const last = members.at(-1);
        assert.deepEqual(last?.worker, {
          url: "http://pod-1.engines:8001",
          role: "prefill",
          bootstrapPort: 8998,
        });
        if (seen.length === 4) stop.abort();
      },
    }, stop.signal);
  });
  assert.deepEqual(seen, [
    ["http://10.0.0.1:30000", "http://10.0.0.2:30000"],
    ["http://10.0.0.1:30000", "http://10.0.0.2:30000"],
    ["http://10.0.0.1:30000", "http://[fd00::1]:30000"],
    [],
  ]);
  assert.equal(clock.now(), 30_000);
});
