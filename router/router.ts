import type { Hono } from "hono";
import { type Clock, unixSeconds } from "../base/clock.ts";
import { CanopyError } from "../base/errors.ts";
import { logger } from "../base/log.ts";
import type { Random } from "../base/random.ts";
import type { Spans } from "./tracing/spans.ts";
import type { Transport } from "../base/transport.ts";
import { checkMaxTokens } from "../cfgs/check/check_max_tokens.ts";
import { ConfigOrigins } from "../cfgs/load/config_origins.ts";
import type { Config } from "../cfgs/schema/config.ts";
import { apiKeysOf } from "../cfgs/schema/limits.ts";
import { loadTokenizer } from "../ml/tokenizers/hf_tokenizer.ts";
import type { ModelTokenizer } from "../ml/tokenizers/model_tokenizer.ts";
import type { RunArchive } from "./archive/run_archive.ts";
import { createApp } from "./http/app.ts";
import type { Env } from "./http/gate/context.ts";
import { routerMetrics, tokenMakers } from "./http/admin/admin.ts";
import { type Admission, admissionBounds, admissionOf } from "./http/gate/admission.ts";
import { Drain } from "./http/gate/drain.ts";
import type { RouterServices } from "./http/gate/services.ts";
import { Metrics, type ThreadCounts } from "./http/metrics/metrics.ts";
import type { ReloadMetrics } from "./http/metrics/reload_metrics.ts";
import { archivedRun } from "./http/runs/archived_run.ts";
import { type Address, Listeners } from "./http/server/listeners.ts";
import type { Fetches } from "./http/server/fetches.ts";
import type { RunRecord } from "./moa/record/run_record.ts";
import type { PoolShare } from "./pool/pool_share.ts";
import { openKeyStore } from "./replicas/open_key_store.ts";
import { type KeyTable, LocalKeyTable } from "./shared/key_counts.ts";
import type { SharedPermits } from "./shared/shared_semaphore.ts";
import type { EarlyExitServices } from "./moa/exit/exit_policies.ts";
import { createMoa } from "./moa/run/moa.ts";
import { Arrivals } from "./pool/arrivals.ts";
import type { WorkerStatus } from "./pool/worker.ts";
import { shownUrl } from "./worker/worker_access.ts";
import { createRelay } from "./relay/relay.ts";
import { Fleet } from "./served/fleet.ts";
import { createModels, type Models } from "./served/models.ts";
import type { ServedModel } from "./served/served_model.ts";
import { TracedTransport } from "./tracing/traced_transport.ts";

/** Options of `createRouter`. */
export interface RouterOptions {
  readonly config: Config;
  readonly clock: Clock;
  readonly random: Random;
  readonly transport: Transport;
  /** For /openapi.json. */
  readonly version?: string;
  /**
   * The scorer and the policies of early exit; the router does not close them. Without them every cluster waits for all
   * its members, and a graph that asks for early exit is refused.
   */
  readonly earlyExit?: EarlyExitServices | undefined;
  /** Traces of requests; the router does not close them. */
  readonly spans?: Spans | undefined;
  /** By default from a local folder or the Hub; while it loads, prompts go out as text. */
  readonly loadTokenizer?: ((source: string) => Promise<ModelTokenizer>) | undefined;
  /** The records of ended runs on disk; the router does not close it. Without it they are in memory alone. */
  readonly archive?: RunArchive | undefined;
  /** Absent where one thread does it all. */
  readonly part?: RouterPart | undefined;
}

/** A router's part in a program of several threads: one of those that serve, or the one that watches over all. */
export interface RouterPart {
  /** True in the one that watches: it serves nobody and needs no tokenizers. */
  readonly leads: boolean;
  readonly shareOf: (model: string) => PoolShare;
  readonly admission: SharedPermits;
  readonly keyTable: KeyTable;
  /** Stands before the app, for requests that other threads answer. */
  readonly front?: ((app: Fetches) => Fetches) | undefined;
  /** Gets the records of runs, which are kept elsewhere. */
  readonly onRunEnded?: ((record: RunRecord) => void) | undefined;
  /** Numbers of the threads that serve. */
  readonly threadCounts?: (() => Promise<readonly ThreadCounts[]>) | undefined;
}

