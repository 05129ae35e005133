import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";
import { type Config, configSchema } from "../../../../cfgs/schema/config.ts";
import { ThreadedRouter } from "../../../../cli/kit/router/threaded_router.ts";
import { makeEarlyExit } from "../../../../cli/kit/router/make_early_exit.ts";
import { answerExtractor } from "../../../../scorer/answers/extract.ts";
import { ExitAudit } from "../../../../scorer/audit/exit_audit.ts";
import { SystemClock } from "../../../../base/clock.ts";
import { CanopyError } from "../../../../base/errors.ts";
import { startSimulator } from "../../../../simulator/serve.ts";
import { until } from "../../../until.ts";
import { withSystem } from "../../served.ts";
import { type HeldWorker, startHeldWorker } from "./held_worker.ts";

const clock = new SystemClock();
/** Requests of which the kernel gives some to each of two threads, but once in so many billions. */
const MANY = 32;

interface Answer {
  readonly status: number;
  readonly text: string;
  /** False when it broke off. */
  readonly whole: boolean;
}

/** Asks over a connection of its own, which the kernel gives to any of the threads. */
function ask(method: string, url: string, body?: object, key = ""): Promise<Answer> {
  return new Promise((resolve) => {
    let text = "";
    let status = 0;
    const end = (whole: boolean) => resolve({ status, text, whole });
    const sent = httpRequest(
      url,
      {
        method,
        agent: false,
        headers: {
          "content-type": "application/json",
          ...(key === "" ? {} : { authorization: `Bearer ${key}` }),
        },
      },
      (answer) => {
        status = answer.statusCode ?? 0;
        answer.setEncoding("utf8");
        answer.on("data", (piece) => text += String(piece));
        answer.on("end", () => end(answer.complete));
        answer.on("error", () => end(false));
      },
    );
    sent.on("error", () => end(false));
    sent.end(body && JSON.stringify(body));
  });
}

interface Served {
  readonly url: string;
  readonly config: Config;
  readonly threaded: ThreadedRouter;
  readonly worker: HeldWorker;
  chat(model: string, options?: object): Promise<Answer>;
  get(path: string): Promise<Answer>;
}

/** Two threads in front of one worker while `use` runs. */
async function withThreads(
  use: (served: Served) => Promise<void>,
  { server = {}, model = {}, models = {}, narrow = false }: {
    server?: object;
    model?: object;
    models?: object;
    /** With a model `narrow`, too, of which no more than three requests run. */
    narrow?: boolean;
  } = {},
): Promise<void> {
  const worker = await startHeldWorker();
  try {
    await withSystem(async (io) => {
      const m = { model: "m", engine: "openai", tokenizer: false, workers: [worker.url], ...model };
      const config = configSchema.parse({
        server: { log_level: "fatal", workers: 2, ...server },
        models: { m, ...(narrow ? { narrow: { ...m, max_in_flight: 3 } } : {}), ...models },
        graphs: {
          tree: { layers: [{ agents: [{ model: "m" }] }], incremental_prefill: "off" },
          // Its leaves say 2, its root 4.
          voted: {
            layers: [
              { agents: Array(3).fill({ model: "m", sampling: { max_tokens: 3 } }) },
              { agents: [{ model: "m", sampling: { max_tokens: 5 } }] },
            ],
            incremental_prefill: "off",
            early_exit: {
              scope: "run",
              consensus: { agree: 2, audit: 1, most_wrong: 0.4 },
              answer: { pattern: "([0-9]+)\\s*$" },
            },
          },
        },
      });
      const threaded = new ThreadedRouter({
        config,
        clock: io.clock,
        random: io.random,
        transport: io.transport,
        earlyExit: makeEarlyExit(config, io, { leads: true }).services,
        threads: 2,
        address: { host: "127.0.0.1", port: config.server.port === 8000 ? 0 : config.server.port },
        means: io,
      });
      try {
        const { url } = await threaded.listen();
        await until("it is ready", async () => (await ask("GET", `${url}/readiness`)).status === 200);
        const messages = [{ role: "user", content: "Hi" }];
        await use({
          url,
          config,
          threaded,
          worker,
          chat: (name, options) =>
            ask("POST", `${url}/v1/chat/completions`, { model: name, messages, ...options }),
          get: (path) => ask("GET", `${url}${path}`),
        });
      } finally {
        worker.release();
        await threaded.router.close();
      }
    });
  } finally {
    await worker.close();
  }
}

