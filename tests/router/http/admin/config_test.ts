import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock } from "../../../../base/clock.ts";
import { Random } from "../../../../base/random.ts";
import { loadConfig } from "../../../../cfgs/load/load.ts";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import { createRouter } from "../../../../router/router.ts";
import { MemoryTransport } from "../../../../router/transport/memory.ts";

function configured(server: object) {
  return configSchema.parse({
    models: {
      m: {
        model: "org/m",
        engine: "vllm",
        tokenizer: false,
        api_key: "key of the worker",
        headers: { authorization: "key of the team" },
        workers: ["http://user:password@m:1"],
      },
    },
    server,
  });
}

function routerOf(server: object) {
  const transport = new MemoryTransport(() => undefined);
  const config = configured(server);
  return createRouter({ config, clock: new SystemClock(), random: new Random("config"), transport });
}

const bearer = (key: string) => ({ headers: { authorization: `Bearer ${key}` } });

test("the configuration in effect is shown without its secrets, and after a change the new one", async () => {
  const router = routerOf({ admin_key: "boss", api_keys: ["client"] });
  try {
    const shown = async () => await (await router.app.request("/v1/config", bearer("boss"))).text();
    const before = await shown();
    for (const secret of ["boss", "client", "key of the worker", "key of the team", "password"]) {
      assert.ok(!before.includes(secret), secret);
    }
    const { models, server } = JSON.parse(before);
    assert.deepEqual(
      [models.m.model, models.m.api_key, models.m.workers, server.admin_key, server.api_keys],
      ["org/m", "***", ["http://user:***@m:1"], "***", ["***"]],
    );
    assert.equal(models.m.health.interval_ms, configured({}).models.m!.health.interval_ms);
    router.reconfigure(configured({ admin_key: "boss", api_keys: ["client"], max_running: 7 }));
    assert.equal(JSON.parse(await shown()).server.max_running, 7);
    assert.equal((await router.app.request("/v1/config", bearer("client"))).status, 403);
    assert.equal((await router.app.request("/v1/config")).status, 401);
  } finally {
    await router.close();
  }
});

test("with ?origins=true each value says where it comes from, secrets hidden, learned ones named", async () => {
  const router = routerOf({ admin_key: "boss" });
  try {
    const valuesOf = async () => {
      const text = await (await router.app.request("/v1/config?origins=true", bearer("boss"))).text();
      assert.doesNotMatch(text, /boss|key of the|password/);
      const { object, data } = JSON.parse(text);
      assert.equal(object, "list");
      return new Map<string, [unknown, string]>(
        data.map((
          one: { path: string; value: unknown; origin: string },
        ) => [one.path, [one.value, one.origin]]),
      );
    };
    assert.deepEqual((await valuesOf()).get("server.admin_key"), ["***", "the program"]);
    const text =
      'models: { m: { model: org/m, engine: vllm, workers: ["http://m:1"] } }\nserver:\n  admin_key: boss\n';
    const overrides = [{ path: "server.max_running", value: 7, origin: "--set server.max_running" }];
    const loaded = loadConfig({
      path: "canopy.yaml",
      text,
      env: { CANOPY_SERVER_MAX_QUEUED: "9" },
      overrides,
    });
    router.reconfigure(loaded.config);
    router.origins.read(loaded.provenance);
    const values = await valuesOf();
    assert.deepEqual(
      ["server.admin_key", "server.max_running", "server.max_queued", "server.port", "models.m.engine"]
        .map((path) => values.get(path)),
      [
        ["***", "canopy.yaml:3"],
        [7, "--set server.max_running"],
        [9, "CANOPY_SERVER_MAX_QUEUED"],
        [8000, "default"],
        ["vllm", "canopy.yaml:1"],
      ],
    );
    const wrong = await router.app.request("/v1/config?origins=yes", bearer("boss"));
    assert.equal(wrong.status, 400);
    assert.match(await wrong.text(), /origins must be true or false: current value is yes/);
  } finally {
    await router.close();
  }
});

test("without keys the configuration is shown on the loopback, and to nobody from elsewhere", async () => {
  for (const [host, status] of [["127.0.0.1", 200], ["0.0.0.0", 403]] as const) {
    const router = routerOf({ host });
    try {
      assert.equal((await router.app.request("/v1/config")).status, status, host);
    } finally {
      await router.close();
    }
  }
});
