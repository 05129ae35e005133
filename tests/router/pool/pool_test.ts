import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import {
  type IncomingResponse,
  type OutgoingRequest,
  type Transport,
  TransportError,
} from "../../../base/transport.ts";
import { type ModelConfig, modelSchema } from "../../../cfgs/schema/config.ts";
import { POLICY_NAMES } from "../../../cfgs/schema/policies.ts";
import { createPool } from "../../../router/pool/create_pool.ts";
import type { Lease } from "../../../router/pool/lease.ts";
import type { ManagedPool } from "../../../router/pool/pool.ts";
import type { PlacementOutcome } from "../../../router/worker/placement.ts";
import { workerHeaders, workerUrl } from "../../../router/worker/worker_access.ts";
import { fc } from "../../properties.ts";

/** Answers health checks as told, after `delayMs`; notes what was asked when, and how many at once. */
class CheckedWorkers implements Transport {
  readonly asked: { url: string; atMs: number; headers: Readonly<Record<string, string>> }[] = [];
  readonly state = new Map<string, number | "refuse" | "hang">();
  delayMs = 0;
  mostAtOnce = 0;
  #now = 0;

  constructor(readonly clock: VirtualClock) {}

  async send(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    this.asked.push({ url: request.url, atMs: this.clock.now(), headers: request.headers });
    this.#now++;
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#now);
    try {
      const state = this.state.get(new URL(request.url).host) ?? 200;
      if (state === "refuse") throw new TransportError("connect_failed", request.url);
      await this.clock.sleep(state === "hang" ? 1e9 : this.delayMs, signal);
      if (state === "hang") throw new Error("hung for ever");
      return { status: state, headers: {}, body: (async function* () {})() };
    } finally {
      this.#now--;
    }
  }

  close(): Promise<void> {
    return Promise.resolve();
  }

  timesOf(host: string): number[] {
    return this.asked.filter((one) => new URL(one.url).host === host).map((one) => one.atMs);
  }
}

function setUp(config: Record<string, unknown> = {}, workers = ["http://a", "http://b", "http://c"]) {
  const clock = new VirtualClock();
  const transport = new CheckedWorkers(clock);
  const parsed: ModelConfig = modelSchema.parse({ model: "org/m", engine: "vllm", workers, ...config });
  const pool = createPool({
    model: "m",
    config: parsed,
    clock,
    random: new Random("pool"),
    transport,
    log: logger("test"),
  });
  return { clock, transport, pool };
}

function health(pool: ManagedPool): string[] {
  return pool.workers().map((worker) => worker.health);
}

function refusal(place: () => unknown): CanopyError {
  try {
    place();
  } catch (error) {
    assert.ok(CanopyError.is(error), String(error));
    return error;
  }
  throw new Error("the pool placed the request");
}

test("requests spread over idle workers and avoid busy ones", () => {
  const { pool } = setUp();
  const first = [pool.gate.leaseNow({}), pool.gate.leaseNow({}), pool.gate.leaseNow({})];
  assert.equal(new Set(first.map((placement) => placement.workerId)).size, 3);
  first[1]!.release("ok");
  assert.equal(pool.gate.leaseNow({}).workerId, first[1]!.workerId);
});

test("equal sticky keys go to one worker, until it is drained, excluded or removed", () => {
  const { pool } = setUp();
  const place = (exclude?: string) => {
    const placement = pool.gate.leaseNow({
      stickyKey: "k",
      ...(exclude === undefined ? {} : { exclude: new Set([exclude]) }),
    });
    placement.release("ok");
    return placement.workerId;
  };
  const home = place();
  for (let i = 0; i < 10; i++) {
    pool.gate.leaseNow({});
    assert.equal(place(), home);
  }
  assert.ok(pool.setDraining(home, true));
  const second = place();
  assert.notEqual(second, home);
  assert.equal(place(), second);
  const third = place(second);
  assert.ok(third !== second && third !== home);
  assert.ok(pool.removeWorker(third));
  assert.notEqual(place(), third);
  assert.equal(pool.removeWorker(third), false);
});

