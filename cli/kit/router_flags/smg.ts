import { any, bare, honoured, noted, one, refused, type RouterFlags, some } from "./router_flag.ts";

const QUEUES = noted("changes to workers take effect at once: there is no queue of jobs");
const TUNES = noted("no such setting: placing tunes itself by the load of the workers");
const MEDIA = noted("media pass to the workers as they came");
const OVERLOAD = noted("a worker is left out while it answers 429 or 503, and while its breaker is open");
const STALLS = noted("a worker is left out by its health checks and its breaker");
const WARMS = noted("a new worker gets its share at once");
const NO_EPD = refused(
  "there are no encode servers here: start without them, the prefill servers read media, too",
);
const NO_WASM = refused("modules are not loaded here: start without them");
const NO_STORE = refused("conversations are not stored here: leave it out, and keep them in the client");
const NO_HISTORY = noted("conversations are not stored");
const NO_MESH = refused(
  "routers do not know of each other here: start each by itself, with the same workers",
);
const NO_PRIORITY = refused("there are no classes of tenants here: a request's own priority orders its wait");
const NO_TENANTS = refused("a header does not make a tenant here: give each one a key with --tenant-api-key");
const NO_RATES = refused(
  "tenants have no rates here: start without it; keys have them, by server.limits of a file",
);
const NO_RL = refused("there is no /v1/rl here: ask the workers themselves");
const NO_FILE = refused("workers are not read from a file here: name them, or add them by POST /workers");
const RECOVERS = noted("an ill worker stays, and gets work again when it is well");
const STICKY = noted("requests with one x-smg-routing-key go to one worker, under any policy");

