import assert from "node:assert/strict";
import { test } from "node:test";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { VirtualClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import type { OutgoingRequest } from "../../base/transport.ts";
import { configSchema } from "../../cfgs/schema/config.ts";
import { createRouter, type Router } from "../../router/router.ts";
import { MemoryTransport } from "../../router/transport/memory.ts";
import { PdFabric } from "../../simulator/pd/fabric.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import type { Simulator, SimulatorOptions } from "../../simulator/server/simulator_options.ts";
import { createSimulator } from "../../simulator/simulator.ts";

/** A request that a server got. */
interface Sent {
  readonly host: string;
  readonly path: string;
  readonly body: JsonObject;
}

type Server = Pick<SimulatorOptions, "pd" | "version" | "dpSize"> & { readonly engine?: "sglang" | "vllm" };

/** Runs `use` with a router before simulated servers, by their host names; `settings` are those of its model. */
async function withServers(
  servers: Readonly<Record<string, Server>>,
  config: (hosts: readonly string[]) => Record<string, unknown>,
  use: (
    router: Router,
    sent: readonly Sent[],
    /** Starts another server in the place of one. */
    restart: (host: string, server: Server) => void,
  ) => Promise<void>,
): Promise<void> {
  const clock = new VirtualClock();
  const sent: Sent[] = [];
  const simulators = new Map<string, Simulator>();
  const start = (host: string, { engine = "sglang", ...options }: Server) =>
    void simulators.set(
      host,
      createSimulator({ engine, models: ["org/a"], cost: "4b", clock, seed: host, ...options }),
    );
  for (const [host, server] of Object.entries(servers)) start(host, server);
  const transport = new MemoryTransport((request) => {
    const { hostname: host, pathname: path } = new URL(request.url);
    const simulator = simulators.get(host);
    if (request.method === "POST") sent.push({ host, path, body: bodyOf(request) });
    return simulator === undefined ? undefined : (outgoing, signal) => simulator.handle(outgoing, signal);
  });
  await clock.run(async () => {
    const router = createRouter({
      config: configSchema.parse(config(Object.keys(servers))),
      clock,
      random: new Random("ranks"),
      transport,
      loadTokenizer: () => Promise.resolve(builtinTokenizer()),
    });
    try {
      await router.ready();
      await use(router, sent, start);
    } finally {
      await router.close();
    }
  }, { limitMs: 600_000 });
}

function bodyOf({ body }: OutgoingRequest): JsonObject {
  const text = typeof body === "string" ? body : new TextDecoder().decode(body);
  const value: unknown = text === "" ? {} : JSON.parse(text);
  return isJsonObject(value) ? value : {};
}

const generations = (sent: readonly Sent[]) =>
  sent.filter(({ path }) => path === "/generate" || path.endsWith("/completions"));

async function post(router: Router, path: string, body: unknown): Promise<JsonObject> {
  const headers = { "content-type": "application/json" };
  const response = await router.app.request(path, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  assert.equal(response.status, 200, text);
  const value: unknown = JSON.parse(text);
  return isJsonObject(value) ? value : {};
}

async function workersOf(router: Router): Promise<JsonObject[]> {
  const body: unknown = await (await router.app.request("/workers")).json();
  return isJsonObject(body) && Array.isArray(body.workers) ? body.workers.filter(isJsonObject) : [];
}

const whole = (settings: Record<string, unknown> = {}) => (hosts: readonly string[]) => ({
  models: {
    a: {
      model: "org/a",
      engine: "sglang",
      dp_aware: true,
      policy: "round_robin",
      workers: hosts.map((host) => `http://${host}`),
      ...settings,
    },
  },
});

test("a server of four ranks is four places, and every request says which one it was placed on", async () => {
  await withServers({ "one.sim": { dpSize: 4 } }, whole(), async (router, sent) => {
    const listed = await workersOf(router);
    assert.deepEqual(listed.map(({ id, url, dp_rank, dp_size }) => [id, url, dp_rank, dp_size]), [
      ["a.w1@0", "http://one.sim@0", 0, 4],
      ["a.w1@1", "http://one.sim@1", 1, 4],
      ["a.w1@2", "http://one.sim@2", 2, 4],
      ["a.w1@3", "http://one.sim@3", 3, 4],
    ]);
    const paths = ["/v1/completions", "/v1/chat/completions", "/generate", "/generate"];
    const ranks: unknown[] = [];
    for (const path of paths) {
      const prompt = path === "/generate"
        ? { text: "Hi", sampling_params: { max_new_tokens: 2 } }
        : path.includes("chat")
        ? { messages: [{ role: "user", content: "Hi" }], max_tokens: 2 }
        : { prompt: "Hi", max_tokens: 2 };
      // What a client says of ranks is not for it to say.
      const answer = await post(router, path, {
        model: "a",
        data_parallel_rank: 9,
        routed_dp_rank: 9,
        ...prompt,
      });
      if (isJsonObject(answer.meta_info)) ranks.push(answer.meta_info.dp_rank);
    }
    const bodies = generations(sent).map(({ body }) => [body.data_parallel_rank, body.routed_dp_rank]);
    assert.deepEqual(bodies.map(([rank]) => Number(rank)).sort(), [0, 1, 2, 3]);
    assert.ok(bodies.every(([, other]) => other === null));
    assert.deepEqual(ranks, bodies.slice(2).map(([rank]) => rank));
  });
});

test("a prompt comes back to the rank that has it in its cache", async () => {
  await withServers({ "one.sim": { dpSize: 4 } }, whole({ policy: "cache_aware" }), async (router, sent) => {
    const prompts = Array.from({ length: 8 }, (_, i) => `${i} is the number of this prompt. `.repeat(60));
    for (const prompt of prompts) {
      await post(router, "/v1/completions", { model: "a", prompt, max_tokens: 1 });
    }
    const first = generations(sent).map(({ body }) => body.data_parallel_rank);
    assert.ok(new Set(first).size > 1, "several ranks are used");
    for (const prompt of prompts) {
      await post(router, "/v1/completions", { model: "a", prompt, max_tokens: 1 });
    }
    assert.deepEqual(generations(sent).slice(8).map(({ body }) => body.data_parallel_rank), first);
  });
});

test("an agent's prompt and its warms go to one rank", async () => {
  const graphs = {
    duo: {
      layers: [{ agents: [{ model: "a" }, { model: "a" }] }, { agents: [{ model: "a" }] }],
      sampling: { max_tokens: 200 },
      incremental_prefill: "on",
    },
  };
  const config = (hosts: readonly string[]) => ({ ...whole({ tokenizer: "built-in" })(hosts), graphs });
  await withServers({ "one.sim": { dpSize: 4 } }, config, async (router, sent) => {
    await post(router, "/v1/chat/completions", {
      model: "duo",
      messages: [{ role: "user", content: "Why?" }],
    });
    const root = generations(sent).at(-1)!.body;
    const begin = JSON.stringify(root.input_ids).slice(0, 60);
    const same = generations(sent).filter(({ body }) => JSON.stringify(body.input_ids)?.startsWith(begin));
    assert.ok(same.length > 1, "it was warmed");
    assert.equal(new Set(same.map(({ body }) => body.data_parallel_rank)).size, 1);
  });
});

test("without dp_aware, and of a server with one rank, nothing is said of ranks", async () => {
  for (const [server, settings] of [[{ dpSize: 4 }, { dp_aware: false }], [{}, {}]] as const) {
    await withServers({ "one.sim": server }, whole(settings), async (router, sent) => {
      assert.deepEqual((await workersOf(router)).map(({ url }) => url), ["http://one.sim"]);
      await post(router, "/v1/completions", { model: "a", prompt: "Hi", max_tokens: 1 });
      assert.ok(!("data_parallel_rank" in generations(sent)[0]!.body));
    });
  }
});

for (const version of ["0.5.23", "0.5.3.post3"]) {
  test(`pairs of ${version}: the room leaves prefill's rank, and decode is told what its version knows`, async () => {
    const fabric = new PdFabric();
    const half = (role: "prefill" | "decode"): Server => ({
      version,
      dpSize: 2,
      pd: { role, fabric, bootstrapHost: `${role}.sim` },
    });
    const config = ([prefill, decode]: readonly string[]) => ({
      models: {
        a: {
          model: "org/a",
          engine: "sglang-pd",
          dp_aware: true,
          policy: "round_robin",
          workers: [{ prefill: `http://${prefill}`, bootstrap_port: 8998, decode: `http://${decode}` }],
        },
      },
      graphs: { solo: { layers: [{ agents: [{ model: "a" }] }], sampling: { max_tokens: 5 } } },
    });
    await withServers(
      { "prefill.sim": half("prefill"), "decode.sim": half("decode") },
      config,
      async (router, sent) => {
        assert.deepEqual((await workersOf(router)).map(({ url }) => url), [
          "http://prefill.sim@0",
          "http://prefill.sim@1",
          "http://decode.sim@0",
          "http://decode.sim@1",
        ]);
        for (let i = 0; i < 4; i++) {
          await post(router, "/v1/completions", { model: "a", prompt: `Number ${i}`, max_tokens: 2 });
        }
        await post(router, "/v1/completions", { model: "a", prompt: ["One", "Two"], max_tokens: 2 });
        await post(router, "/v1/chat/completions", {
          model: "solo",
          messages: [{ role: "user", content: "Hi" }],
        });
        const prefills = generations(sent).filter(({ host }) => host === "prefill.sim");
        assert.deepEqual(new Set(prefills.map(({ body }) => body.data_parallel_rank)), new Set([0, 1]));
        for (const { body } of prefills) {
          const rooms = [body.bootstrap_room].flat().map(Number);
          assert.ok(
            rooms.every((room) => room % 2 === body.data_parallel_rank && Number.isSafeInteger(room)),
          );
          const decode = generations(sent).find((one) =>
            one.host === "decode.sim" && one.body.rid?.toString() === body.rid?.toString()
          )!.body;
          assert.deepEqual(decode.bootstrap_room, body.bootstrap_room);
          assert.ok(!("data_parallel_rank" in decode));
          if (version === "0.5.23") {
            assert.equal(decode.disagg_prefill_dp_rank, body.data_parallel_rank);
            assert.ok(decode.routed_dp_rank === 0 || decode.routed_dp_rank === 1);
          } else assert.ok(!("routed_dp_rank" in decode) && !("disagg_prefill_dp_rank" in decode));
        }
      },
    );
  });
}

test("ranks are drained one by one or with their server, and leave with it", async () => {
  await withServers({ "one.sim": { dpSize: 2 }, "two.sim": { dpSize: 2 } }, whole(), async (router) => {
    const headers = { "content-type": "application/json" };
    const drain = (id: string) =>
      router.app.request(`/workers/${encodeURIComponent(id)}`, {
        method: "PUT",
        headers,
        body: '{"draining":true}',
      });
    assert.equal((await drain("http://one.sim@1")).status, 200);
    assert.equal((await drain("http://two.sim")).status, 200);
    assert.deepEqual((await workersOf(router)).map(({ health }) => health === "draining"), [
      false,
      true,
      true,
      true,
    ]);
    await router.app.request(`/workers/${encodeURIComponent("http://two.sim")}`, { method: "DELETE" });
    assert.deepEqual((await workersOf(router)).map(({ id }) => id), ["a.w1@0", "a.w1@1"]);
    const metrics = await (await router.app.request("/metrics")).text();
    const series = metrics.split("\n").filter((line) => /^[a-z_]+\{/.test(line)).map((line) =>
      line.split(" ").slice(0, -1).join(" ")
    );
    assert.equal(new Set(series).size, series.length, "each series once");
    await router.app.request(`/workers/${encodeURIComponent("a.w1")}`, { method: "DELETE" });
    assert.deepEqual(await workersOf(router), []);
  });
});

test("a server that comes back with other ranks has those, and a stream of before ends", async () => {
  await withServers({ "one.sim": { dpSize: 2 } }, whole(), async (router, _, restart) => {
    const { membership } = router.services.models.get("a")!;
    const streaming = post(router, "/v1/completions", { model: "a", prompt: "Hi", max_tokens: 50 });
    await router.services.clock.sleep(50);
    restart("one.sim", { dpSize: 3 });
    // A launcher would say so; here a new process is simply found.
    assert.equal(membership.setDown("a.w1", undefined), true);
    await router.services.clock.sleep(1_000);
    assert.deepEqual((await workersOf(router)).map(({ id }) => id), ["a.w1@0", "a.w1@1", "a.w1@2"]);
    assert.ok(isJsonObject(await streaming));
  });
});

test("dp_aware can be turned on and off while the server is served", async () => {
  await withServers({ "one.sim": { dpSize: 2 } }, whole(), async (router) => {
    const { config } = router.services;
    const { a } = config.models;
    const ids = async () => (await workersOf(router)).map(({ id }) => id);
    router.reconfigure({ ...config, models: { a: { ...a!, dp_aware: false } } });
    assert.deepEqual(await ids(), ["a.w1"]);
    router.reconfigure(config);
    await router.services.clock.sleep(1_000);
    assert.deepEqual(await ids(), ["a.w1@0", "a.w1@1"]);
  });
});

test("vLLM does not say how many ranks it has: it stays one place", async () => {
  await withServers({ "one.sim": { engine: "vllm" } }, whole({ engine: "vllm" }), async (router, sent) => {
    await post(router, "/v1/completions", { model: "a", prompt: "Hi", max_tokens: 1 });
    assert.ok(!("data_parallel_rank" in generations(sent)[0]!.body));
    assert.equal((await workersOf(router)).length, 1);
  });
});