test("what is placed at a worker that leaves is still opened with its headers; then they are forgotten", () => {
  const { pool } = setUp();
  const id = pool.addWorker({ url: "http://late", apiKey: "its-own" });
  const others = pool.workers().map((worker) => worker.id).filter((other) => other !== id);
  const lease = pool.gate.leaseNow({ exclude: new Set(others) });
  assert.equal(lease.workerId, id);
  const headers = { authorization: "Bearer its-own" };
  assert.deepEqual(pool.headers?.(id), headers);
  assert.ok(pool.removeWorker(id));
  assert.deepEqual(pool.headers?.(id), headers);
  lease.release("ok");
  assert.ok(pool.removeWorker(others[0]!));
  assert.deepEqual(pool.headers?.(id), {});
});

test("a full worker gets nothing; when all are full the answer is 503 with Retry-After", () => {
  const { pool } = setUp({ max_in_flight: 2 });
  const placed = Array.from({ length: 6 }, () => pool.gate.leaseNow({ stickyKey: "same" }));
  assert.deepEqual(pool.workers().map((worker) => worker.inFlight), [2, 2, 2]);
  const error = refusal(() => pool.gate.leaseNow({}));
  assert.equal(error.code, "no_worker");
  assert.equal(error.status, 503);
  assert.ok((error.retryAfterSeconds ?? 0) > 0);
  placed[3]!.release("aborted");
  assert.equal(pool.gate.leaseNow({}).workerId, placed[3]!.workerId);
});

test("a model without usable workers is refused by name", async () => {
  const empty = refusal(() => setUp({}, []).pool.gate.leaseNow({}));
  assert.equal(empty.status, 503);
  assert.match(empty.message, /model m has no usable worker: it has no workers/);
  const { pool, clock, transport } = setUp();
  for (const host of ["a", "b", "c"]) transport.state.set(host, "refuse");
  const stop = new AbortController();
  pool.start(stop.signal);
  await clock.advance(20_000);
  assert.deepEqual(health(pool), ["unhealthy", "unhealthy", "unhealthy"]);
  assert.equal(pool.ready, false);
  const error = refusal(() => pool.gate.leaseNow({}));
  assert.equal(error.code, "no_worker");
  assert.match(error.message, /model m .*3 are unhealthy/);
  stop.abort();
});

test("health: out after three bad checks in a row, asked every second meanwhile, back with the first good one", async () => {
  const { pool, clock, transport } = setUp({}, ["http://a"]);
  const stop = new AbortController();
  pool.start(stop.signal);
  await clock.advance(0);
  assert.deepEqual(health(pool), ["healthy"]);
  transport.state.set("a", 503);
  await clock.advance(10_000);
  assert.deepEqual(health(pool), ["healthy"]);
  assert.match(pool.workers()[0]!.lastError ?? "", /GET \/health was answered with status 503/);
  await clock.advance(12_000);
  assert.deepEqual(health(pool), ["unhealthy"]);
  transport.state.set("a", 200);
  await clock.advance(13_000);
  assert.deepEqual(health(pool), ["healthy"]);
  assert.deepEqual(transport.timesOf("a"), [0, 10_000, 11_000, 12_000, 13_000]);
  stop.abort();
  await clock.advance(100_000);
  assert.equal(transport.asked.length, 5);
  assert.equal(clock.pendingTimers, 0);
});

test("a check that hangs is given up after its time limit and never overlaps the next one", async () => {
  const { pool, clock, transport } = setUp({ health: { interval_ms: 100, timeout_ms: 5_000 } }, ["http://a"]);
  transport.state.set("a", "hang");
  const stop = new AbortController();
  pool.start(stop.signal);
  await clock.advance(5_050);
  assert.match(pool.workers()[0]!.lastError ?? "", /no answer within 5000 ms/);
  await clock.advance(60_000);
  assert.equal(transport.mostAtOnce, 1);
  stop.abort();
  await clock.advance();
  assert.equal(clock.pendingTimers, 0);
});

