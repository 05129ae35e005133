import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import { isJsonObject, type JsonObject } from "../../../../base/json.ts";
import { Random } from "../../../../base/random.ts";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import { createRouter } from "../../../../router/router.ts";
import { MemoryTransport } from "../../../../router/transport/memory.ts";
import { fixtureFolder } from "../../engines/wire.ts";

type Answer = { status: number; body: string } | "refuse";

/** A router in front of servers that answer `PATH` or `HOST/PATH` as told, else 404. */
async function withServers(
  answers: Readonly<Record<string, Answer>>,
  use: (
    ask: (path: string, init?: RequestInit) => Promise<{ status: number; body: JsonObject }>,
    seen: string[],
  ) => Promise<void>,
  config: JsonObject = {},
): Promise<void> {
  const clock = new VirtualClock();
  const seen: string[] = [];
  const transport = new MemoryTransport((request) => {
    const { host, pathname, search } = new URL(request.url);
    const path = pathname + search;
    const answer = answers[`${host}${path}`] ?? answers[path] ??
      { status: 404, body: '{"detail":"Not Found"}' };
    if (answer === "refuse") return undefined;
    return () => {
      if (path !== "/health") {
        const { body = "" } = request;
        const sent = typeof body === "string" ? body : new TextDecoder().decode(body);
        seen.push(`${request.method} ${host}${path} ${sent}`.trim());
      }
      const bytes = new TextEncoder().encode(answer.body);
      return Promise.resolve({
        status: path === "/health" ? 200 : answer.status,
        headers: { "content-type": "application/json" },
        body: (async function* () {
          yield await Promise.resolve(bytes);
        })(),
      });
    };
  });
  const router = createRouter({
    config: configSchema.parse({
      models: {
        m: {
          model: "tiny-qwen3",
          engine: "sglang-pd",
          workers: [
            { prefill: "http://p1", bootstrap_port: 8998, decode: "http://d1" },
            { prefill: "http://p1", bootstrap_port: 8998, decode: "http://d2" },
          ],
        },
        plain: { model: "other", engine: "vllm", workers: ["http://v"] },
      },
      ...config,
    }),
    clock,
    random: new Random("native"),
    transport,
  });
  try {
    await router.ready();
    seen.length = 0;
    await use(async (path, init) => {
      const response = await router.app.request(path, init);
      const text = await response.text();
      return { status: response.status, body: text === "" ? {} : JSON.parse(text) };
    }, seen);
  } finally {
    await router.close();
  }
}

const recorded = (file: string) =>
  readFileSync(fixtureFolder("wire", "sglang-cpu-pd-0.5.18", `${file}.decode.body`), "utf8");

test("/abort_request of everything reaches every SGLang server, and no other; an unknown id none", async () => {
  const post = { method: "POST", body: '{"rid":"mine","abort_all":1,"abort_message":"enough"}' };
  await withServers({ "/abort_request": { status: 200, body: "" } }, async (ask, seen) => {
    assert.equal((await ask("/abort_request", post)).status, 200);
    assert.deepEqual([...seen].sort(), [
      'POST d1/abort_request {"abort_message":"enough","abort_all":true}',
      'POST d2/abort_request {"abort_message":"enough","abort_all":true}',
      'POST p1/abort_request {"abort_message":"enough","abort_all":true}',
    ]);
    assert.equal((await ask("/abort_request", { method: "POST", body: "[]" })).status, 400);
    seen.length = 0;
    assert.equal((await ask("/abort_request", { method: "POST", body: '{"rid":"mine"}' })).status, 200);
    assert.deepEqual(seen, [], "to SGLang it would be the beginning of ids");
  });
  await withServers({ "d1/abort_request": "refuse" }, async (ask) => {
    assert.equal(
      (await ask("/abort_request", post)).status,
      200,
      "SGLang never says that it knew no such id",
    );
  });
});

test("/abort_request of everything needs the admin key where there is one", async () => {
  const server = { api_keys: ["user"], admin_key: "root" };
  await withServers({ "/abort_request": { status: 200, body: "" } }, async (ask, seen) => {
    const init = (key: string) => ({
      method: "POST",
      body: '{"abort_all":true}',
      headers: { authorization: `Bearer ${key}` },
    });
    assert.equal((await ask("/abort_request", init("user"))).status, 403);
    assert.equal(seen.length, 0);
    assert.equal((await ask("/abort_request", init("root"))).status, 200);
    assert.equal(seen.length, 3);
  }, { server });
});

test("before 0.5.10 an abort spares prefill servers, which would lose a buffer by it", async () => {
  const old = { status: 200, body: '{"version":"0.5.3.post3"}' };
  const answers = {
    "/v1/models": { status: 200, body: '{"data":[]}' },
    "/get_server_info": old,
    "/abort_request": { status: 200, body: "" },
  };
  await withServers(answers, async (ask, seen) => {
    await ask("/abort_request", { method: "POST", body: '{"abort_all":true}' });
    assert.deepEqual(seen.map((one) => one.split(" ")[1]).sort(), ["d1/abort_request", "d2/abort_request"]);
  });
});