/** The parts of a router that the other threads of its program change and ask. */
export interface RouterInside {
  readonly models: Models;
  readonly admission: Admission;
  readonly metrics: Metrics;
  counts(): ThreadCounts;
}

/** The whole router. */
export interface Router {
  /** The HTTP surface, usable without a port. */
  readonly app: Pick<Hono<Env>, "fetch" | "request">;
  readonly services: RouterServices;
  readonly inside: RouterInside;
  /** To be told of readings of the configuration, for /metrics. */
  readonly reloads: ReloadMetrics;
  /** To be told where the configuration's values come from, for /v1/config. */
  readonly origins: ConfigOrigins;
  /** Resolves when every worker was asked once what it can do and tokenizers were looked for, with or without success. */
  readonly ready: () => Promise<void>;
  /**
   * Goes on by another configuration, as far as `liveChange` lets it: requests that come from now on see all of it,
   * those in flight go on by what they began with. Throws when it cannot be used; then nothing has changed.
   */
  reconfigure(config: Config): void;
  /** Listens on a port; 0 takes a free one. Throws `CanopyError` (500), also for a certificate that cannot be used. */
  listen(address: Address): Promise<{ url: string }>;
  /** Listens on one more port, on which everybody gets the metrics and nothing else. Throws `CanopyError` (500). */
  listenForMetrics(address: Address): Promise<{ url: string }>;
  /** Refuses new requests and lets the others finish, up to the configured time; then closes. */
  drain(): Promise<void>;
  /** Ends everything at once: runs are cancelled on their engines, connections closed. */
  close(): Promise<void>;
}

/** Builds a router from its configuration. Throws when a graph cannot be run. */
export function createRouter(options: RouterOptions): Router {
  let { config } = options;
  const life = new AbortController();
  const parts = createParts(options, life.signal);
  const { clock, random, transport, spans, models, moa, fleet, drain, metrics, admission, leads } = parts;
  const { part } = options;
  const services: RouterServices = {
    get config() {
      return config;
    },
    clock,
    random,
    transport,
    spans,
    models: models.all,
    fleet,
    moa,
  };
  // One for each configuration: a request goes on by the one that it came to.
  const surface = () => createApp({ ...parts, ...services });
  let current = surface();
  const app: Router["app"] = {
    fetch: (...asked) => current.fetch(...asked),
    request: (...asked) => current.request(...asked),
  };
  // Whoever does not lead is told who has joined which model.
  const asked = leads ? fleet : undefined;
  const probed = Promise.all([models.start(life.signal), asked?.start(life.signal)]);
  if (leads) probed.then(() => warnOfContexts(config, models.all)).catch(() => {});
  // Addresses of workers are for those who may do everything: here, where there are no keys.
  const nameOf = (worker: WorkerStatus) => isKeyless(config) ? shownUrl(worker) : worker.id;
  const listeners = new Listeners({
    app: part?.front?.(app) ?? app,
    tls: config.server.tls,
    clock,
    metricsText: () => routerMetrics({ ...parts, models: models.all }, nameOf),
  });
  let closed: Promise<void> | undefined;

  async function end(): Promise<void> {
    await moa.close(shuttingDown());
    drain.stop();
    life.abort(new Error("The router was closed"));
    await listeners.shutdown();
  }

  return {
    app,
    services,
    inside: { models, admission, metrics, counts: () => countsOf(parts) },
    reloads: metrics.reloads,
    origins: parts.origins,
    reconfigure: (next) => {
      prepare(next, parts, listeners).commit();
      config = next;
      current = surface();
    },
    ready: async () => void await probed,
    listen: async (address) => {
      const listening = await listeners.listen(address);
      probed.then(() => startEncoders(models.all)).catch(() => {});
      return listening;
    },
    listenForMetrics: async (address) => await listeners.listenForMetrics(address),
    drain: () => drain.drain().then(() => closed ??= end()),
    close: () => closed ??= end(),
  };
}