test("a check that takes a second, as SGLang's does, is a good one", async () => {
  const { pool, clock, transport } = setUp({ engine: "sglang" }, ["http://a"]);
  transport.delayMs = 1_005;
  const stop = new AbortController();
  pool.start(stop.signal);
  await clock.advance(1_004);
  assert.deepEqual(health(pool), ["unknown"]);
  assert.equal(pool.ready, true, "a worker not seen yet gets work");
  await clock.advance(1_005);
  assert.deepEqual(health(pool), ["healthy"]);
  assert.equal(transport.asked[0]!.url, "http://a/health");
  stop.abort();
});

test("a failed request has its worker checked at once, but many do not cause a storm of checks", async () => {
  const { pool, clock, transport } = setUp({ breaker: { failures: 1_000 } }, ["http://a"]);
  const stop = new AbortController();
  pool.start(stop.signal);
  await clock.advance(5_000);
  pool.gate.leaseNow({}).release("failed");
  await clock.advance(5_000);
  assert.deepEqual(transport.timesOf("a"), [0, 5_000]);
  for (let ms = 1; ms <= 1_000; ms++) {
    pool.gate.leaseNow({}).release("failed");
    await clock.advance(5_000 + ms);
  }
  assert.ok(transport.asked.length <= 12, `${transport.asked.length} checks`);
  stop.abort();
});

test("any OpenAI-compatible server is alive when it answers at all, and is asked with its key", async () => {
  const { pool, clock, transport } = setUp({ engine: "openai", api_key: "sk-1" }, [
    "http://a/v1",
    "http://b",
  ]);
  transport.state.set("a", 404).set("b", 500);
  const stop = new AbortController();
  pool.start(stop.signal);
  await clock.advance(10_000);
  assert.deepEqual(health(pool), ["healthy", "unhealthy"]);
  assert.equal(transport.asked[0]!.url, "http://a/v1/models");
  assert.equal(transport.asked[0]!.headers["authorization"], "Bearer sk-1");
  stop.abort();
});

test("an open breaker steers work elsewhere, and never takes the last worker away", async () => {
  const { pool, clock } = setUp({ breaker: { failures: 2, open_ms: 1_000 } }, ["http://a", "http://b"]);
  const ids = pool.workers().map((worker) => worker.id);
  const failOn = (id: string) => {
    const others = new Set(ids.filter((other) => other !== id));
    pool.gate.leaseNow({ exclude: others }).release("failed");
  };
  failOn(ids[0]!);
  failOn(ids[0]!);
  assert.equal(pool.workers()[0]!.breaker, "open");
  for (let i = 0; i < 5; i++) assert.equal(pool.gate.leaseNow({}).workerId, ids[1]);
  failOn(ids[1]!);
  failOn(ids[1]!);
  assert.deepEqual(pool.workers().map((worker) => worker.breaker), ["open", "open"]);
  pool.gate.leaseNow({}).release("ok");
  assert.ok(pool.workers().some((worker) => worker.breaker === "closed"));
  await clock.advance(1_000);
  assert.ok(pool.ready);
});

test("requests in flight are counted exactly under any interleaving, however often a place is given back", () => {
  const step = fc.record({
    kind: fc.constantFrom("place", "place", "release", "remove", "add", "drain"),
    which: fc.nat(50),
    outcome: fc.constantFrom<PlacementOutcome>("ok", "failed", "rejected", "aborted"),
  });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 100 }),
      fc.constantFrom(...POLICY_NAMES),
      (steps, policy) => {
        const { pool } = setUp({ policy, max_in_flight: 4, breaker: { failures: 2 } });
        const live: Lease[] = [];
        const released: Lease[] = [];
        let added = 0;
        for (const { kind, which, outcome } of steps) {
          const id = pool.workers()[which % Math.max(1, pool.workers().length)]?.id ?? "none";
          if (kind === "remove" && pool.workers().length > 1) pool.removeWorker(id);
          if (kind === "add") pool.addWorker({ url: `http://added${added++}` });
          if (kind === "drain") pool.setDraining(id, which % 2 === 0);
          if (kind === "place") {
            try {
              live.push(pool.gate.leaseNow(which % 3 === 0 ? { stickyKey: `k${which % 5}` } : {}));
            } catch (error) {
              assert.ok(CanopyError.is(error) && error.code === "no_worker");
              const free = pool.workers().filter((worker) =>
                worker.health !== "draining" && worker.inFlight < 4
              );
              assert.ok(free.every((worker) => worker.breaker !== "closed"), "refused with a free worker");
            }
          }
          if (kind === "release") {
            const [placement] = live.splice(which % Math.max(1, live.length), 1);
            placement?.release(outcome);
            if (placement !== undefined) released.push(placement);
            released[which % Math.max(1, released.length)]?.release(outcome);
          }
          for (const worker of pool.workers()) {
            const expected = live.filter((placement) => placement.workerId === worker.id).length;
            assert.equal(worker.inFlight, expected);
            assert.ok(worker.inFlight <= 4);
          }
        }
        for (const placement of live) placement.release("ok");
        assert.ok(pool.workers().every((worker) => worker.inFlight === 0));
      },
    ),
  );
});

