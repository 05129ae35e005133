import type { StopSignal } from "./stop_signal.ts";

/** The one source of waits and time stamps in the program, so that simulations own time. */
export interface Clock {
  /** Monotonic time in ms; 0 is an arbitrary start. */
  now(): number;
  /** Unix time in ms at `now() === 0`: `unixEpochMs + now()` is wall-clock time. */
  readonly unixEpochMs: number;
  /**
   * Resolves after `ms` (at least one turn later, also for 0; never, for Infinity).
   * Rejects with the signal's reason, at once, when the signal aborts; throws a `RangeError` for NaN.
   */
  sleep(ms: number, signal?: StopSignal): Promise<void>;
  /** Calls `fire` once after `ms`, as `sleep` counts them; the returned function cancels that, at any time. */
  timer(ms: number, fire: () => void): () => void;
}

/** Unix time in whole seconds, as OpenAI's `created` fields want it. */
export function unixSeconds(clock: Clock): number {
  return Math.floor((clock.unixEpochMs + clock.now()) / 1000);
}

/** A longer delay makes `setTimeout` fire at once. */
const MAX_TIMEOUT_MS = 2 ** 31 - 1;

/** The clock of the machine. */
export class SystemClock implements Clock {
  readonly unixEpochMs: number = performance.timeOrigin;

  now(): number {
    return performance.now();
  }

  sleep(ms: number, signal?: StopSignal): Promise<void> {
    return sleepBy(this, ms, signal);
  }

  timer(ms: number, fire: () => void): () => void {
    checkDuration(ms);
    if (ms <= 0) {
      // A time-out of 0 takes 1 to 2 ms: too long for callers that run behind their schedule.
      const immediate = setImmediate(fire);
      return () => clearImmediate(immediate);
    }
    let leftMs = ms;
    let cancel: () => void;
    const wait = () => {
      const stepMs = Math.min(leftMs, MAX_TIMEOUT_MS);
      leftMs -= stepMs;
      const timer = setTimeout(leftMs > 0 ? wait : fire, stepMs);
      cancel = () => clearTimeout(timer);
    };
    wait();
    return () => cancel();
  }
}

interface Timer {
  readonly dueMs: number;
  readonly order: number;
  readonly fire: () => void;
  cancelled: boolean;
}

/** Cancelled timers that may stay in the heap whatever its size. */
const MIN_CANCELLED = 64;

/**
 * A clock whose time moves only when nothing else can: `run` lets every promise and stream settle, then
 * fires exactly one timer (the earliest; among equals the one set first), and so on. Between two timers the
 * program is thus quiescent, which makes the order of events the same on every JavaScript runtime.
 *
 * Two things stay outside its reach. What finishes on another thread (sockets, files, `crypto.subtle`) needs real
 * time, so the clock takes a wait for it for a deadlock, unless it is told by `outside`. And inside one turn the runtimes disagree in two places:
 * which branch of a `tee` gets a chunk first, and whether `for await` over a `ReadableStream` pulls the next chunk
 * before or after it hands out this one. The two sides of each should not draw from one `Random`.
 */
export class VirtualClock implements Clock {
  readonly unixEpochMs: number;
  #nowMs = 0;
  #order = 0;
  #heap: Timer[] = [];
  #cancelled = 0;
  readonly #outside = new Set<Promise<unknown>>();

  constructor(options: { unixEpochMs?: number } = {}) {
    this.unixEpochMs = options.unixEpochMs ?? 1_700_000_000_000;
  }

  now(): number {
    return this.#nowMs;
  }

  /** Timers that are set and not cancelled. */
  get pendingTimers(): number {
    return this.#heap.length - this.#cancelled;
  }

  sleep(ms: number, signal?: StopSignal): Promise<void> {
    return sleepBy(this, ms, signal);
  }

  timer(ms: number, fire: () => void): () => void {
    checkDuration(ms);
    if (!Number.isFinite(ms)) return () => {};
    let over = false;
    const timer = {
      dueMs: this.#nowMs + Math.max(0, ms),
      order: this.#order++,
      cancelled: false,
      fire: () => {
        over = true;
        fire();
      },
    };
    this.#push(timer);
    return () => {
      if (!over) this.#cancel(timer);
      over = true;
    };
  }