test("/flush_cache empties all caches, and names the servers that were busy", async () => {
  await withServers({ "/flush_cache": { status: 200, body: "Cache flushed.\n" } }, async (ask, seen) => {
    const { status, body } = await ask("/flush_cache", { method: "POST" });
    assert.equal(status, 200);
    assert.deepEqual([body.status, body.workers_flushed, body.total_workers], ["success", 3, 3]);
    assert.equal(seen.length, 3);
    assert.equal((await ask("/flush_cache")).status, 200);
  });
  const busy = {
    "/flush_cache": { status: 200, body: "" },
    "d2/flush_cache": { status: 400, body: "Flush cache failed.\n" },
  };
  await withServers(busy, async (ask) => {
    const { status, body } = await ask("/flush_cache", { method: "POST" });
    assert.equal(status, 400);
    assert.match(String(body.message), /not flushed on http:\/\/d2 \(status 400\)/);
  });
});

test("/get_server_info is the first prefill server's, with both lists and decode's states, and no keys", async () => {
  const decode = JSON.parse(recorded("get_get_server_info"));
  const prefill = {
    ...decode,
    disaggregation_mode: "prefill",
    api_key: "secret",
    internal_states: [{ from: "p" }],
  };
  const answers = {
    "/v1/models": { status: 200, body: '{"data":[]}' },
    "/get_server_info": { status: 200, body: JSON.stringify(decode) },
    "p1/get_server_info": { status: 200, body: JSON.stringify(prefill) },
  };
  await withServers(answers, async (ask) => {
    for (const path of ["/get_server_info", "/server_info"]) {
      const { status, body } = await ask(path);
      assert.equal(status, 200);
      assert.equal(body.version, "0.5.18");
      assert.equal(body.disaggregation_mode, "prefill");
      assert.deepEqual(body.internal_states, decode.internal_states);
      assert.ok(Array.isArray(body.prefill) && body.prefill.length === 1);
      assert.ok(Array.isArray(body.decode) && body.decode.length === 2);
      assert.ok(!JSON.stringify(body).includes("secret"));
    }
    assert.equal((await ask("/server_info?model=nope")).status, 404);
  });
});

test("/get_server_info shows no key of a server's arguments where SGLang prints them again: in its states", async () => {
  const told = JSON.parse(recorded("get_get_server_info"));
  const keyed = { api_key: "secret", admin_api_key: "secret", ssl_keyfile_password: "secret" };
  for (const name of Object.keys(keyed)) assert.ok(name in told.internal_states[0], name);
  const info = { ...told, ...keyed, internal_states: [{ ...told.internal_states[0], ...keyed }] };
  const answers = { "/get_server_info": { status: 200, body: JSON.stringify(info) } };
  await withServers(answers, async (ask) => {
    const { status, body } = await ask("/get_server_info");
    assert.equal(status, 200);
    assert.deepEqual(body.internal_states, [
      { ...told.internal_states[0], api_key: null, admin_api_key: null, ssl_keyfile_password: null },
    ]);
    assert.ok(!JSON.stringify(body).includes("secret"));
  });
});

test("/get_model_info is the first prefill server's, by whichever name it knows it", async () => {
  const info = { status: 200, body: '{"model_path":"tiny-qwen3","is_generation":true}' };
  for (const known of ["/get_model_info", "/model_info"]) {
    await withServers({ [known]: info }, async (ask) => {
      for (const path of ["/get_model_info", "/model_info"]) {
        assert.deepEqual((await ask(path)).body, { model_path: "tiny-qwen3", is_generation: true });
      }
    });
  }
  await withServers({ "/get_model_info": "refuse" }, async (ask) => {
    const { status, body } = await ask("/get_model_info");
    assert.equal(status, 502);
    assert.match(JSON.stringify(body), /\.p1 \(no answer\)/);
    assert.doesNotMatch(JSON.stringify(body), /http:/);
  });
});

test("/v1/loads lists every server's load under its URL; old servers are asked their own way", async () => {
  const load = { dp_rank: 0, num_running_reqs: 2, num_waiting_reqs: 1 };
  const answers = {
    "/v1/loads?include=all": { status: 200, body: JSON.stringify({ loads: [load] }) },
    "d2/v1/loads?include=all": { status: 500, body: "Internal Server Error" },
    "d2/get_load": {
      status: 200,
      body: '[{"dp_rank":null,"num_reqs":5,"num_waiting_reqs":3,"num_tokens":0}]',
    },
  };
  await withServers(answers, async (ask) => {
    const { status, body } = await ask("/v1/loads?include=all");
    assert.equal(status, 200);
    assert.ok(Array.isArray(body.loads));
    assert.deepEqual(
      body.loads.map((one) => JSON.parse(JSON.stringify(one))).map((
        one,
      ) => [one.worker, one.num_running_reqs]),
      [
        ["http://p1", 2],
        ["http://d1", 2],
        ["http://d2", 2],
      ],
    );
    assert.deepEqual(body.aggregate, { total_running_reqs: 6, total_waiting_reqs: 5 });
    assert.deepEqual(body.unanswered, []);
    assert.deepEqual(body.workers, [
      { worker: "http://p1", load: 3 },
      { worker: "http://d1", load: 3 },
      { worker: "http://d2", load: 5 },
    ]);
  });
});

