import assert from "node:assert/strict";
import { test } from "node:test";
import { fc } from "../../properties.ts";
import { VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import { Random } from "../../../base/random.ts";
import { modelSchema } from "../../../cfgs/schema/config.ts";
import type { Lease } from "../../../router/pool/lease.ts";
import { createPool } from "../../../router/pool/create_pool.ts";
import type { ManagedPool } from "../../../router/pool/pool.ts";
import type { WorkerStatus } from "../../../router/pool/worker.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import type { PlacementOutcome } from "../../../router/worker/placement.ts";

const PLACES = 2;
const WINDOW = 1;
const OPEN_MS = 1_000;

interface Live {
  readonly lease: Lease;
  /** Still to be given back: of a whole server `decode` only. */
  readonly held: Set<"prefill" | "decode">;
  unread: boolean;
}

interface Waiting {
  readonly arrival: number;
  readonly exclude: ReadonlySet<string> | undefined;
  readonly gone: AbortController;
}

/** A pool with all that was asked of it, and what it should know. */
class Model {
  readonly clock = new VirtualClock();
  readonly pool: ManagedPool;
  readonly pairs: boolean;
  readonly live: Live[] = [];
  readonly waiting = new Set<Waiting>();
  /** Arrivals without exclusions, in the order in which they had places. */
  readonly served: number[] = [];
  #arrivals = 0;
  #joined = 0;

  constructor(pairs: boolean) {
    this.pairs = pairs;
    const config = modelSchema.parse({
      model: "org/m",
      engine: pairs ? "sglang-pd" : "vllm",
      workers: [],
      max_in_flight: PLACES,
      pair_window: WINDOW,
      breaker: { failures: 2, open_ms: OPEN_MS },
    });
    const transport = new MemoryTransport(() => undefined);
    const random = new Random("gate");
    this.pool = createPool({ model: "m", config, clock: this.clock, random, transport, log: logger("test") });
    for (let index = 0; index < 4; index++) this.join();
  }

  join(): void {
    const index = this.#joined++;
    const role = this.pairs ? index % 2 === 0 ? "prefill" : "decode" : undefined;
    this.pool.addWorker({ url: `http://w${index}`, role });
  }

  lease(which: number): void {
    const workers = this.pool.workers();
    const avoided = workers[which % Math.max(1, workers.length)]?.id;
    const exclude = which % 4 === 0 && avoided !== undefined ? new Set([avoided]) : undefined;
    const waiting: Waiting = { arrival: this.#arrivals++, exclude, gone: new AbortController() };
    this.waiting.add(waiting);
    const hint = {
      arrival: waiting.arrival,
      exclude,
      stickyKey: which % 3 === 0 ? `k${which % 5}` : undefined,
    };
    this.pool.gate.lease(hint, waiting.gone.signal).then((lease) => {
      assert.ok(!waiting.gone.signal.aborted, "a place for one that has gone");
      this.live.push({
        lease,
        held: new Set(lease.prefill ? ["prefill", "decode"] : ["decode"]),
        unread: true,
      });
      if (exclude === undefined) this.served.push(waiting.arrival);
    }, (error) => {
      if (!waiting.gone.signal.aborted) {
        assert.ok(CanopyError.is(error) && error.code === "no_worker", String(error));
      }
    }).finally(() => this.waiting.delete(waiting));
  }

  release(which: number, outcome: PlacementOutcome, side?: "prefill" | "decode"): void {
    const one = this.live[which % Math.max(1, this.live.length)];
    if (one === undefined) return;
    one.lease.release(outcome, side);
    const { held, lease } = one;
    if (side === undefined) held.clear();
    else if (side === "decode" || lease.prefill !== undefined) held.delete(side);
    if (!held.has(lease.prefill === undefined ? "decode" : "prefill")) one.unread = false;
    // Once more, any way: it changes nothing.
    lease.release("failed", held.size === 0 ? undefined : side);
  }

  /** What the pool counts is what there is, and nobody waits for a place that is free. */
  async check(): Promise<void> {
    await this.clock.advance(this.clock.now());
    const { gate } = this.pool;
    const at = (worker: WorkerStatus, { lease }: Live, side: "prefill" | "decode") =>
      (side === "prefill" ? lease.prefill?.workerId : lease.workerId) === worker.id;
    for (const worker of this.pool.workers()) {
      const side = worker.role ?? "decode";
      assert.equal(
        worker.inFlight,
        this.live.filter((one) => one.held.has(side) && at(worker, one, side)).length,
      );
      assert.ok(worker.inFlight <= PLACES);
      const unread = this.live.filter(({ lease, unread }) => unread && lease.home === worker.id).length;
      assert.equal(gate.reading(worker.id), unread);
    }
    assert.equal(gate.waiting, this.waiting.size);
    if (!this.#hasRoom()) return;
    const patient = [...this.waiting].filter(({ exclude }) => exclude === undefined);
    assert.deepEqual(patient.map(({ arrival }) => arrival), [], "they wait although there is room");
  }

  /** True when workers that are in service and have not failed lately have a place. */
  #hasRoom(): boolean {
    const free = this.pool.workers().filter(({ health, breaker, inFlight }) =>
      health === "unknown" && breaker === "closed" && inFlight < PLACES
    );
    if (!this.pairs) return free.length > 0;
    const handOffs = (prefill: WorkerStatus, decode: WorkerStatus) =>
      this.live.filter(({ lease, held }) =>
        held.has("prefill") && lease.prefill?.workerId === prefill.id && lease.workerId === decode.id
      ).length;
    const decodes = free.filter(({ role }) => role === "decode");
    return free.some((prefill) =>
      prefill.role === "prefill" && decodes.some((decode) => handOffs(prefill, decode) < WINDOW)
    );
  }

  /** Everything well again, and given back: all are served. */
  async end(): Promise<void> {
    this.join();
    this.join();
    for (const { id } of this.pool.workers()) {
      this.pool.setDraining(id, false);
      this.pool.setDown(id, undefined);
    }
    await this.clock.advance(this.clock.now() + OPEN_MS);
    for (let round = 0; this.live.length > 0; round++) {
      assert.ok(round < 1_000);
      for (const { lease } of this.live.splice(0)) lease.release("ok");
      await this.clock.advance(this.clock.now());
    }
    assert.equal(this.waiting.size, 0, "forgotten");
    await this.check();
    assert.equal(this.clock.pendingTimers, 0);
    assert.deepEqual(this.served, this.served.toSorted((a, b) => a - b), "in the order of their arrival");
  }
}

const step = fc.record({
  kind: fc.constantFrom(
    ...["lease", "lease", "lease", "release", "release", "half", "abort", "read"] as const,
    ...["add", "remove", "drain", "down", "time"] as const,
  ),
  which: fc.nat(50),
  outcome: fc.constantFrom<PlacementOutcome>("ok", "ok", "failed", "rejected", "aborted"),
});

for (const pairs of [false, true]) {
  test(`every lease is given back once and nobody waits in vain, whatever happens: ${pairs ? "pairs" : "workers"}`, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 80 }), async (steps) => {
        const model = new Model(pairs);
        const { pool, clock } = model;
        for (const { kind, which, outcome } of steps) {
          const id = pool.workers()[which % Math.max(1, pool.workers().length)]?.id ?? "none";
          if (kind === "lease") model.lease(which);
          if (kind === "release") model.release(which, outcome);
          if (kind === "half") model.release(which, outcome, which % 2 === 0 ? "prefill" : "decode");
          if (kind === "abort") [...model.waiting][which % Math.max(1, model.waiting.size)]?.gone.abort();
          if (kind === "add") model.join();
          if (kind === "remove") pool.removeWorker(id);
          if (kind === "drain") pool.setDraining(id, which % 2 === 0);
          if (kind === "down") pool.setDown(id, which % 2 === 0 ? "it was killed" : undefined);
          if (kind === "time") await clock.advance(clock.now() + 20 * which);
          if (kind === "read") {
            const one = model.live[which % Math.max(1, model.live.length)];
            one?.lease.promptRead();
            if (one !== undefined) one.unread = false;
          }
          await model.check();
        }
        await model.end();
      }),
      { numRuns: 300 },
    );
  });
}
