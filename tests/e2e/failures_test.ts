/** What goes wrong around a running router: workers that die, clients that leave, too many requests, the end. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { SystemClock } from "../../base/clock.ts";
import { type RunningBinary, startBinary } from "./binary.ts";

const clock = new SystemClock();
/** Calls that are not stopped go on for longer than this at the simulators' pace. */
const MAX_WAIT_MS = 8_000;

/** Two workers for each of two models, and a 9-3-1 tree over them. */
interface Site {
  readonly router: RunningBinary;
  /** By worker id, such as `small.w1`. */
  readonly workers: Map<string, RunningBinary>;
}

interface SiteOptions {
  /** Of each agent; 160 a second is the pace of the small model. */
  readonly tokens: number;
  readonly server?: Record<string, number>;
}

async function withSite(options: SiteOptions, use: (site: Site) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-failures-"));
  const workers = new Map<string, RunningBinary>();
  let router: RunningBinary | undefined;
  try {
    for (
      const [name, engine, version] of [["small", "vllm", "0.32.0"], ["large", "sglang", "0.5.18"]] as const
    ) {
      for (const id of [`${name}.w1`, `${name}.w2`]) {
        const args = ["sim", "--engine", engine, "--version", version, "--model", name, "--cost", "4b"];
        workers.set(id, await startBinary(args));
      }
    }
    const urls = (name: string) => [1, 2].map((n) => workers.get(`${name}.w${n}`)?.url);
    const three = [{ model: "small" }, { model: "small" }, { model: "large" }];
    const config = {
      server: options.server ?? {},
      models: {
        small: { model: "small", engine: "vllm", workers: urls("small") },
        large: { model: "large", engine: "sglang", workers: urls("large") },
      },
      graphs: {
        moa: {
          sampling: { max_tokens: options.tokens, min_tokens: options.tokens },
          layers: [{ clusters: 3, agents: three }, { agents: three }, { agents: [{ model: "large" }] }],
        },
      },
    };
    writeFileSync(join(folder, "canopy.json"), JSON.stringify(config));
    router = await startBinary(["serve", "canopy.json", "--port", "0"], { cwd: folder });
    const site = { router, workers };
    await until(async () => {
      const { workers: states } = await getJson<{ workers: { health: string }[] }>(
        `${site.router.url}/workers`,
      );
      return states.every((worker) => worker.health === "healthy");
    });
    await use(site);
  } finally {
    await router?.stop();
    await Promise.all([...workers.values()].map((worker) => worker.stop()));
    rmSync(folder, { recursive: true, force: true });
  }
}

async function until(condition: () => Promise<boolean>): Promise<void> {
  const startMs = clock.now();
  while (!await condition()) {
    assert.ok(clock.now() - startMs < MAX_WAIT_MS, "it did not happen in time");
    await clock.sleep(10);
  }
}

async function getJson<T>(url: string): Promise<T> {
  const document: T = await (await fetch(url)).json();
  return document;
}