  /**
   * Runs `main` to its end in virtual time and returns its value.
   * Rejects when nothing is left that could wake it (a deadlock), or when `limitMs` of virtual time have passed.
   */
  async run<T>(main: () => Promise<T>, options: { limitMs?: number } = {}): Promise<T> {
    const limitMs = options.limitMs ?? Infinity;
    let settled = false;
    const result = main().finally(() => settled = true);
    result.catch(() => {});
    while (true) {
      await settle();
      if (settled) return result;
      if (this.#outside.size > 0) {
        await Promise.race(this.#outside);
        continue;
      }
      const timer = this.#pop();
      if (timer === undefined) {
        throw new Error(`Virtual clock stopped at ${this.#nowMs} ms: the program waits and no timer is set`);
      }
      if (timer.dueMs > limitMs) {
        throw new Error(`Virtual clock passed its limit of ${limitMs} ms: the program still waits`);
      }
      this.#nowMs = timer.dueMs;
      timer.fire();
    }
  }

  /** Settles as `work`, which needs real time; until then the time of `run` stands still. */
  async outside<T>(work: Promise<T>): Promise<T> {
    const over = work.then(() => {}, () => {});
    this.#outside.add(over);
    try {
      return await work;
    } finally {
      this.#outside.delete(over);
    }
  }

  /** Runs timers until none is left or the next one is due after `untilMs`; sets the time to `untilMs` if finite. */
  async advance(untilMs: number = Infinity): Promise<void> {
    while (true) {
      await settle();
      const next = this.#pop();
      if (next === undefined || next.dueMs > untilMs) {
        if (next !== undefined) this.#push(next);
        break;
      }
      this.#nowMs = next.dueMs;
      next.fire();
    }
    if (Number.isFinite(untilMs)) this.#nowMs = Math.max(this.#nowMs, untilMs);
  }

  /** Most timers are deadlines that never come: their heap entries must not outlive them by hours. */
  #cancel(timer: Timer): void {
    timer.cancelled = true;
    this.#cancelled++;
    if (this.#cancelled <= MIN_CANCELLED || this.#cancelled * 2 <= this.#heap.length) return;
    // A sorted list is a heap.
    this.#heap = this.#heap.filter((other) => !other.cancelled).sort((a, b) => before(a, b) ? -1 : 1);
    this.#cancelled = 0;
  }

  #push(timer: Timer): void {
    const heap = this.#heap;
    let at = heap.push(timer) - 1;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (before(heap[parent]!, timer)) break;
      heap[at] = heap[parent]!;
      at = parent;
    }
    heap[at] = timer;
  }

  #pop(): Timer | undefined {
    while (this.#heap.length > 0) {
      const top = this.#heap[0]!;
      const last = this.#heap.pop()!;
      if (this.#heap.length > 0) this.#sink(last);
      if (!top.cancelled) return top;
      this.#cancelled--;
    }
    return undefined;
  }

  #sink(timer: Timer): void {
    const heap = this.#heap;
    let at = 0;
    while (true) {
      let child = 2 * at + 1;
      if (child >= heap.length) break;
      if (child + 1 < heap.length && before(heap[child + 1]!, heap[child]!)) child++;
      if (before(timer, heap[child]!)) break;
      heap[at] = heap[child]!;
      at = child;
    }
    heap[at] = timer;
  }
}

function sleepBy(clock: Clock, ms: number, signal: StopSignal | undefined): Promise<void> {
  checkDuration(ms);
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const onAbort = () => {
      cancel();
      reject(signal?.reason);
    };
    const cancel = clock.timer(ms, () => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    });
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

function checkDuration(ms: number): void {
  if (Number.isNaN(ms)) throw new RangeError("Cannot sleep: ms must be a number: current value is NaN");
}

function before(a: Timer, b: Timer): boolean {
  return a.dueMs < b.dueMs || (a.dueMs === b.dueMs && a.order < b.order);
}

/**
 * One turn of the event loop, about 1 µs. All microtasks have run afterwards: web streams (tee, pipes, `Response`
 * and `Blob` bodies), `process.nextTick` and message ports are at rest after one turn on Deno and Bun.
 */
function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/**
 * A signal that aborts with `reason` after `ms`, together with its release.
 * Call `release` as soon as the work is over: the timer is then gone.
 */
export function deadlineSignal(
  clock: Clock,
  ms: number,
  reason: unknown,
  parent?: StopSignal,
): { signal: AbortSignal; release: () => void } {
  if (ms === Infinity && parent instanceof AbortSignal) return { signal: parent, release: () => {} };
  const controller = new AbortController();
  const onParent = () => controller.abort(parent?.reason);
  if (parent?.aborted) onParent();
  else parent?.addEventListener("abort", onParent, { once: true });
  const cancel = ms === Infinity ? () => {} : clock.timer(ms, () => controller.abort(reason));
  const release = () => {
    parent?.removeEventListener("abort", onParent);
    cancel();
  };
  return { signal: controller.signal, release };
}