const logs = mkdtempSync(join(tmpdir(), "canopy-threads-"));
let shared: Promise<{ readonly served: Served; end(): void }> | undefined;
let sharedEnded = Promise.resolve();

/** Two threads that several tests use in turn, since a thread takes long to start: each leaves them as they were. */
async function withSharedThreads(use: (served: Served) => Promise<void>): Promise<void> {
  shared ??= new Promise((resolve, reject) => {
    sharedEnded = withThreads((served) => new Promise((end) => resolve({ served, end })), {
      server: { log_dir: logs },
      narrow: true,
    });
    sharedEnded.catch(reject);
  });
  const { served } = await shared;
  await until("nothing runs", () => served.worker.running === 0);
  try {
    await use(served);
  } finally {
    served.worker.release();
  }
}

after(async () => {
  (await shared?.catch(() => undefined))?.end();
  await sharedEnded.catch(() => {});
  rmSync(logs, { recursive: true });
});

function times<T>(count: number, make: () => T): T[] {
  return Array.from({ length: count }, make);
}

/** The words of a stream, in the order in which they came. */
function wordsOf(text: string): string {
  return [...text.matchAll(/"content":"([^"]*)"/g)].map(([, word]) => word).join("");
}

function valueOf(page: string, series: string): number {
  const line = page.split("\n").find((one) => one.startsWith(`${series} `));
  return line === undefined ? NaN : Number(line.slice(series.length + 1));
}

/** The value of a counter, which is not on the page before it has counted something. */
function countOf(page: string, series: string): number {
  return valueOf(page, series) || 0;
}

/** Waits until both threads serve after one has died: it may have taken connections that nobody answers. */
async function bothServe(url: string, key?: string): Promise<void> {
  await until("another thread has taken its place", async () => {
    const page = await Promise.race([ask("GET", `${url}/metrics`, undefined, key), clock.sleep(2_000)]);
    return page !== undefined && valueOf(page.text, "canopy_threads") === 2;
  });
}

test("streams over two threads come whole and in order, and one page of metrics counts them all", async () => {
  await withSharedThreads(async ({ chat, get }) => {
    const page = (await get("/metrics")).text;
    const series = [
      `canopy_requests_total{model="m",outcome="ok"}`,
      `smg_http_requests_total{method="POST",path="/v1/chat/completions"}`,
    ];
    const before = series.map((one) => countOf(page, one));
    const answers = await Promise.all(times(60, () => chat("m", { stream: true, max_tokens: 30 })));
    const expected = Array.from({ length: 30 }, (_, at) => `${at} `).join("");
    for (const { status, text, whole } of answers) {
      assert.deepEqual([status, whole, wordsOf(text)], [200, true, expected]);
    }
    const pages = await Promise.all(times(8, () => get("/metrics")));
    for (const { text } of pages) {
      assert.deepEqual(series.map((one, at) => countOf(text, one) - before[at]!), [60, 60]);
      assert.equal(valueOf(text, "canopy_threads"), 2);
      assert.equal(valueOf(text, `canopy_worker_in_flight{model="m",worker="m.w1"}`), 0);
    }
  });
});

test("limits hold over all threads together, and a place that one gives back is another's", async () => {
  await withSharedThreads(async ({ chat, worker }) => {
    worker.hold();
    const asked = times(40, () => chat("narrow"));
    await until("the places are taken", () => worker.running === 3);
    worker.release();
    const answers = await Promise.all(asked);
    assert.deepEqual(answers.map(({ status }) => status), times(40, () => 200));
    assert.equal(worker.most, 3);
  });
});

