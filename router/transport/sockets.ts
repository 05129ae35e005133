import type { StopSignal } from "../../base/stop_signal.ts";
import { type Clock, SystemClock } from "../../base/clock.ts";
import {
  type IncomingResponse,
  type Lane,
  type OutgoingRequest,
  type Transport,
  TransportError,
} from "../../base/transport.ts";
import { Connection } from "./connection.ts";
import { Exchange, type ExchangePlace } from "./exchange.ts";
import { type Target, targetOf } from "./target.ts";
import { SOCKET_TURN } from "./turn.ts";
import type { TlsClientOptions } from "./worker_socket.ts";

/** Idle sockets are closed after this long: uvicorn closes its side after 5 s, and both must not cross. */
const IDLE_MS = 3_000;
/** Idle sockets kept for one worker; more are closed at once. */
const MAX_IDLE = 512;
const DEFAULT_CONNECT_TIMEOUT_MS = 10_000;
/** Requests that wait for a socket of their lane; more are refused. */
const MAX_WAITING = 16_384;
/** URLs that need not be read again. */
const MAX_TARGETS = 1_024;

/** What `SocketTransport` can be given. */
export interface SocketTransportOptions extends TlsClientOptions {
  readonly clock?: Clock | undefined;
  /** Most requests in flight to one worker, of each lane; 4,096 and 256 by default. */
  readonly atOnce?: Readonly<Record<Lane, number>> | undefined;
}

/**
 * HTTP/1.1 over pooled sockets, the same under Deno and Bun, whose own clients re-send requests (Deno) or run 256 at
 * a time (Bun). Each worker has two lanes, so that its health is asked and its aborts are sent however many
 * generations run. Nothing is ever sent twice, and the one time limit is that of connecting.
 */
export class SocketTransport implements Transport {
  readonly #clock: Clock;
  readonly #tls: TlsClientOptions;
  readonly #atOnce: Readonly<Record<Lane, number>>;
  readonly #targets = new Map<string, Target>();
  readonly #workers = new Map<string, WorkerSockets>();
  readonly #life = new AbortController();
  #sweeping = false;
  #inFlight = 0;
  #closed: { resolve: () => void; promise: Promise<void> } | undefined;

  constructor(options: SocketTransportOptions = {}) {
    this.#clock = options.clock ?? new SystemClock();
    const { ca, moreCa, cert, key, anyCertificate } = options;
    this.#tls = { ca, moreCa, cert, key, anyCertificate };
    this.#atOnce = options.atOnce ?? { generation: 4_096, control: 256 };
  }

