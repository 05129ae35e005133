import type { Config } from "../../cfgs/schema/config.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { logger } from "../../base/log.ts";
import type { Thread } from "../../ml/onnx/thread.ts";
import { Metrics, type ThreadCounts } from "../http/metrics/metrics.ts";
import type { PoolShare, WorkerReport } from "../pool/pool_share.ts";
import { createRouter, type Router, type RouterOptions } from "../router.ts";
import { LeadingFront } from "./leading_front.ts";
import type { FromServingThread, SharedModel, ToServingThread } from "./messages.ts";
import { PortHttp } from "./port_http.ts";
import type { ServingOptions } from "./serving_router.ts";
import { MAX_MODELS, ThreadCells } from "./thread_cells.ts";

/** Events of a thread, as they are told to whoever started it. */
export interface ServingEvents {
  message(message: FromServingThread): void;
  crash(reason: string): void;
}

/** Options of `LeadingRouter`. */
export interface LeadingRouterOptions extends Omit<RouterOptions, "part"> {
  /** Threads that serve. */
  readonly threads: number;
  readonly address: { readonly host: string; readonly port: number };
  readonly start: (
    options: ServingOptions & { readonly config: Config },
    address: { readonly host: string; readonly port: number },
    events: ServingEvents,
  ) => Thread<ToServingThread>;
  /** Takes what the threads say to the scorer. */
  readonly scorer: (thread: number, message: ScorerMessage, post: PostToThread) => void;
  /** The thread that used the scorer has ended. */
  readonly scorerLeft: (thread: number) => void;
}

/** What a thread says to the scorer that all share. */
export type ScorerMessage = Extract<FromServingThread, { kind: "open_scorer" | "scorer" }>;
export type PostToThread = (message: ToServingThread) => void;

/** One thread that serves. */
interface Serving {
  readonly index: number;
  readonly thread: Thread<ToServingThread>;
  readonly http: PortHttp;
  readonly startedMs: number;
  readonly listening: PromiseWithResolvers<string>;
  /** Resolves when it has drained, or is no more. */
  readonly ended: PromiseWithResolvers<void>;
  readonly counting: Map<number, (counts: ThreadCounts | undefined) => void>;
  counts: ThreadCounts | undefined;
}

/** Time that a thread has for its numbers, and for its end. */
const COUNT_MS = 1_000;
const END_MS = 5_000;
/** A thread that lived for less than this is replaced only after as long. */
const YOUNG_MS = 1_000;

/**
 * The router of the thread that watches over those that serve: it checks workers, finds them, changes them, keeps the
 * records of runs and adds up the numbers. A thread that dies is replaced, and only what it served is lost.
 */
export class LeadingRouter {
  readonly router: Router;
  readonly #options: LeadingRouterOptions;
  readonly #memory: SharedArrayBuffer;
  readonly #cells: ThreadCells;
  readonly #serving = new Map<number, Serving>();
  #models = new Map<string, { readonly number: number; members: readonly WorkerReport[] }>();
  #slots = new Set<number>();
  #nextNumber = 0;
  /** The threads hear of all changes together. */
  #changing = false;
  readonly #front: LeadingFront;
  readonly #life = new AbortController();
  #config: Config;
  readonly #log = logger("threads");
  /** Numbers of all threads that have died, as they were last asked for. */
  #dead: ThreadCounts | undefined;
  #requests = 0;
  #ending = false;
  #port = 0;