test("requests that run and that wait are bounded over all threads together", async () => {
  await withThreads(async ({ chat, get, worker }) => {
    worker.hold();
    const asked = times(12, () => chat("m"));
    let refused = 0;
    const answered = asked.map((answer) => answer.then(({ status }) => status === 429 && refused++));
    await until("all are counted", async () => {
      const { text } = await get("/metrics");
      return valueOf(text, "canopy_places_in_use") === 2 && valueOf(text, "canopy_requests_queued") === 4;
    });
    // One that came later than that would find a place.
    await until("the rest is refused", () => worker.running === 2 && refused === 6);
    worker.release();
    await Promise.all(answered);
    assert.equal(refused, 6);
    assert.equal(worker.most, 2);
    const { text } = await get("/metrics");
    assert.equal(valueOf(text, "canopy_places_in_use"), 0);
    assert.equal(valueOf(text, "canopy_requests_queued"), 0);
  }, { server: { max_running: 2, max_queued: 4 } });
});

test("a run is seen and cancelled through any thread, and its record is kept for all", async () => {
  await withSharedThreads(async ({ url, chat, get, worker }) => {
    const idsIn = ({ text }: Answer): string[] => JSON.parse(text).data.map(({ id }: { id: string }) => id);
    const before = new Set(idsIn(await get("/v1/runs")));
    const newIn = (list: Answer) => idsIn(list).filter((id) => !before.has(id));
    worker.hold();
    const running = chat("tree");
    await until("the run works", () => worker.running === 1);
    const lists = await Promise.all(times(8, () => get("/v1/runs")));
    const ids = lists.map(newIn);
    const [id] = ids[0]!;
    assert.deepEqual(ids, times(8, () => [id]));
    for (const { text } of await Promise.all(times(8, () => get(`/v1/runs/${id}`)))) {
      assert.equal(JSON.parse(text).state, "running");
    }
    // The events of a run come from the thread that has it, as they happen.
    const followed = times(4, () => get(`/v1/runs/${id}/events`));
    const cancelled = await ask("DELETE", `${url}/v1/runs/${id}`);
    assert.deepEqual([cancelled.status, JSON.parse(cancelled.text).state], [200, "cancelled"]);
    await until("the engine is idle", () => worker.running === 0);
    assert.equal((await running).status, 499);
    for (const { text } of await Promise.all(followed)) assert.match(text, /\[DONE\]/);
    for (const { status, text } of await Promise.all(times(8, () => get(`/v1/runs/${id}`)))) {
      assert.deepEqual([status, JSON.parse(text).state], [200, "cancelled"]);
    }
    assert.equal(newIn(await get("/v1/runs")).length, 1);
    assert.equal((await get("/v1/runs/run_none")).status, 404);
  });
});

test("what one thread sees of exits all threads know: together they switch exits off after as many audits as one alone", async () => {
  await withSharedThreads(async ({ chat, get, config }) => {
    const audit = new ExitAudit(config.graphs["voted"]!.early_exit);
    const extract = answerExtractor(config.graphs["voted"]!.early_exit.answer);
    const [exit, whole] = ["0 2 ", "0 4 "].map((text) => extract(text, "")!);
    while (!audit.off) audit.compare(exit!, whole);
    const audits = async () => {
      const { text } = await get("/metrics");
      return valueOf(text, 'canopy_exit_audits_total{graph="voted",found="other"}');
    };
    for (let run = 0; run < MANY; run++) {
      assert.equal((await chat("voted")).status, 200);
      // The first goes through the thread that has told of the run, the second through the others behind that.
      await audits();
      await audits();
    }
    assert.ok(audit.audited > 4, `${audit.audited}`);
    assert.equal(await audits(), audit.audited);
  });
});