function ask(site: Site, body: object, signal?: AbortSignal): Promise<Response> {
  return fetch(`${site.router.url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ messages: [{ role: "user", content: "Why is the sky blue?" }], ...body }),
    ...(signal === undefined ? {} : { signal }),
  });
}

interface Run {
  readonly id: string;
  readonly state: string;
  readonly error: { readonly code: string } | null;
}

interface Agent {
  readonly id: string;
  readonly worker: string;
  readonly first_token_at_ms: number | null;
  readonly ended_at_ms: number | null;
}

async function lastRun(site: Site): Promise<Run | undefined> {
  const { data } = await getJson<{ data: Run[] }>(`${site.router.url}/v1/runs?limit=1`);
  return data[0];
}

/** Waits until an agent of this layer decodes; gives the worker that it is on. */
async function decoding(site: Site, layer: string): Promise<string> {
  let worker: string | undefined;
  await until(async () => {
    const last = await lastRun(site);
    if (last?.state !== "running") return false;
    const { agents } = await getJson<{ agents: Agent[] }>(`${site.router.url}/v1/runs/${last.id}`);
    const agent = agents.find((one) =>
      one.id.startsWith(layer) && one.first_token_at_ms !== null && one.ended_at_ms === null
    );
    worker = agent?.worker;
    return worker !== undefined;
  });
  return worker ?? "";
}

/** Requests that the workers say they have, all together; dead workers have none. */
async function running(site: Site): Promise<number> {
  let sum = 0;
  for (const worker of site.workers.values()) {
    if (worker.process.exitCode !== null || worker.process.signalCode !== null) continue;
    const text = await (await fetch(`${worker.url}/metrics`)).text();
    const counts =
      /^(?:vllm:num_requests_running|vllm:num_requests_waiting|sglang:num_running_reqs|sglang:num_queue_reqs)\{.*\} (\S+)$/gm;
    for (const [, value] of text.matchAll(counts)) sum += Number(value);
  }
  return sum;
}

const idle = (site: Site) => until(async () => await running(site) === 0);

test("a worker that is killed while agents decode on it costs no run", async () => {
  for (const layer of ["l1", "l2"]) {
    await withSite({ tokens: 80 }, async (site) => {
      const answer = ask(site, { model: "moa", max_tokens: 20 });
      const victim = site.workers.get(await decoding(site, layer));
      victim?.process.kill("SIGKILL");
      const response = await answer;
      const body = await response.json();
      assert.equal(response.status, 200, JSON.stringify(body));
      assert.notEqual(body.choices[0].message.content, "");
      const again = await ask(site, { model: "moa", max_tokens: 20 });
      assert.equal(again.status, 200, await again.text());
      await idle(site);
    });
  }
});

test("a client that leaves, whenever it does, leaves no work behind on any engine", async () => {
  await withSite({ tokens: 400 }, async (site) => {
    for (const stream of [true, false]) {
      // The engine models are relayed, the tree is run: two ways to end a request.
      for (const model of ["moa", "small", "large"]) {
        for (const waitMs of [0, 5, 20, 100]) {
          const client = new AbortController();
          const answer = ask(site, { model, stream, max_tokens: 2000, min_tokens: 2000 }, client.signal);
          await clock.sleep(waitMs);
          client.abort();
          await assert.rejects(answer.then((response) => response.text()), { name: "AbortError" });
          // Whatever is still on its way arrives, and is ended, too.
          await clock.sleep(50);
          await idle(site);
        }
      }
    }
  });
});

test("a client that leaves in each phase of a run leaves no work behind", async () => {
  await withSite({ tokens: 60 }, async (site) => {
    for (const layer of ["l1", "l2", "l3"]) {
      const client = new AbortController();
      const answer = ask(site, { model: "moa", stream: true, max_tokens: 2000 }, client.signal);
      await decoding(site, layer);
      client.abort();
      await assert.rejects(answer.then((response) => response.text()), { name: "AbortError" });
      await idle(site);
      const run = await lastRun(site);
      assert.deepEqual([run?.state, run?.error?.code], ["cancelled", "client_gone"]);
    }
  });
});

test("beyond its places and its queue the router answers 429 at once, and everybody else is served", async () => {
  await withSite({ tokens: 20, server: { max_running: 4, max_queued: 6 } }, async (site) => {
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => ask(site, { model: "moa", max_tokens: 5 })),
    );
    const statuses = answers.map((answer) => answer.status);
    assert.equal(statuses.filter((status) => status === 200).length, 10);
    assert.equal(statuses.filter((status) => status === 429).length, 20);
    for (const answer of answers) {
      assert.equal(answer.headers.has("retry-after"), answer.status === 429);
      await answer.body?.cancel();
    }
    await idle(site);
    const metrics = await (await fetch(`${site.router.url}/metrics`)).text();
    assert.match(metrics, /^canopy_requests_in_flight 0$/m);
    assert.match(metrics, /^canopy_requests_queued 0$/m);
  });
});

test("SIGTERM lets runs finish, turns new requests away, and ends with 0", async () => {
  await withSite({ tokens: 80 }, async (site) => {
    const answer = ask(site, { model: "moa", max_tokens: 80 });
    await decoding(site, "l1");
    const ended = site.router.stop();
    await until(async () => (await fetch(`${site.router.url}/readiness`)).status === 503);
    const refused = await ask(site, { model: "moa" });
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get("retry-after"), "1");
    await refused.body?.cancel();
    assert.equal((await (await answer).json()).choices[0].finish_reason, "length");
    assert.equal(await ended, 0);
    await idle(site);
  });
});

test("a second SIGTERM ends the router at once, and its engines with it", async () => {
  await withSite({ tokens: 2000 }, async (site) => {
    const answer = ask(site, { model: "moa", stream: true });
    answer.catch(() => {});
    await decoding(site, "l1");
    const ended = site.router.stop();
    await until(async () => (await fetch(`${site.router.url}/readiness`)).status === 503);
    const { pid } = site.router.process;
    if (pid !== undefined) process.kill(pid, "SIGTERM");
    assert.equal(await ended, 1);
    await assert.rejects(answer.then((response) => response.text()));
  });
});