  constructor(options: LeadingRouterOptions) {
    const { threads } = options;
    this.#options = options;
    this.#config = options.config;
    this.#memory = ThreadCells.allocate(threads + 1);
    const onPass = () => this.#wakeAll();
    this.#cells = new ThreadCells(this.#memory, { thread: 0, threads: threads + 1, onPass });
    this.router = createRouter({
      ...options,
      part: {
        leads: true,
        shareOf: (model) => this.#shareOf(model),
        admission: this.#cells.admission,
        keyTable: this.#cells.keys,
        threadCounts: () => this.#countAll(),
      },
    });
    this.#front = new LeadingFront({
      app: this.router.app,
      threads: () => [...this.#serving.values()].map(({ http }) => http),
      // Threads take messages in their order.
      settled: () => this.#countAll(),
      metrics: this.router.inside.metrics.http,
      clock: options.clock,
    });
  }

  /** Starts the threads; resolves with the address when all of them listen. Rejects with what stops the first one. */
  async start(port: number): Promise<{ url: string }> {
    this.#port = port;
    const indices = Array.from({ length: this.#options.threads }, (_, at) => at + 1);
    const [url] = await Promise.all(indices.map((index) => this.#start(index).listening.promise));
    return { url: url! };
  }

  /**
   * Has all threads go on by another configuration, as `Router.reconfigure` does: they hear of it and of what has become
   * of models and workers at once.
   */
  reconfigure(config: Config): void {
    const [models, slots] = [this.#models, this.#slots];
    this.#models = new Map(models);
    this.#slots = new Set(slots);
    this.#changing = true;
    try {
      this.router.reconfigure(config);
    } catch (error) {
      [this.#models, this.#slots] = [models, slots];
      throw error;
    } finally {
      this.#changing = false;
    }
    const { all } = this.router.inside.models;
    for (const name of this.#models.keys()) if (!all.has(name)) this.#models.delete(name);
    this.#config = config;
    this.#tellAll({ kind: "config", config, models: this.#sharedModels() });
  }

  /** Refuses new requests and lets all threads finish theirs, up to the configured time; then ends. */
  async drain(): Promise<void> {
    this.#ending = true;
    await Promise.all([this.#endAll("drain"), this.router.drain()]);
    this.#terminateAll();
  }

  /** Ends everything at once. */
  async close(): Promise<void> {
    this.#ending = true;
    this.#life.abort(new Error("The router was closed"));
    const late = new AbortController();
    await Promise.race([
      this.#endAll("close"),
      this.#options.clock.sleep(END_MS, late.signal).catch(() => {}),
    ]);
    late.abort();
    this.#terminateAll();
    await this.router.close();
  }

  /** Has a thread throw where nobody catches it, for tests. False when there is none of that index. */
  crash(index: number): boolean {
    const serving = this.#serving.get(index);
    serving?.thread.post({ kind: "crash" });
    return serving !== undefined;
  }

  #start(index: number): Serving {
    const { start, address, clock, threads } = this.#options;
    const models = this.#sharedModels();
    const post: PostToThread = (message) => serving.thread.post(message);
    const thread = start(
      { config: this.#config, memory: this.#memory, thread: index, threads: threads + 1, models },
      { ...address, port: this.#port },
      {
        message: (message) => this.#take(serving, message),
        crash: (reason) => this.#onCrash(serving, reason),
      },
    );
    thread.keepAlive(true);
    const serving: Serving = {
      index,
      thread,
      http: new PortHttp((message) => post({ kind: "http", message }), this.#front),
      startedMs: clock.now(),
      listening: Promise.withResolvers(),
      ended: Promise.withResolvers(),
      counting: new Map(),
      counts: undefined,
    };
    serving.listening.promise.catch(() => {});
    this.#serving.set(index, serving);
    return serving;
  }

  #take(serving: Serving, message: FromServingThread): void {
    const { thread, http, listening, ended, counting, index } = serving;
    switch (message.kind) {
      case "http":
        return http.take(message.message);
      case "listening":
        return listening.resolve(message.url);
      case "failed":
        return listening.reject(new CanopyError(message.reason, message));
      case "pass":
        return this.#wakeAll(index);
      case "poke":
        return this.router.inside.models.all.get(message.model)?.pool.poke(message.worker);
      case "run":
        return this.router.services.moa.keep(message.record);
      case "counts":
        serving.counts = message.counts;
        return counting.get(message.request)?.(message.counts);
      case "open_scorer":
      case "scorer":
        return this.#options.scorer(index, message, (answer) => thread.post(answer));
      case "audit":
        return this.#tellAll(message, serving);
      case "ended":
        return ended.resolve();
    }
  }

  #onCrash(serving: Serving, reason: string): void {
    const { index, http, listening, ended, counting, counts, startedMs } = serving;
    if (this.#serving.get(index) !== serving) return;
    this.#serving.delete(index);
    const { clock, scorerLeft } = this.#options;
    if (counts !== undefined) this.#dead = this.#added(counts);
    http.close();
    scorerLeft(index);
    for (const settle of counting.values()) settle(undefined);
    this.#cells.forget(index);
    listening.reject(
      new CanopyError(`Thread ${index} has ended: ${reason}`, {
        code: "thread_failed",
        status: 500,
      }),
    );
    ended.resolve();
    this.#wakeAll();
    if (this.#ending) return;
    this.#log.error(
      "Thread {index} has ended, and what it served is cut: {reason}; another takes its place",
      {
        index,
        reason,
      },
    );
    const waitMs = clock.now() - startedMs < YOUNG_MS ? YOUNG_MS : 0;
    clock.sleep(waitMs, this.#life.signal).then(async () => {
      if (this.#ending) return;
      await this.#start(index).listening.promise;
    }).catch((error) => {
      if (!this.#ending) {
        this.#log.error("Thread {index} cannot serve: {error}", { index, error: messageOf(error) });
      }
    });
  }

  #shareOf(name: string): PoolShare {
    const number = this.#freeNumber();
    const queue = this.#cells.queue(number);
    const model: { readonly number: number; members: readonly WorkerReport[] } = { number, members: [] };
    this.#models.set(name, model);
    return {
      leads: true,
      thread: 0,
      queue,
      takeSlot: () => {
        const slot = this.#cells.takeSlot(this.#slots);
        this.#slots.add(slot);
        return slot;
      },
      leaveSlot: (slot) => void this.#slots.delete(slot),
      worker: (slot) => this.#cells.worker(slot),
      handOffs: (prefill, decode) => this.#cells.handOffs(prefill, decode),
      changed: (members) => {
        model.members = members;
        const told = this.#serving.size > 0 && !this.#changing ? this.#modelOf(name) : undefined;
        if (told !== undefined) this.#tellAll({ kind: "model", model: told });
      },
      poke: () => {},
    };
  }

  /** A number of no model; one that was another's is used again as late as can be, because some may still wait there. */
  #freeNumber(): number {
    const taken = new Set([...this.#models.values()].map(({ number }) => number));
    for (let tries = 0; tries < MAX_MODELS; tries++) {
      const number = this.#nextNumber++ % MAX_MODELS;
      if (!taken.has(number)) return number;
    }
    return MAX_MODELS;
  }

  #sharedModels(): SharedModel[] {
    return [...this.#models.keys()].flatMap((name) => this.#modelOf(name) ?? []);
  }

  #modelOf(name: string): SharedModel | undefined {
    const model = this.#models.get(name);
    const config = this.router.inside.models.all.get(name)?.config;
    return model === undefined || config === undefined ? undefined : { name, config, ...model };
  }

  /** Numbers of all threads, dead ones too; of one that is late the last ones. */
  async #countAll(): Promise<readonly ThreadCounts[]> {
    const living = [...this.#serving.values()].map((serving) => this.#count(serving));
    const counts = await Promise.all(living);
    return [...counts, this.#dead].filter((one) => one !== undefined);
  }

  #count(serving: Serving): Promise<ThreadCounts | undefined> {
    const request = this.#requests++;
    const late = new AbortController();
    return new Promise((resolve) => {
      const settle = (counts: ThreadCounts | undefined) => {
        serving.counting.delete(request);
        late.abort();
        resolve(counts);
      };
      serving.counting.set(request, settle);
      serving.thread.post({ kind: "count", request });
      this.#options.clock.sleep(COUNT_MS, late.signal).then(() => settle(serving.counts), () => {});
    });
  }

  /** The numbers of the dead with those of one more, without what was going on there. */
  #added(counts: ThreadCounts): ThreadCounts {
    const metrics = new Metrics(this.#options.clock);
    if (this.#dead !== undefined) metrics.absorb(this.#dead.metrics);
    metrics.absorb({ ...counts.metrics, http: { ...counts.metrics.http, active: 0 } });
    const { allowed = 0, rejected = 0 } = this.#dead?.places ?? {};
    const places = { allowed: allowed + counts.places.allowed, rejected: rejected + counts.places.rejected };
    return { ...counts, alive: false, requestsInFlight: 0, places, metrics: metrics.values() };
  }

  #wakeAll(but?: number): void {
    for (const { index, thread } of this.#serving.values()) if (index !== but) thread.post({ kind: "wake" });
  }

  #tellAll(message: ToServingThread, except?: Serving): void {
    for (const serving of this.#serving.values()) if (serving !== except) serving.thread.post(message);
  }

  async #endAll(kind: "drain" | "close"): Promise<void> {
    this.#tellAll({ kind });
    await Promise.all([...this.#serving.values()].map(({ ended }) => ended.promise));
  }

  #terminateAll(): void {
    for (const { thread } of this.#serving.values()) thread.terminate();
    this.#serving.clear();
  }
}