test("the loads have the names of SGLang and of its routers, too", async () => {
  const answers = { "/v1/loads": { status: 200, body: '{"loads":[{"num_running_reqs":2}]}' } };
  await withServers(answers, async (ask) => {
    const { body } = await ask("/v1/loads");
    for (const path of ["/get_loads", "/loads"]) assert.deepEqual((await ask(path)).body, body);
    assert.deepEqual((await ask("/get_load")).body, body.loads);
  });
});

test("/health_generate asks a worker of each half of every model, and names those that are not well", async () => {
  const well = { "/health_generate": { status: 200, body: "" } };
  await withServers(well, async (ask, seen) => {
    assert.deepEqual(await ask("/health_generate"), { status: 200, body: { status: "ok" } });
    assert.deepEqual(seen.toSorted(), ["GET d1/health_generate", "GET p1/health_generate"]);
  });
  await withServers({ ...well, "d1/health_generate": { status: 503, body: "" } }, async (ask) => {
    const { status, body } = await ask("/health_generate");
    assert.equal(status, 503);
    assert.deepEqual(body, { status: "not_ready", reason: "m.d2: status 503" });
  });
});

test("workers are listed, added and removed in the words of older routers, too", async () => {
  await withServers({}, async (ask) => {
    assert.deepEqual((await ask("/list_workers")).body, {
      urls: ["http://p1", "http://d1", "http://d2", "http://v"],
    });
    const post = (path: string) => ask(path, { method: "POST" });
    assert.equal((await post("/add_worker?url=http://v2&model=plain")).status, 202);
    assert.equal((await post("/add_worker?url=nothing&model=plain")).status, 400);
    assert.equal((await post("/add_worker")).status, 400);
    assert.equal((await post("/remove_worker?url=http://v")).status, 202);
    assert.equal((await post("/remove_worker?url=http://v")).status, 404);
    const { urls } = (await ask("/list_workers")).body;
    assert.ok(Array.isArray(urls) && urls.includes("http://v2") && !urls.includes("http://v"));
  });
});

test("a router of one SGLang model alone serves any name, as SGLang does; others do not", async () => {
  const answers = { "/v1/chat/completions": { status: 200, body: '{"object":"chat.completion"}' } };
  const worker = { prefill: "http://p1", bootstrap_port: 8998, decode: "http://d1" };
  const alone = { models: { m: { model: "tiny-qwen3", engine: "sglang-pd", workers: [worker] } } };
  for (const name of [{ model: "m" }, { model: "something/else" }, {}]) {
    const init = { method: "POST", body: JSON.stringify({ ...name, messages: [] }) };
    await withServers(answers, async (ask, seen) => {
      assert.equal((await ask("/v1/chat/completions", init)).status, 200);
      assert.equal(seen.length, 2);
    }, alone);
    await withServers(answers, async (ask) => {
      assert.equal(
        (await ask("/v1/chat/completions", init)).status,
        name.model === "m" ? 200 : name.model ? 404 : 400,
      );
    });
  }
});

test("ordinary clients know workers by their ids, the operator by their addresses", async () => {
  const server = { api_keys: ["user"], admin_key: "root" };
  const answers = { "/v1/loads": { status: 200, body: '{"loads":[{"num_running_reqs":1}]}' } };
  await withServers(answers, async (ask) => {
    const names = async (key: string) => {
      const { body } = await ask("/v1/loads", { headers: { authorization: `Bearer ${key}` } });
      assert.ok(Array.isArray(body.loads));
      return body.loads.map((load) => isJsonObject(load) ? load.worker : undefined);
    };
    assert.deepEqual(await names("user"), ["m.p1", "m.d2", "m.d3"]);
    assert.deepEqual(await names("root"), ["http://p1", "http://d1", "http://d2"]);
  }, { server });
});

test("a query behind the path of a generation changes nothing: both servers of a pair get it, in a room and under an id", async () => {
  const answers = {
    "/v1/models": { status: 200, body: '{"data":[]}' },
    "/get_server_info": { status: 200, body: '{"version":"0.5.18"}' },
    "/generate?api-version=1": { status: 200, body: '{"text":"hi","meta_info":{}}' },
  };
  await withServers(answers, async (ask, seen) => {
    const body = JSON.stringify({ model: "m", text: "hi" });
    const { status } = await ask("/generate?api-version=1", { method: "POST", body });
    assert.equal(status, 200);
    const sent = seen.filter((line) => line.includes("/generate?api-version=1"));
    assert.deepEqual(sent.map((line) => line.slice(5, 6)).sort(), ["d", "p"]);
    for (const line of sent) assert.match(line, /"rid":"canopy-[0-9a-f]+".*"bootstrap_room":[1-9]/);
  });
});