/** The parts of a router that stay while its configuration changes. */
function createParts(options: RouterOptions, life: AbortSignal) {
  const { config, clock, random, spans, earlyExit, version, part, archive } = options;
  const transport = spans === undefined ? options.transport : new TracedTransport(options.transport, spans);
  const shared = { config, clock, random, transport, spans };
  const models = createModels({
    ...shared,
    loadTokenizer: part?.leads === true ? undefined : options.loadTokenizer ??
      ((source) => loadTokenizer(source, { transport, signal: life, clock })),
    shareOf: part?.shareOf,
  });
  const arrivals = new Arrivals();
  const { records: { texts }, limits } = config.server;
  const store = limits?.store;
  const moa = createMoa({
    ...shared,
    onRunEnded: part?.onRunEnded,
    onRunKept: archive === undefined
      ? undefined
      : (record) => void archive.add(record.id, () => archivedRun(record, { texts, clock })),
    models: models.all,
    arrivals,
    earlyExit,
  });
  models.listen({ added: (model) => moa.addModel(model), removed: (name) => moa.removeModel(name) });
  const fleet = config.fleet === undefined
    ? undefined
    : new Fleet({ config: config.fleet, clock, transport, models });
  const metrics = new Metrics(clock);
  const relay = createRelay({ ...shared, log: logger("relay"), retries: metrics.retries, arrivals });
  return {
    ...shared,
    archive,
    origins: new ConfigOrigins(),
    leads: part?.leads !== false,
    models,
    moa,
    fleet,
    relay,
    version,
    drain: new Drain({ clock, timeoutMs: config.server.drain_timeout_ms }),
    metrics,
    admission: admissionOf(config.server, clock, part?.admission),
    keyTable: part?.keyTable ?? new LocalKeyTable(),
    keyStore: store === undefined || part?.leads === true ? undefined : openKeyStore(store, {
      clock,
      random: random.stream("replicas"),
      signal: life,
    }),
    threadCounts: part?.threadCounts,
    ids: random.stream("http"),
    startedAt: unixSeconds(clock),
  };
}

function countsOf(
  { metrics, drain, admission, models, keyStore }: ReturnType<typeof createParts>,
): ThreadCounts {
  return {
    alive: true,
    metrics: metrics.values(),
    requestsInFlight: drain.inFlight,
    places: admission.counts,
    tokensBy: tokenMakers(models.all),
    keyStoreUp: keyStore?.isHere,
  };
}

function shuttingDown(): CanopyError {
  return new CanopyError("The router is shutting down", {
    code: "shutting_down",
    status: 503,
    retryAfterSeconds: 1,
  });
}

/** Looks whether all parts can go on by another configuration. Throws when one cannot. */
function prepare(
  config: Config,
  { models, moa, fleet, admission, drain, leads }: ReturnType<typeof createParts>,
  listeners: Listeners,
): { commit(): void } {
  const changes = [listeners.prepareTls(config.server.tls), moa.prepare(config)];
  const modelsChange = models.prepare(config.models);
  return {
    commit: () => {
      const gone = modelsChange.commit();
      if (config.fleet !== undefined) fleet?.reconfigure(config.fleet);
      for (const change of changes) change.commit();
      admission.reconfigure(admissionBounds(config.server));
      drain.setTimeoutMs(config.server.drain_timeout_ms);
      // Requests of before may still use them.
      void drain.settled().then(() => gone.forEach((model) => model.stop()));
      if (leads) warnOfContexts(config, models.all);
    },
  };
}

function isKeyless({ server }: Config): boolean {
  return apiKeysOf(server).length + server.admin_keys.length === 0 && server.admin_key === undefined;
}

/** Graphs whose `max_tokens` do not fit together in contexts that their workers tell; a check knows of configured ones. */
function contextWarnings(config: Config, models: ReadonlyMap<string, ServedModel>): string[] {
  const told = Object.keys(config.graphs).flatMap((name) =>
    checkMaxTokens(config, name, (model) => {
      const served = models.get(model);
      return served?.config.context_tokens === undefined
        ? served?.engine.capabilities.contextTokens
        : undefined;
    })
  );
  return told.map(({ message }) => message);
}

function warnOfContexts(config: Config, models: ReadonlyMap<string, ServedModel>): void {
  for (const warning of contextWarnings(config, models)) logger("moa").warning("{warning}", { warning });
}

/** Starting a thread holds up everything else: better before the first long text than with it. */
function startEncoders(models: ReadonlyMap<string, ServedModel>): void {
  for (const { tokenizer } of models.values()) tokenizer?.longTexts?.start();
}