test("a worker's own key comes before the model's, and base URLs that end in /v1 are understood", () => {
  const config = modelSchema.parse({
    model: "m",
    engine: "openai",
    workers: [{ url: "http://a", api_key: "own" }, "http://b"],
    api_key: "shared",
    headers: { "X-Team": "t" },
  });
  assert.deepEqual(workerHeaders(config, { url: "http://a", apiKey: "own" }), {
    "x-team": "t",
    authorization: "Bearer own",
  });
  assert.equal(workerHeaders(config, { url: "http://b" })["authorization"], "Bearer shared");
  assert.equal(workerUrl("http://h/v1/", "/v1/models"), "http://h/v1/models");
  assert.equal(workerUrl("http://h/v1", "/v1beta"), "http://h/v1/v1beta");
  assert.equal(workerUrl("http://h/", "/generate"), "http://h/generate");
});

test("workers of the same URL are refused, and so are pairs of an engine that has none", () => {
  const { pool } = setUp();
  assert.equal(refusal(() => pool.addWorker({ url: "http://a" })).status, 409);
  assert.equal(refusal(() => pool.addWorker({ url: "http://d", role: "decode" })).status, 400);
  const pair = { prefill: "http://p", decode: "http://d" };
  const config = modelSchema.parse({ model: "m", engine: "sglang", workers: [pair] });
  const { clock, transport } = setUp();
  const options = { model: "m", config, clock, random: new Random("r"), transport, log: logger("test") };
  const error = refusal(() => createPool(options));
  assert.equal(error.code, "unsupported_worker");
  assert.match(error.message, /the pair http:\/\/p and http:\/\/d .* engine sglang needs single servers/);
});

test("a worker whose process has ended gets nothing from that moment, and a new process starts with a clean slate", async () => {
  const { clock, transport, pool } = setUp({ breaker: { failures: 1, open_ms: 60_000 } }, [
    "http://a",
    "http://b",
  ]);
  const life = new AbortController();
  await clock.run(async () => {
    pool.start(life.signal);
    await clock.sleep(10);
    const [a] = pool.workers();
    assert.ok(a !== undefined);
    pool.gate.leaseNow({ exclude: new Set(["m.w2"]) }).release("failed");
    assert.equal(pool.workers()[0]?.breaker, "open");
    transport.state.set("a", "refuse");
    assert.ok(pool.setDown(a.id, "the engine was killed"));
    assert.deepEqual(health(pool), ["unhealthy", "healthy"]);
    assert.equal(pool.workers()[0]?.lastError, "the engine was killed");
    for (let i = 0; i < 4; i++) assert.equal(pool.gate.leaseNow({}).url, "http://b");
    await clock.sleep(30_000);
    transport.state.set("a", 200);
    const asked = transport.timesOf("a").length;
    assert.ok(pool.setDown(a.id, undefined));
    await clock.sleep(10);
    assert.deepEqual(health(pool), ["healthy", "healthy"]);
    assert.equal(transport.timesOf("a").length, asked + 1, "asked at once");
    assert.equal(pool.workers()[0]?.breaker, "closed");
    assert.equal(pool.gate.leaseNow({}).url, "http://a");
    assert.equal(pool.setDown("m.w9", undefined), false);
    life.abort();
  });
});
