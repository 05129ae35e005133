/** What goes wrong around a running router: workers that die, clients that leave, too many requests, the end. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { test } from "node:test";
import { type Clock, SystemClock } from "../../base/clock.ts";
import { type ListeningSimulator, startSimulator } from "../../simulator/serve.ts";
import { until } from "../until.ts";
import { type RunningBinary, startBinary } from "./binary.ts";

const clock = new SystemClock();
/** Tokens of an answer that does not end by itself: at the simulators' pace it goes on for longer than `HANG_MS`. */
const ENDLESS = 200_000;

/** The machine's time, which stands still for an engine that is held. */
class HeldClock implements Clock {
  readonly unixEpochMs = clock.unixEpochMs;
  #held: () => boolean = () => false;
  #go = Promise.withResolvers<void>();

  now(): number {
    return clock.now();
  }

  async sleep(ms: number, signal?: AbortSignal): Promise<void> {
    await clock.sleep(ms, signal);
    if (this.#held()) await this.#go.promise;
  }

  timer(ms: number, fire: () => void): () => void {
    return clock.timer(ms, fire);
  }

  /** Lets no step end any more as soon as this holds. */
  hold(from: () => boolean): void {
    this.#held = from;
  }

  release(): void {
    this.#held = () => false;
    this.#go.resolve();
  }
}

interface Worker extends ListeningSimulator {
  readonly clock: HeldClock;
}

/** A 9-3-1 tree whose layers have a model each, with two workers: `l1`, `l2` and `l3`. */
interface Site {
  readonly router: RunningBinary;
  /** By worker id, such as `l1.w1`. */
  readonly workers: ReadonlyMap<string, Worker>;
}

interface SiteOptions {
  /** Of each agent, by layer. */
  readonly tokens: readonly [number, number, number];
  /** The layer whose workers stop after this many tokens, until they are released. */
  readonly held?: { readonly layer: string; readonly tokens: number };
  readonly server?: Record<string, number>;
}

const LAYERS = [["l1", "vllm", "0.32.0"], ["l2", "sglang", "0.5.18"], ["l3", "vllm", "0.32.0"]] as const;

async function startWorker(model: string, engine: "vllm" | "sglang", version: string): Promise<Worker> {
  const held = new HeldClock();
  const options = { engine, version, models: [model], cost: "4b", seed: model, clock: held } as const;
  return { ...await startSimulator({ ...options, contextTokens: 2 * ENDLESS }), clock: held };
}

async function withSite(options: SiteOptions, use: (site: Site) => Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-failures-"));
  const workers = new Map<string, Worker>();
  let router: RunningBinary | undefined;
  try {
    for (const [name, engine, version] of LAYERS) {
      for (const id of [`${name}.w1`, `${name}.w2`]) {
        const worker = await startWorker(name, engine, version);
        workers.set(id, worker);
        if (options.held?.layer !== name) continue;
        const { tokens } = options.held;
        worker.clock.hold(() => worker.simulator.stats.generationTokens >= tokens);
      }
    }
    const models = Object.fromEntries(LAYERS.map(([name, engine]) => {
      const urls = [1, 2].map((n) => workers.get(`${name}.w${n}`)?.url);
      return [name, { model: name, engine, workers: urls }];
    }));
    const agent = (layer: number) => {
      const tokens = options.tokens[layer] ?? 0;
      return { model: `l${layer + 1}`, sampling: { max_tokens: tokens, min_tokens: tokens } };
    };
    const three = (layer: number) => [agent(layer), agent(layer), agent(layer)];
    const layers = [{ clusters: 3, agents: three(0) }, { agents: three(1) }, { agents: [agent(2)] }];
    const config = { server: options.server ?? {}, models, graphs: { moa: { layers } } };
    writeFileSync(join(folder, "canopy.json"), JSON.stringify(config));
    router = await startBinary(["serve", "canopy.json", "--port", "0"], { cwd: folder });
    const site = { router, workers };
    await until("all workers are healthy", async () => {
      const { workers: states } = await getJson<{ workers: { health: string }[] }>(
        `${site.router.url}/workers`,
      );
      return states.every((worker) => worker.health === "healthy");
    });
    await use(site);
  } finally {
    release(workers);
    router?.process.kill("SIGKILL");
    await Promise.all([...workers.values()].map((worker) => worker.close()));
    rmSync(folder, { recursive: true, force: true });
  }
}

function release(workers: ReadonlyMap<string, Worker>): void {
  for (const worker of workers.values()) worker.clock.release();
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
  await until(`an agent of ${layer} decodes`, async () => {
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

/** Waits until no engine has a request any more. */
async function idle({ workers }: Site): Promise<void> {
  await until(
    "the engines are idle",
    () => [...workers.values()].every(({ simulator }) => simulator.running === 0),
  );
}

for (const layer of ["l1", "l2"]) {
  test(`a worker of ${layer} that dies while agents decode on it costs no run`, async () => {
    await withSite({ tokens: [40, 40, 20], held: { layer, tokens: 8 } }, async (site) => {
      const answer = ask(site, { model: "moa" });
      const victim = site.workers.get(await decoding(site, layer));
      assert.ok(victim !== undefined);
      await victim.close();
      release(site.workers);
      const response = await answer;
      const body = await response.json();
      assert.equal(response.status, 200, JSON.stringify(body));
      assert.notEqual(body.choices[0].message.content, "");
      const again = await ask(site, { model: "moa" });
      assert.equal(again.status, 200, await again.text());
      const left = [...site.workers].filter(([, worker]) => worker !== victim);
      await idle({ ...site, workers: new Map(left) });
    });
  });
}

test("a client that leaves, whenever it does, leaves no work behind on any engine", async () => {
  await withSite({ tokens: [ENDLESS, 40, 40] }, async (site) => {
    for (const stream of [true, false]) {
      // The engine models are relayed, the tree is run: two ways to end a request.
      for (const model of ["moa", "l1", "l2"]) {
        for (const waitMs of [0, 5, 20, 100]) {
          const client = new AbortController();
          const body = { model, stream, max_tokens: ENDLESS, min_tokens: ENDLESS };
          const answer = ask(site, body, client.signal);
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
  for (const [at, layer] of ["l1", "l2", "l3"].entries()) {
    const tokens = [0, 1, 2].map((other) => other === at ? ENDLESS : 20);
    const [first = 0, second = 0, third = 0] = tokens;
    await withSite({ tokens: [first, second, third] }, async (site) => {
      const client = new AbortController();
      const answer = ask(site, { model: "moa", stream: true }, client.signal);
      await decoding(site, layer);
      client.abort();
      await assert.rejects(answer.then((response) => response.text()), { name: "AbortError" });
      await idle(site);
      const run = await lastRun(site);
      assert.deepEqual([run?.state, run?.error?.code], ["cancelled", "client_gone"]);
    });
  }
});

test("beyond its places and its queue the router answers 429 at once, and everybody else is served", async () => {
  const server = { max_running: 4, max_queued: 6 };
  await withSite({ tokens: [20, 20, 20], server, held: { layer: "l1", tokens: 0 } }, async (site) => {
    const statuses: number[] = [];
    const answers = Array.from({ length: 30 }, async () => {
      const answer = await ask(site, { model: "moa" });
      assert.equal(answer.headers.has("retry-after"), answer.status === 429);
      await answer.body?.cancel();
      statuses.push(answer.status);
    });
    await until("twenty are turned away", () => statuses.length === 20);
    assert.ok(statuses.every((status) => status === 429), String(statuses));
    release(site.workers);
    await Promise.all(answers);
    assert.deepEqual(statuses.slice(20), Array.from({ length: 10 }, () => 200));
    await idle(site);
    await until("no request is left", async () => {
      const metrics = await (await fetch(`${site.router.url}/metrics`)).text();
      return /^canopy_requests_in_flight 0$/m.test(metrics) && /^canopy_requests_queued 0$/m.test(metrics);
    });
  });
});

test("SIGTERM lets runs finish, turns new requests away, and ends with 0", async () => {
  await withSite({ tokens: [20, 20, 20], held: { layer: "l1", tokens: 8 } }, async (site) => {
    const answer = ask(site, { model: "moa" });
    await decoding(site, "l1");
    const ended = site.router.stop();
    await until("draining", async () => (await fetch(`${site.router.url}/readiness`)).status === 503);
    const refused = await ask(site, { model: "moa" });
    assert.equal(refused.status, 503);
    assert.equal(refused.headers.get("retry-after"), "1");
    await refused.body?.cancel();
    release(site.workers);
    assert.equal((await (await answer).json()).choices[0].finish_reason, "length");
    assert.equal(await ended, 0);
    await idle(site);
  });
});

test("a second SIGTERM ends the router at once, and its calls with it", async () => {
  await withSite({ tokens: [ENDLESS, 20, 20] }, async (site) => {
    const answer = ask(site, { model: "moa", stream: true });
    answer.catch(() => {});
    await decoding(site, "l1");
    const ended = site.router.stop();
    await until("draining", async () => (await fetch(`${site.router.url}/readiness`)).status === 503);
    const { pid } = site.router.process;
    if (pid !== undefined) process.kill(pid, "SIGTERM");
    assert.equal(await ended, 143);
    await assert.rejects(answer.then((response) => response.text()));
    await idle(site);
  });
});
