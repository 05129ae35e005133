import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import { modelSchema } from "../../../cfgs/schema/config.ts";
import type { Lease, PlaceHint } from "../../../router/pool/lease.ts";
import { createPool } from "../../../router/pool/create_pool.ts";
import type { ManagedPool } from "../../../router/pool/pool.ts";
import type { PoolShare } from "../../../router/pool/pool_share.ts";
import type { Tally } from "../../../router/shared/tally.ts";
import { ThreadCells } from "../../../router/threads/thread_cells.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import type { PlacementOutcome } from "../../../router/worker/placement.ts";

/** Pairs `p1 d1`, `p2 d2`, …: any prefill server with any decode server. */
function setUp(
  config: Record<string, unknown> = {},
  pairs: readonly (readonly [string, string])[] = [["p1", "d1"], ["p2", "d2"]],
  share?: PoolShare,
) {
  const clock = new VirtualClock();
  const down = new Set<string>();
  const transport = new MemoryTransport(({ url }) =>
    down.has(new URL(url).host)
      ? undefined
      : () => Promise.resolve({ status: 200, headers: {}, body: (async function* () {})() })
  );
  const parsed = modelSchema.parse({
    model: "org/m",
    engine: "sglang-pd",
    workers: pairs.map(([prefill, decode]) => ({
      prefill: `http://${prefill}`,
      decode: `http://${decode}`,
      bootstrap_port: 8998,
    })),
    ...config,
  });
  const random = new Random("pairs");
  const log = logger("test");
  const pool = createPool({ model: "m", config: parsed, clock, random, transport, log, share });
  return { clock, down, pool };
}

function hosts(placement: Lease): string {
  assert.ok(placement.prefill !== undefined);
  return `${new URL(placement.prefill.url).host} ${new URL(placement.url).host}`;
}