  send(request: OutgoingRequest, signal: StopSignal): Promise<IncomingResponse> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#closed !== undefined) return refused(request, new Error("The transport is closed"));
    let target: Target;
    try {
      target = this.#targetOf(request.url);
    } catch (cause) {
      return refused(request, cause);
    }
    const worker = this.#workerOf(target);
    const lane = worker.lanes[request.lane ?? "generation"];
    const atOnce = this.#atOnce[request.lane ?? "generation"];
    if (lane.inFlight >= atOnce && lane.waiting.size >= MAX_WAITING) {
      return refused(request, new Error(`${MAX_WAITING} requests wait for a socket to ${target.origin}`));
    }
    this.#inFlight++;
    const exchange = new Exchange(request, target, signal, worker);
    const answered = exchange.answered();
    if (lane.inFlight < atOnce) this.#start(worker, lane, exchange);
    else lane.waiting.add(exchange);
    return answered;
  }

  async close(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = Promise.withResolvers<void>();
      this.#life.abort(new Error("The transport is closed"));
      for (const worker of this.#workers.values()) worker.closeIdle(Infinity);
      if (this.#inFlight === 0) this.#closed.resolve();
    }
    await this.#closed.promise;
  }

  #targetOf(url: string): Target {
    let target = this.#targets.get(url);
    if (target === undefined) {
      target = targetOf(url);
      if (this.#targets.size >= MAX_TARGETS) this.#targets.clear();
      this.#targets.set(url, target);
    }
    return target;
  }

  #workerOf({ origin }: Target): WorkerSockets {
    let worker = this.#workers.get(origin);
    if (worker === undefined) this.#workers.set(origin, worker = new WorkerSockets(origin, this.#done));
    return worker;
  }

  #start(worker: WorkerSockets, lane: LaneState, exchange: Exchange): void {
    lane.inFlight++;
    const idle = worker.take(this.#clock.now());
    if (idle !== undefined) return exchange.start(idle);
    const connection = new Connection(exchange.target, {
      tls: this.#tls,
      onIdleClose: (connection) => worker.forget(connection),
      connectTimeoutMs: exchange.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS,
      clock: this.#clock,
      turn: SOCKET_TURN,
    });
    exchange.start(connection);
  }

  /** An exchange is over: its socket goes to the next one, and its place to one that waits. */
  readonly #done: ExchangeDone = (worker, exchange, reusable) => {
    this.#inFlight--;
    const lane = worker.lanes[exchange.lane];
    const { connection } = exchange;
    if (connection === undefined) lane.waiting.delete(exchange);
    else {
      lane.inFlight--;
      if (reusable) this.#keep(worker, connection);
      // Hardly ever does one.
      const next: Exchange | undefined = lane.waiting.size === 0
        ? undefined
        : lane.waiting.values().next().value;
      if (next !== undefined) {
        lane.waiting.delete(next);
        this.#start(worker, lane, next);
      }
    }
    if (worker.unused) this.#workers.delete(worker.origin);
    if (this.#inFlight === 0) this.#closed?.resolve();
  };

  #keep(worker: WorkerSockets, connection: Connection): void {
    if (this.#closed !== undefined || worker.idle.length >= MAX_IDLE) return connection.destroy();
    connection.staleAtMs = this.#clock.now() + IDLE_MS;
    worker.idle.push(connection);
    if (!this.#sweeping) void this.#sweep();
  }

  /** Closes sockets that have been idle too long, until none is idle. */
  async #sweep(): Promise<void> {
    this.#sweeping = true;
    let dueMs = this.#clock.now() + IDLE_MS;
    while (dueMs < Infinity && !this.#life.signal.aborted) {
      await this.#clock.sleep(Math.max(0, dueMs - this.#clock.now()), this.#life.signal).catch(() => {});
      dueMs = Infinity;
      for (const worker of this.#workers.values()) {
        dueMs = Math.min(dueMs, worker.closeIdle(this.#clock.now()));
        if (worker.unused) this.#workers.delete(worker.origin);
      }
    }
    this.#sweeping = false;
  }
}

interface LaneState {
  inFlight: number;
  /** In the order of their coming. */
  readonly waiting: Set<Exchange>;
}

type ExchangeDone = (worker: WorkerSockets, exchange: Exchange, reusable: boolean) => void;

/** The sockets of one origin: the lanes count apart and share what is idle. */
class WorkerSockets implements ExchangePlace {
  readonly origin: string;
  readonly lanes: Readonly<Record<Lane, LaneState>> = {
    generation: { inFlight: 0, waiting: new Set() },
    control: { inFlight: 0, waiting: new Set() },
  };
  /** The one that became idle last is at the end. */
  readonly idle: Connection[] = [];
  readonly #done: ExchangeDone;

  constructor(origin: string, done: ExchangeDone) {
    this.origin = origin;
    this.#done = done;
  }

  done(exchange: Exchange, reusable: boolean): void {
    this.#done(this, exchange, reusable);
  }

  get unused(): boolean {
    const { generation, control } = this.lanes;
    return generation.inFlight + control.inFlight + this.idle.length === 0;
  }

  /** The idle socket that was used last; undefined when there is none. */
  take(nowMs: number): Connection | undefined {
    const connection = this.idle.pop();
    if (connection === undefined || connection.staleAtMs > nowMs) return connection;
    // The others have been idle even longer.
    connection.destroy();
    this.closeIdle(nowMs);
    return undefined;
  }

  forget(connection: Connection): void {
    const at = this.idle.indexOf(connection);
    if (at >= 0) this.idle.splice(at, 1);
  }

  /** Closes what is stale at `nowMs`; gives the time at which the next one will be, Infinity when none is left. */
  closeIdle(nowMs: number): number {
    let stale = 0;
    while (stale < this.idle.length && this.idle[stale]!.staleAtMs <= nowMs) stale++;
    for (const connection of this.idle.splice(0, stale)) connection.destroy();
    return this.idle[0]?.staleAtMs ?? Infinity;
  }
}

function refused(request: OutgoingRequest, cause: unknown): Promise<never> {
  return Promise.reject(new TransportError("connect_failed", request.url, { cause }));
}