test("a thread that dies is replaced: only its own streams end, and what they held is given back", async () => {
  await withSharedThreads(async ({ url, threaded, chat, get, worker }) => {
    worker.hold();
    const streams = times(40, () => chat("m", { stream: true, max_tokens: 5 }));
    await until("all streams run", () => worker.running === 40);
    await get("/metrics");
    assert.ok(threaded.crash(1));
    await until("its streams are cut at the worker, too", () => worker.running < 40);
    worker.release();
    const answers = await Promise.all(streams);
    const whole = answers.filter((answer) => answer.whole && answer.text.endsWith("data: [DONE]\n\n"));
    assert.ok(whole.length > 0 && whole.length < 40, `${whole.length} of 40`);
    assert.ok(whole.every(({ text }) => wordsOf(text) === "0 1 2 3 4 "));
    await bothServe(url);
    const after = await Promise.all(times(30, () => chat("m")));
    assert.ok(after.every(({ status }) => status === 200));
    const { text } = await get("/metrics");
    assert.equal(valueOf(text, `canopy_worker_in_flight{model="m",worker="m.w1"}`), 0);
    assert.equal(valueOf(text, "canopy_places_in_use"), 0);
  });
});

test("all threads hear of workers that come, go, drain, and are ill or well", async () => {
  const second = await startHeldWorker();
  try {
    await withThreads(async ({ url, chat, get, worker }) => {
      const added = await ask("POST", `${url}/workers`, { url: second.url, model: "m" });
      assert.equal(added.status, 202, added.text);
      assert.equal((await ask("DELETE", `${url}/workers/m.w1`)).status, 202);
      const before = worker.asked;
      const answers = await Promise.all(times(20, () => chat("m")));
      assert.deepEqual(answers.filter(({ status }) => status !== 200), []);
      assert.equal(worker.asked, before);
      assert.equal(second.asked, 20);
      second.healthy = false;
      await until("it is known to be ill", async () => (await get("/readiness")).status === 503);
      await until(
        "nobody gets work there",
        async () => (await Promise.all(times(MANY, () => chat("m")))).every(({ status }) => status === 503),
      );
      second.healthy = true;
      await until("it is known to be well", async () => (await get("/readiness")).status === 200);
      await until(
        "it gets work again",
        async () => (await Promise.all(times(MANY, () => chat("m")))).every(({ status }) => status === 200),
      );
    }, { model: { health: { interval_ms: 50, failures: 3, successes: 1 } } });
  } finally {
    await second.close();
  }
});

test("a drain waits for the streams of all threads, and refuses what is new", async () => {
  await withThreads(async ({ threaded, chat, get, worker }) => {
    worker.hold();
    const streams = times(20, () => chat("m", { stream: true, max_tokens: 4 }));
    await until("all streams run", () => worker.running === 20);
    worker.holdNoMore();
    const drained = threaded.router.drain();
    await until("it is not ready", async () => (await get("/readiness")).status === 503);
    await until(
      "new requests are refused",
      async () => (await Promise.all(times(MANY, () => chat("m")))).every(({ status }) => status === 503),
    );
    worker.release();
    for (const { whole, text } of await Promise.all(streams)) {
      assert.deepEqual([whole, wordsOf(text)], [true, "0 1 2 3 "]);
    }
    await drained;
    assert.equal((await get("/health")).status, 0);
  });
});