/** The flags of `smg launch` 1.13.0 that `sglang-router` has not: with their aliases, and those it adds to others, 124 spellings. */
export const SMG_FLAGS: RouterFlags = {
  "job-queue-capacity": one("1000", QUEUES),
  "job-queue-concurrency": one("200", QUEUES),
  "load-monitor-interval": one(
    "10",
    noted("loads are this router's own counts: workers are not asked for them"),
  ),
  "disable-load-monitoring": bare(honoured("workers are never asked for their loads")),
  "multimodal-tensor-transport": one(undefined, MEDIA),
  "multimodal-shm-min-bytes": one(undefined, MEDIA),
  "multimodal-max-inflight-bytes": one(undefined, MEDIA),
  "mm-per-request-image-limit": one(
    undefined,
    refused("images are not counted here: limit them on the engine"),
  ),
  "mm-processing": one(undefined, MEDIA),
  "mm-pixel-cache-mb": one(undefined, MEDIA),
  "mm-pixel-rdma": bare(MEDIA),
  "mm-allowed-media-domains": one(
    undefined,
    refused("media are fetched by the engines: limit their hosts there"),
  ),
  "mm-allow-private-media-hosts": bare(MEDIA),
  "rdma-listen-ip": one(undefined, MEDIA),
  "rdma-slot-ttl-s": one(undefined, MEDIA),
  "log-mm-timing": bare(MEDIA),
  "upstream-http2": bare(noted("workers are spoken to in HTTP/1.1, which they all know")),
  "upstream-pool-idle-timeout-secs": one("3", noted("idle connections to workers are closed after 3 s")),
  "health-check-port": one(
    undefined,
    refused("probes are answered on --port and on no other: point them there"),
  ),
  "encode-policy": one(undefined, NO_EPD),
  "prefix-token-count": one("256", TUNES),
  "prefix-hash-load-factor": one("1.25", TUNES),
  "prefix-hash-balance-abs-threshold": one("10", TUNES),
  "least-load-kv-pressure-weight": one("0.15", TUNES),
  "least-load-default-throughput": one("2000.0", TUNES),
  "least-load-mean-prefill-tokens": one("1024", TUNES),
  "least-load-max-waiting-requests": one("0", TUNES),
  "power-of-two-load-metric": one("expected_wait", noted("loads are requests in flight")),
  "balance-token-usage-threshold": one("1.0", TUNES),
  "overload-token-usage-threshold": one("1.0", TUNES),
  "worker-overload-waiting-requests": one("8", OVERLOAD),
  "worker-overload-token-usage": one("0.8", OVERLOAD),
  "worker-overload-protection": bare(OVERLOAD),
  "disable-worker-overload-protection": bare(OVERLOAD),
  "worker-overload-shed": bare(OVERLOAD),
  "kv-index": one("positional", TUNES),
  "worker-stall-secs": one("2", STALLS),
  "worker-wedge-secs": one("3", STALLS),
  "worker-stale-secs": one("15", STALLS),
  "worker-warmup-secs": one("60", WARMS),
  "worker-warmup-share": one("0.25", WARMS),
  "worker-warmup-blocks": one("1024", WARMS),
  "worker-warmup-thin-ratio": one("0.5", WARMS),
  "worker-warmup-divert-every": one("8", WARMS),
  "selection-policy": one("cache-aware-default", TUNES),
  "selection-accounting-ttl-ms": one("0", TUNES),
  "overlap-decay": one("0.0", TUNES),
  "selection-temperature": one("0.0", TUNES),
  "block-size": one("16", TUNES),
  "cache-boundaries": one(undefined, TUNES),
  "cache-index": one("tree", TUNES),
  "cache-ttl-secs": one("180", TUNES),
  "max-buffered-request-bytes": one(
    "1048576",
    noted("every body is held until its first answer, so that it can be sent again"),
  ),
  "pd-admission-wait-secs": one("30", noted("requests wait for a pair as long as their client does")),
  "stream-body-stall-timeout-secs": one("300", noted("a body that stops arriving ends with its connection")),
  "sse-keepalive-secs": one(
    "15",
    noted("no comments are sent into quiet streams: allow for the longest prefill"),
  ),
  "routing-key-override": bare(STICKY, { aliases: ["sticky-sessions"] }),
  "routing-key-headers": any(STICKY),
  "dp-minimum-tokens-scheduler": bare(
    noted("a worker is one place: its own load balancing chooses among its ranks"),
  ),
  "enable-rl": bare(NO_RL),
  "rl-control-timeout-secs": one("600", NO_RL),
  "rl-fanout-concurrency": one("32", NO_RL),
  "epd-disaggregation": bare(NO_EPD),
  "encode": some(NO_EPD, { repeats: true }),
  "prefill-max-inflight-requests-per-worker": one(
    "-1",
    honoured("requests of a pair that may be before their first token; not given: 64"),
  ),
  "prefill-queue-size": one(
    undefined,
    noted("requests that wait for a pair count in --max-concurrent-requests"),
  ),
  "prefill-queue-timeout-secs": one(
    undefined,
    noted("requests wait for a pair as long as their client does"),
  ),
  "worker-startup-delay": one("0", noted("workers are asked at once, and every second until they are up")),
  "discovery-provider": one(undefined, NO_FILE, {
    values: { kubernetes: honoured("as --service-discovery") },
  }),
  "kv-connector-annotation": one(
    "smg.ai/kv-connector",
    noted("what servers must know of each other comes with their answers"),
  ),
  "kv-engine-id-annotation": one(
    "smg.ai/kv-engine-id",
    noted("what servers must know of each other comes with their answers"),
  ),
  "encode-selector": some(NO_EPD, { repeats: true }),
  "router-selector": some(NO_MESH, { repeats: true }),
  "model-id-from": one(
    undefined,
    refused("a worker's model is the one that it names: start it under that name"),
  ),
  "model-alias": one(
    undefined,
    refused("an alias is a key of models in a configuration: see docs/configuration.md"),
    { repeats: true },
  ),
  "discovery-file": one(undefined, NO_FILE),
  "discovery-check-interval-secs": one(undefined, NO_FILE),
  "log-json": bare(honoured("logs are JSON lines")),
  "jemalloc-prof-dir": one(undefined, noted("there is no /heap_profile")),
  "storage-context-headers": any(NO_STORE),
  "header-read-timeout-secs": one("30", noted("the runtime's own limit holds for request heads")),
  "idle-connection-timeout-secs": one("90", noted("idle connections stay until the client closes them")),
  "trust-tenant-header": bare(NO_TENANTS),
  "tenant-header-name": one("x-smg-tenant-id", NO_TENANTS),
  "max-background-responses": one("1024", noted("nothing runs in the background")),
  "priority-scheduler-enabled": bare(NO_PRIORITY),
  "priority-scheduler-default-max-class": one("default", NO_PRIORITY),
  "priority-scheduler-config": one(undefined, NO_PRIORITY),
  "priority-scheduler-tenant-metric-top-n": one("32", NO_PRIORITY),
  "tenant-rate-limit-enabled": bare(NO_RATES),
  "tenant-rate-limit-config": one(undefined, NO_RATES),
  "remove-unhealthy-workers": bare(RECOVERS, {
    aliases: ["no-remove-unhealthy-workers", "worker-auto-recovery", "no-worker-auto-recovery"],
  }),
  "disable-tokenizer-autoload": bare(honoured("no tokenizer is loaded")),
  "parser": one("legacy", noted("answers pass as the worker wrote them: set it on the engine")),
  "tokenizer-cache-l0-max-memory": one(
    "268435456",
    noted("the workers tokenise and apply the chat template: set it there"),
  ),
  "zmq-engine-count": one(undefined, refused("workers speak HTTP here: start them with their HTTP server")),
  "enable-wasm": bare(NO_WASM),
  "storage-hook-wasm-path": one(undefined, NO_WASM),
  "history-memory-max-responses": one("10000", NO_HISTORY),
  "history-memory-max-items": one("100000", NO_HISTORY),
  "history-memory-retention-secs": one("86400", NO_HISTORY),
  "schema-config": one(undefined, NO_STORE),
  "oracle-external-auth": bare(NO_STORE),
  "postgres-op-timeout-secs": one("5", NO_STORE),
  "redis-op-timeout-secs": one("5", NO_STORE),
  "tenant-api-key": one(undefined, honoured("TENANT:KEY, one more bearer token of clients"), {
    repeats: true,
  }),
  "enable-mesh": bare(NO_MESH),
  "mesh-server-name": one(undefined, NO_MESH),
  "mesh-host": one("0.0.0.0", NO_MESH),
  "mesh-advertise-host": one(undefined, NO_MESH),
  "mesh-port": one("39527", NO_MESH),
  "mesh-peer-urls": any(NO_MESH),
  "mesh-tls-ca-cert": one(undefined, NO_MESH),
  "mesh-tls-cert": one(undefined, NO_MESH),
  "mesh-tls-key": one(undefined, NO_MESH),
};

/** Flags of vLLM's fork of sglang-router, and our own. */
export const OTHER_FLAGS: RouterFlags = {
  "vllm-pd-disaggregation": bare(honoured("as --pd-disaggregation: which engine it is, the servers say")),
  "vllm-discovery-address": one(
    undefined,
    refused("servers do not announce themselves by ZMQ here: name them, or add them by POST /workers"),
  ),
  "kubernetes-api": one(
    undefined,
    honoured("the cluster's API server, such as that of kubectl proxy; from within a pod its own"),
  ),
  "workers": one("1", honoured("threads that serve; `auto`: one for each core")),
  "no-page": bare(honoured("no page for browsers at `/`")),
  "reports": one(undefined, honoured("folder of bench reports that the page lists")),
  "records": one(undefined, honoured("SQLite file in which finished runs are recorded")),
  "no-records": bare(honoured("nothing is kept of finished runs")),
  "set": one(undefined, honoured("PATH=VALUE, any value of the configuration"), { repeats: true }),
};
