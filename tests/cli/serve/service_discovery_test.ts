import assert from "node:assert/strict";
import { test } from "node:test";
import { until } from "../../until.ts";
import "../../loopback.ts";
import { FakeKubernetes } from "./fake_kubernetes.ts";
import { chat, whileServing, withServers } from "./routers.ts";

interface ListedWorker {
  readonly url: string;
  readonly worker_type: string;
  readonly bootstrap_port: number | null;
  readonly health: string;
}

async function workers(url: string): Promise<ListedWorker[]> {
  const body: { workers: ListedWorker[] } = await (await fetch(`${url}/workers`)).json();
  return body.workers;
}

/** A router with these flags before a fake cluster; several addresses of the loopback are its pods'. */
async function inCluster(
  flags: readonly string[],
  use: (api: FakeKubernetes, url: string, port: number) => Promise<void>,
  prepare: (api: FakeKubernetes) => void = () => {},
): Promise<void> {
  const api = new FakeKubernetes();
  prepare(api);
  await api.start();
  try {
    // On all addresses, since each pod has the same port and an address of its own.
    await withServers([{ host: "0.0.0.0" }], async ([server]) => {
      const port = Number(new URL(server!).port);
      const more = ["--service-discovery-port", String(port), "--kubernetes-api", api.url];
      const { code, err } = await whileServing(
        ["--service-discovery", ...flags, ...more, "--host", "127.0.0.1"],
        (url) => use(api, url, port),
        { KUBERNETES_TOKEN: "secret" },
      );
      assert.equal(code, 0, err);
    });
  } finally {
    await api.close();
  }
}

const worker = { app: "sglang", role: "inference" };

test("pods of --selector join when they are ready, drain when they are deleted, and leave when they are gone", async () => {
  const flags = ["--selector", "app=sglang", "role=inference", "--service-discovery-namespace", "llm"];
  await inCluster(flags, async (api, url, port) => {
    const at = (ip: string) => `http://${ip}:${port}`;
    const listed = async () =>
      (await workers(url)).map((one) => `${one.url} ${one.health === "draining" ? "draining" : ""}`.trim())
        .sort();
    const become = (...expected: string[]) =>
      until(expected.join(), async () => JSON.stringify(await listed()) === JSON.stringify(expected.sort()));
    api.put({ name: "a", ip: "127.0.0.1", namespace: "llm", labels: worker });
    await become(at("127.0.0.1"));
    await until("it serves", async () => (await chat(url, "org/a")).status === 200);
    api.put({ name: "b", ip: "127.0.0.2", namespace: "llm", labels: worker, ready: false });
    api.put({ name: "else", ip: "127.0.0.3", namespace: "llm", labels: { app: "sglang", role: "training" } });
    api.put({ name: "there", ip: "127.0.0.4", namespace: "other", labels: worker });
    api.put({ name: "b", ip: "127.0.0.2", namespace: "llm", labels: worker });
    await become(at("127.0.0.1"), at("127.0.0.2"));
    api.put({ name: "a", ip: "127.0.0.1", namespace: "llm", labels: worker, leaving: true, ready: false });
    await become(`${at("127.0.0.1")} draining`, at("127.0.0.2"));
    api.remove("a");
    await become(at("127.0.0.2"));
    assert.equal((await chat(url, "org/a")).status, 200);
    assert.deepEqual(
      [...new Set(api.asked)].sort(),
      ["list", "watch"].map((verb) => `${verb} /api/v1/namespaces/llm/pods app=sglang,role=inference`),
    );
  }, (api) => api.token = "secret");
});

test("after disconnects, bookmarks and 410 the members are those of the cluster, and none was lost meanwhile", async () => {
  await inCluster(["--selector", "app=sglang"], async (api, url, port) => {
    const urls = async () => (await workers(url)).map((one) => one.url).sort();
    const become = (...ips: string[]) =>
      until(
        ips.join(),
        async () => JSON.stringify(await urls()) === JSON.stringify(ips.map((ip) => `http://${ip}:${port}`)),
      );
    const put = (n: number) => api.put({ name: `p${n}`, ip: `127.0.0.${n}`, labels: { app: "sglang" } });
    for (const n of [1, 2, 3]) put(n);
    await become("127.0.0.1", "127.0.0.2", "127.0.0.3");
    await until("it watches", () => api.watching === 1);
    api.bookmark();
    api.cut();
    assert.equal((await urls()).length, 3, "members stay while nothing is known");
    await until("it watches again", () => api.watching === 1);
    put(4);
    await become("127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4");
    api.compact();
    api.remove("p1");
    put(5);
    await become("127.0.0.2", "127.0.0.3", "127.0.0.4", "127.0.0.5");
    assert.equal((await chat(url, "org/a")).status, 200);
  });
});

test("prefill and decode pods have selectors of their own, and the annotation is the registry's port", async () => {
  const flags = [
    "--pd-disaggregation",
    "--prefill-selector",
    "app=sglang",
    "component=prefill",
    "--decode-selector",
    "app=sglang",
    "component=decode",
  ];
  await inCluster(flags, async (api, url, port) => {
    const annotations = { "sglang.ai/bootstrap-port": "8998" };
    api.put({ name: "p", ip: "127.0.0.1", labels: { app: "sglang", component: "prefill" }, annotations });
    api.put({ name: "d", ip: "127.0.0.2", labels: { app: "sglang", component: "decode" }, annotations });
    await until(
      "both have joined",
      async () => (await workers(url)).filter(({ health }) => health === "healthy").length === 2,
    );
    const listed = (await workers(url)).map((one) => [one.url, one.worker_type, one.bootstrap_port]);
    assert.deepEqual(listed.sort(), [
      [`http://127.0.0.1:${port}`, "prefill", 8998],
      [`http://127.0.0.2:${port}`, "decode", null],
    ]);
    assert.deepEqual(
      [...new Set(api.asked)].filter((asked) => asked.startsWith("watch")).sort(),
      ["decode", "prefill"].map((half) => `watch /api/v1/pods app=sglang,component=${half}`),
    );
  });
});

test("a router that may not look at pods goes on asking, and has them once it may", async () => {
  await inCluster(["--selector", "app=sglang"], async (api, url) => {
    api.put({ name: "a", ip: "127.0.0.1", labels: { app: "sglang" } });
    await until("it was refused", () => api.asked.length > 1);
    assert.equal((await fetch(`${url}/readiness`)).status, 503);
    api.forbidden.clear();
    await until("it has joined", async () => (await workers(url)).length === 1);
  }, (api) => api.forbidden.add("list"));
});