test("all threads go on by a new configuration, also those that are started then", async () => {
  const second = await startHeldWorker();
  try {
    await withThreads(async ({ url, threaded, config, chat, get, worker }) => {
      const statuses = async () =>
        new Set((await Promise.all(times(MANY, () => chat("m")))).map(({ status }) => status));
      worker.hold();
      const streams = times(10, () => chat("m", { stream: true, max_tokens: 3 }));
      await until("all streams run", () => worker.running === 10);
      // A thread that has not heard of it yet asks the old one.
      worker.holdNoMore();
      const { m } = config.models;
      const moved = { ...config, models: { m: { ...m!, workers: [second.url] } } };
      threaded.router.reconfigure(moved);
      await until("all threads have the new worker", async () => {
        const before = second.asked;
        return (await statuses()).has(200) && second.asked - before === MANY;
      });
      worker.release();
      for (const { text } of await Promise.all(streams)) assert.equal(wordsOf(text), "0 1 2 ");
      for (const { text } of await Promise.all(times(6, () => get("/v1/config")))) {
        const { server, models } = JSON.parse(text);
        assert.deepEqual([server.max_runs_kept, models.m.workers], [config.server.max_runs_kept, [
          second.url,
        ]]);
      }
      const limits = { default: {}, keys: { team: { api_key: "k", max_concurrent: 3 } } };
      threaded.router.reconfigure({ ...moved, server: { ...config.server, limits } });
      await until("all threads want the key", async () => [...await statuses()].join() === "401");
      threaded.crash(2);
      await bothServe(url, "k");
      assert.deepEqual([...await statuses()], [401]);
      second.hold();
      let refused = 0;
      const body = { model: "m", messages: [{ role: "user", content: "Hi" }] };
      const asked = times(MANY, async () => {
        const { status } = await ask("POST", `${url}/v1/chat/completions`, body, "k");
        if (status === 429) refused++;
        return status;
      });
      await until("all but three are refused", () => refused === MANY - 3);
      second.release();
      assert.equal((await Promise.all(asked)).filter((status) => status === 200).length, 3);
      const { text } = await ask("GET", `${url}/metrics`, undefined, "k");
      assert.equal(valueOf(text, 'canopy_key_refusals_total{key="team",limit="concurrent"}'), MANY - 3);
    });
  } finally {
    await second.close();
  }
});

test("models come, go and are served anew in all threads, and no stream is lost", async () => {
  const second = await startHeldWorker();
  try {
    await withThreads(async ({ url, threaded, config, chat, get, worker }) => {
      const { m } = config.models;
      const other = { ...m!, workers: [second.url] };
      const reconfigure = (models: Config["models"]) => threaded.router.reconfigure({ ...config, models });
      const answered = async (name: string, expected: number) => {
        const answers = await Promise.all(times(MANY, () => chat(name)));
        return answers.every(({ status }) => status === expected);
      };
      const streams = (name: string) => times(8, () => chat(name, { stream: true, max_tokens: 3 }));
      const assertWhole = async (asked: readonly Promise<Answer>[]) => {
        for (const { text, whole } of await Promise.all(asked)) {
          assert.deepEqual([whole, wordsOf(text)], [true, "0 1 2 "]);
        }
      };
      reconfigure({ m: m!, other });
      await until("all threads have the new model", () => answered("other", 200));
      second.hold();
      worker.hold();
      const asked = [...streams("other"), ...streams("m")];
      await until("all streams run", () => second.running === 8 && worker.running === 8);
      second.holdNoMore();
      worker.holdNoMore();
      // The one goes, the other is served anew by the worker of both.
      reconfigure({ m: { ...other, chat_template_arguments: { thinking: false } } });
      await until("nobody has it any more", () => answered("other", 404));
      await until("the streams alone run", () => second.running === 8 && worker.running === 8);
      second.release();
      worker.release();
      await assertWhole(asked);
      const before = [worker.asked, second.asked];
      assert.ok(await answered("m", 200));
      assert.deepEqual([worker.asked, second.asked], [before[0], before[1]! + MANY]);

      // Pairs on single servers: nothing has changed, here or there.
      assert.throws(
        () => reconfigure({ m: other, pair: { ...other, engine: "sglang-pd" } }),
        /needs pairs of a prefill and a decode server/,
      );
      assert.ok(await answered("m", 200) && await answered("pair", 404));
      // More often than there are places for workers, and numbers of models.
      for (let time = 0; time < 300; time++) {
        reconfigure({ m: m!, [`other${time % 2}`]: other });
        if (time % 50 === 0) await get("/readiness");
      }
      await until("the last one is in effect", () => answered("other1", 200));
      assert.ok(await answered("other0", 404));
      threaded.crash(1);
      await bothServe(url);
      assert.ok(await answered("m", 200) && await answered("other1", 200));
      const page = (await get("/metrics")).text;
      const inFlight = [...page.matchAll(/^canopy_worker_in_flight\{.*\} (\d+)$/gm)].map(([, count]) =>
        count
      );
      assert.deepEqual(inFlight, ["0", "0"]);
    });
  } finally {
    await second.close();
  }
});