function inFlight(pool: ManagedPool): Record<string, number> {
  return Object.fromEntries(pool.workers().map((worker) => [new URL(worker.url).host, worker.inFlight]));
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

test("servers that stand in several pairs are one server each, and every prefill meets every decode", () => {
  const { pool } = setUp({}, [["p1", "d1"], ["p1", "d2"], ["p1", "d3"], ["p2", "d3"]]);
  assert.deepEqual(pool.workers().map(({ id, role }) => `${id} ${role}`), [
    "m.p1 prefill",
    "m.d2 decode",
    "m.d3 decode",
    "m.d4 decode",
    "m.p5 prefill",
  ]);
  const met = new Set(Array.from({ length: 24 }, () => hosts(pool.gate.leaseNow({}))));
  assert.equal(met.size, 6, [...met].join(", "));
  assert.deepEqual(inFlight(pool), { p1: 12, p2: 12, d1: 8, d2: 8, d3: 8 });
});

test("a placement names the bootstrap registry as decode servers reach it", () => {
  const { pool } = setUp({}, [["p1:30000", "d1"]]);
  const { prefill } = pool.gate.leaseNow({});
  assert.deepEqual(prefill, {
    workerId: "m.p1",
    url: "http://p1:30000",
    bootstrapHost: "p1",
    bootstrapPort: 8998,
    rank: undefined,
  });
  const workers = [{ prefill: "http://[::1]:1", decode: "http://d" }];
  assert.deepEqual(setUp({ workers }).pool.gate.leaseNow({}).prefill, {
    workerId: "m.p1",
    url: "http://[::1]:1",
    bootstrapHost: "[::1]",
    bootstrapPort: undefined,
    rank: undefined,
  });
  const named = [{ prefill: "http://p:1", decode: "http://d", bootstrap_host: "10.0.0.7" }];
  assert.equal(setUp({ workers: named }).pool.gate.leaseNow({}).prefill?.bootstrapHost, "10.0.0.7");
});

test("a pair that another thread fills while this one chooses is full, for this request too", () => {
  const memory = ThreadCells.allocate(2);
  const [here, there] = [0, 1].map((thread) =>
    new ThreadCells(memory, { thread, threads: 2, onPass: () => {} })
  );
  const handOffs = (prefill: number, decode: number): Tally => {
    const own = here!.handOffs(prefill, decode);
    return {
      get value() {
        const seen = own.value;
        there!.handOffs(prefill, decode).tryAdd(1);
        return seen;
      },
      tryAdd: (limit) => own.tryAdd(limit),
      add: (amount) => own.add(amount),
    };
  };
  let slot = 0;
  const { pool } = setUp({ pair_window: 1 }, [["p1", "d1"]], {
    leads: true,
    thread: 0,
    queue: here!.queue(0),
    takeSlot: () => slot++,
    leaveSlot: () => {},
    worker: (at) => here!.worker(at),
    handOffs,
    changed: () => {},
    poke: () => {},
  });
  assert.match(
    refusal(() => pool.gate.leaseNow({})).message,
    /every usable pair has 1 requests before their first token/,
  );
  assert.deepEqual(inFlight(pool), { p1: 0, d1: 0 });
});

test("equal sticky keys keep both halves, and lose only the half that goes out of service", () => {
  const { pool } = setUp();
  const place = (hint: PlaceHint = {}) => {
    const placement = pool.gate.leaseNow({ stickyKey: "k", ...hint });
    placement.release("ok");
    return placement;
  };
  const home = place();
  for (let i = 0; i < 8; i++) {
    pool.gate.leaseNow({});
    assert.equal(hosts(place()), hosts(home));
  }
  assert.ok(pool.setDraining(home.workerId, true));
  const moved = place();
  assert.equal(moved.prefill?.workerId, home.prefill?.workerId);
  assert.notEqual(moved.workerId, home.workerId);
});

test("the window counts hand-offs of one pair: it opens again when the prefill half is given back", () => {
  const { pool } = setUp({ pair_window: 2 }, [["p1", "d1"]]);
  const first = pool.gate.leaseNow({});
  pool.gate.leaseNow({});
  const full = refusal(() => pool.gate.leaseNow({}));
  assert.equal(full.code, "no_worker");
  assert.ok((full.retryAfterSeconds ?? 0) > 0);
  first.release("ok", "prefill");
  assert.deepEqual(inFlight(pool), { p1: 1, d1: 2 });
  pool.gate.leaseNow({});
  assert.deepEqual(inFlight(pool), { p1: 2, d1: 3 });
  first.release("ok");
  first.release("ok");
  assert.deepEqual(inFlight(pool), { p1: 2, d1: 2 });
});

test("a prefill server whose windows are all shut is passed over", () => {
  const { pool } = setUp({ pair_window: 1, policy: "round_robin" }, [["p1", "d1"], ["p2", "d1"]]);
  const met = [hosts(pool.gate.leaseNow({})), hosts(pool.gate.leaseNow({}))].sort();
  assert.deepEqual(met, ["p1 d1", "p2 d1"]);
  assert.equal(refusal(() => pool.gate.leaseNow({})).status, 503);
});

test("one failure counts once: against the half that was named, else against decode", () => {
  const { pool } = setUp({}, [["p1", "d1"]]);
  const failures = () => pool.workers().map((worker) => worker.failures);
  pool.gate.leaseNow({}).release("failed");
  assert.deepEqual(failures(), [0, 1]);
  const named = pool.gate.leaseNow({});
  named.release("failed", "prefill");
  named.release("failed");
  assert.deepEqual(failures(), [1, 1]);
  const both = pool.gate.leaseNow({});
  both.release("failed", "prefill");
  both.release("failed", "decode");
  both.release("failed");
  assert.deepEqual(failures(), [2, 2]);
  assert.deepEqual(inFlight(pool), { p1: 0, d1: 0 });
});

test("halves that failed before are avoided while there are others, and tried again when there are none", () => {
  const { pool } = setUp();
  const first = pool.gate.leaseNow({});
  const exclude = new Set([first.workerId, first.prefill!.workerId]);
  const second = pool.gate.leaseNow({ exclude });
  assert.notEqual(second.workerId, first.workerId);
  assert.notEqual(second.prefill?.workerId, first.prefill?.workerId);
  const all = new Set(pool.workers().map((worker) => worker.id));
  pool.gate.leaseNow({ exclude: all });
});

test("a half without a server in service is named, whatever the other half is", async () => {
  const { pool, clock, down } = setUp();
  down.add("d1").add("d2");
  const stop = new AbortController();
  pool.start(stop.signal);
  await clock.advance(20_000);
  assert.equal(pool.ready, false);
  const error = refusal(() => pool.gate.leaseNow({}));
  assert.match(error.message, /model m has no usable decode server: of its 2 decode servers 2 are unhealthy/);
  down.delete("d2");
  await clock.advance(40_000);
  assert.equal(pool.ready, true);
  assert.match(hosts(pool.gate.leaseNow({})), / d2$/);
  stop.abort();
  await clock.advance();
  assert.equal(clock.pendingTimers, 0);
});

test("vLLM's decode servers work alone while no prefill server is in service", async () => {
  const { clock, down, pool } = setUp({ engine: "vllm-pd", max_in_flight: 2, health: { failures: 1 } });
  const life = new AbortController();
  pool.start(life.signal);
  down.add("p1").add("p2");
  await clock.advance(20_000);
  assert.equal(pool.ready, true);
  const places = Array.from({ length: 4 }, () => pool.gate.leaseNow({}));
  assert.ok(places.every((place) => place.prefill === undefined));
  assert.deepEqual(inFlight(pool), { p1: 0, d1: 2, p2: 0, d2: 2 });
  assert.match(refusal(() => pool.gate.leaseNow({})).message, /every usable decode server has 2 requests/);
  places[0]?.release("ok", "prefill");
  assert.deepEqual(inFlight(pool), { p1: 0, d1: 2, p2: 0, d2: 2 });
  for (const place of places) place.release("ok");
  down.delete("p1");
  await clock.advance(40_000);
  const place = pool.gate.leaseNow({});
  assert.match(hosts(place), /^p1 /);
  place.release("ok");
  assert.deepEqual(inFlight(pool), { p1: 0, d1: 0, p2: 0, d2: 0 });
  life.abort();
  await clock.advance();
  assert.equal(clock.pendingTimers, 0);
});

test("single servers and contradictory pairs are refused by their URL", () => {
  assert.match(
    refusal(() => setUp({ workers: ["http://a"] })).message,
    /single server http:\/\/a .* engine sglang-pd needs pairs/,
  );
  const twoPorts = [
    { prefill: "http://p", bootstrap_port: 1, decode: "http://d" },
    { prefill: "http://p", bootstrap_port: 2, decode: "http://e" },
  ];
  assert.match(refusal(() => setUp({ workers: twoPorts })).message, /http:\/\/p .* differently/);
  const bothRoles = [{ prefill: "http://p", decode: "http://p" }];
  assert.equal(refusal(() => setUp({ workers: bothRoles })).code, "unsupported_worker");
  const { pool } = setUp();
  assert.equal(refusal(() => pool.addWorker({ url: "http://x" })).code, "unsupported_worker");
  assert.equal(pool.addWorker({ url: "http://x", role: "decode" }), "m.d5");
});

test("both halves' requests and all windows are counted exactly under any interleaving", () => {
  const step = fc.record({
    kind: fc.constantFrom("place", "place", "half", "release", "remove", "add", "drain"),
    which: fc.nat(50),
    outcome: fc.constantFrom<PlacementOutcome>("ok", "failed", "rejected", "aborted"),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
      const { pool } = setUp({ pair_window: 2, max_in_flight: 5, breaker: { failures: 2 } });
      const live: { placement: Lease; prefill: boolean }[] = [];
      let added = 0;
      for (const { kind, which, outcome } of steps) {
        const id = pool.workers()[which % Math.max(1, pool.workers().length)]?.id ?? "none";
        if (kind === "remove") pool.removeWorker(id);
        if (kind === "add") {
          pool.addWorker({ url: `http://a${added++}`, role: which % 2 === 0 ? "prefill" : "decode" });
        }
        if (kind === "drain") pool.setDraining(id, which % 2 === 0);
        if (kind === "place") {
          try {
            const placement = pool.gate.leaseNow(which % 3 === 0 ? { stickyKey: `k${which % 5}` } : {});
            live.push({ placement, prefill: true });
          } catch (error) {
            assert.ok(CanopyError.is(error) && error.code === "no_worker");
          }
        }
        const at = which % Math.max(1, live.length);
        const one = live[at];
        if (kind === "half" && one !== undefined) {
          one.placement.release(outcome, "prefill");
          one.prefill = false;
        }
        if (kind === "release" && one !== undefined) {
          one.placement.release(outcome);
          one.placement.release(outcome, "prefill");
          live.splice(at, 1);
        }
        const handOffs = new Map<string, number>();
        for (const { placement, prefill } of live) {
          if (!prefill) continue;
          const pair = `${placement.prefill?.workerId} ${placement.workerId}`;
          handOffs.set(pair, (handOffs.get(pair) ?? 0) + 1);
        }
        assert.ok([...handOffs.values()].every((count) => count <= 2), "a window is overrun");
        for (const worker of pool.workers()) {
          const expected = live.filter(({ placement, prefill }) =>
            worker.role === "prefill"
              ? prefill && placement.prefill?.workerId === worker.id
              : placement.workerId === worker.id
          ).length;
          assert.equal(worker.inFlight, expected);
          assert.ok(worker.inFlight <= 5);
        }
      }
      for (const { placement } of live) placement.release("ok");
      assert.ok(pool.workers().every((worker) => worker.inFlight === 0));
    }),
  );
});