test("all threads place requests on a server's data-parallel ranks, a new thread and a new configuration too", async () => {
  const sim = await startSimulator({
    engine: "sglang",
    models: ["r"],
    cost: "instant",
    clock,
    seed: "ranks",
    dpSize: 4,
  });
  try {
    await withThreads(async ({ url, config, threaded, get }) => {
      const ranks = async () => {
        const body = { model: "r", text: "Hi", sampling_params: { max_new_tokens: 2 } };
        const answers = await Promise.all(times(24, () => ask("POST", `${url}/generate`, body)));
        assert.deepEqual(answers.filter(({ status }) => status !== 200), []);
        return new Set(answers.map(({ text }) => JSON.parse(text).meta_info.dp_rank));
      };
      const listed = async () =>
        JSON.parse((await get("/workers")).text).workers
          .flatMap(({ id, model_id }: { id: string; model_id: string }) => model_id === "r" ? [id] : []);
      await until("the ranks are known", async () => (await listed()).length === 4);
      const all = [0, 1, 2, 3];
      const ids = all.map((rank) => `r.w1@${rank}`);
      for (const ids2 of await Promise.all(times(6, listed))) assert.deepEqual(ids2, ids);
      await until("all threads use all ranks", async () => (await ranks()).size === 4);
      assert.deepEqual([...await ranks()].sort(), all);
      const page = (await get("/metrics")).text;
      for (const id of ids) {
        assert.equal(valueOf(page, `canopy_worker_in_flight{model="r",worker="${id}"}`), 0);
      }

      threaded.crash(1);
      await bothServe(url);
      assert.deepEqual([...await ranks()].sort(), all);
      assert.equal((await ask("DELETE", `${url}/workers/r.w1`)).status, 202);
      await until("nobody uses it", async () => (await listed()).length === 0);
      assert.equal((await ask("POST", `${url}/workers`, { url: sim.url, model: "r" })).status, 202);
      await until("its ranks are known again", async () => (await listed()).length === 4);
      await until("all threads use all ranks", async () => (await ranks()).size === 4);

      const { r } = config.models;
      threaded.router.reconfigure({ ...config, models: { ...config.models, r: { ...r!, dp_aware: false } } });
      await until("it is one place", async () => (await listed()).length === 1);
      assert.equal((await ranks()).size > 0, true);
    }, {
      models: { r: { model: "r", engine: "sglang", tokenizer: false, dp_aware: true, workers: [sim.url] } },
    });
  } finally {
    await sim.close();
  }
});

test("a port that another router has is refused, and not shared by the two", async () => {
  await withSharedThreads(async ({ url }) => {
    await assert.rejects(
      withThreads(() => Promise.resolve(), { server: { port: Number(new URL(url).port) } }),
      (error) => CanopyError.is(error) && error.code === "address_in_use",
    );
  });
});

test("the threads log by the level of a configuration that was read again", async () => {
  await withSharedThreads(async ({ config, threaded, chat }) => {
    assert.equal((await chat("m")).status, 200);
    const logged = () => readFileSync(join(logs, "canopy.log"), "utf8");
    assert.doesNotMatch(logged(), /chat\/completions/);
    threaded.router.reconfigure({ ...config, server: { ...config.server, log_level: "info" } });
    await until("a request is logged", async () => {
      await chat("m");
      return /chat\/completions for m: ok/.test(logged());
    });
    threaded.router.reconfigure(config);
  });
});
