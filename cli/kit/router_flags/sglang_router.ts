import { any, bare, honoured, noted, one, refused, type RouterFlags, some } from "./router_flag.ts";

const TOKENIZES = noted("the workers tokenise and apply the chat template: set it there");
const PARSES = noted("answers pass as the worker wrote them: set it on the engine");
const NO_STORE = refused("conversations are not stored here: leave it out, and keep them in the client");
const NO_JWT = refused("tokens of an identity provider are not checked here: use --control-plane-api-keys");
const TUNES = noted("no such setting: placing tunes itself by the load of the workers");

/** The 98 flags of `sglang-router launch` 0.3.2, in the order of its help. */
export const SGLANG_ROUTER_FLAGS: RouterFlags = {
  "host": one("0.0.0.0", honoured("address to listen on", "server.host")),
  "port": one("30000", honoured("port to listen on; 0: any", "server.port", "count")),
  "worker-urls": any(honoured("servers that do the whole work; each is asked for its model"), {
    repeats: true,
  }),
  "policy": one("cache_aware", honoured("how workers are chosen")),
  "prefill-policy": one(undefined, honoured("the same for prefill servers")),
  "decode-policy": one(undefined, honoured("the same for decode servers")),
  "cache-threshold": one("0.3", TUNES, { aliases: ["cache-match-threshold"] }),
  "balance-abs-threshold": one("64", TUNES, { aliases: ["spill-abs-threshold"] }),
  "balance-rel-threshold": one("1.5", TUNES, { aliases: ["spill-rel-threshold"] }),
  "bucket-adjust-interval-secs": one("5", TUNES),
  "eviction-interval-secs": one("60", TUNES),
  "max-tree-size": one("67108864", TUNES),
  "max-idle-secs": one(
    "14400",
    noted("sticky keys are kept by number, not by time: the 65,536 that were used last"),
    { aliases: ["sticky-key-idle-secs"] },
  ),
  "assignment-mode": one("random", noted("a new sticky key goes where the policy sends it")),
  "max-payload-size": one("536870912", honoured("largest request body", "server.max_body_bytes", "count")),
  "dp-aware": bare(honoured("each data-parallel rank of a SGLang server is a place of its own")),
  "enable-igw": bare(honoured("several models, learned from the workers; also without any worker at first")),
  "mini-lb": bare(honoured("as --pd-disaggregation")),
  "pd-disaggregation": bare(honoured("prefill and decode servers, any with any")),
  "prefill": some(honoured("a prefill server, and its bootstrap port or none"), { repeats: true }),
  "decode": one(undefined, honoured("a decode server"), { repeats: true }),
  "worker-startup-timeout-secs": one(
    "1800",
    honoured("longest wait for a first worker", "fleet.startup_timeout_ms", "seconds"),
  ),
  "worker-startup-check-interval": one("30", noted("workers that are not up yet are asked every second")),
  "log-dir": one(
    undefined,
    honoured("folder of canopy.log, written beside standard error", "server.log_dir"),
  ),
  "log-level": one("info", honoured("debug, info, warn or error")),
  "service-discovery": bare(honoured("follow the pods of a Kubernetes cluster")),
  "selector": some(honoured("labels of the pods"), { repeats: true }),
  "service-discovery-port": one("80", honoured("port of the pods")),
  "service-discovery-namespace": one(undefined, honoured("namespace of the pods; without it all")),
  "prefill-selector": some(honoured("labels of prefill pods"), { repeats: true }),
  "decode-selector": some(honoured("labels of decode pods"), { repeats: true }),
  "prometheus-port": one("29000", honoured("port of /metrics, which the main port has, too")),
  "prometheus-host": one("0.0.0.0", honoured("address of that port")),
  "prometheus-duration-buckets": some(noted("the buckets of /metrics are fixed")),
  "request-id-headers": any(
    honoured("headers that may hold a request's id", "server.request_id_headers", "list"),
  ),
  "request-timeout-secs": one(
    "1800",
    honoured("longest wait for the first byte, and longest silence after it"),
  ),
  "shutdown-grace-period-secs": one(
    "180",
    honoured("time for running requests after SIGTERM", "server.drain_timeout_ms", "seconds"),
  ),
  "cors-allowed-origins": any(
    honoured("origins whose pages may ask; none: no others", "server.cors_origins", "list"),
  ),
  "max-concurrent-requests": one("-1", honoured("requests that run at once; -1: no limit")),
  "queue-size": one("100", honoured("requests that may wait for a place", "server.max_queued", "count")),
  "queue-timeout-secs": one("60", honoured("longest wait for a place", "server.queue_timeout_ms", "seconds")),
  "rate-limit-tokens-per-second": one(
    undefined,
    noted(
      "there is no limit on the rate of all: server.limits of a file bounds that of keys, --max-concurrent-requests what runs at once",
    ),
  ),
  "retry-max-retries": one("5", honoured("attempts in all, before the first byte")),
  "retry-initial-backoff-ms": one(
    "50",
    honoured("wait before the second attempt", "model.backoff.initial_ms", "milliseconds"),
  ),
  "retry-max-backoff-ms": one("30000", honoured("longest such wait", "model.backoff.max_ms", "milliseconds")),
  "retry-backoff-multiplier": one("1.5", honoured("growth of these waits", "model.backoff.factor", "number")),
  "retry-jitter-factor": one("0.2", honoured("their randomness", "model.backoff.jitter", "number")),
  "disable-retries": bare(honoured("one attempt")),
  "cb-failure-threshold": one(
    "10",
    honoured("failures in a row that open a worker's breaker", "model.breaker.failures", "count"),
  ),
  "cb-success-threshold": one(
    "3",
    honoured("successes in a row that close it", "model.breaker.successes", "count"),
  ),
  "cb-timeout-duration-secs": one(
    "60",
    honoured("time until a request may try an open breaker", "model.breaker.open_ms", "seconds"),
  ),
  "cb-window-duration-secs": one("120", noted("failures count in a row, however far apart")),
  "disable-circuit-breaker": bare(honoured("breakers never open")),
  "health-failure-threshold": one(
    "3",
    honoured("bad checks in a row that take a worker out", "model.health.failures", "count"),
  ),
  "health-success-threshold": one(
    "2",
    honoured("good checks in a row that bring it back", "model.health.successes", "count"),
  ),
  "health-check-timeout-secs": one(
    "5",
    honoured("longest wait for a check", "model.health.timeout_ms", "seconds"),
  ),
  "health-check-interval-secs": one(
    "60",
    honoured(
      "time between two checks; every second while a worker is ill",
      "model.health.interval_ms",
      "seconds",
    ),
  ),
  "health-check-endpoint": one("/health", honoured("path of the checks")),
  "disable-health-check": bare(honoured("no checks: failed requests alone tell")),
  "model-path": one(undefined, TOKENIZES, { aliases: ["model"] }),
  "tokenizer-path": one(undefined, TOKENIZES),
  "chat-template": one(undefined, TOKENIZES),
  "tokenizer-cache-enable-l0": bare(TOKENIZES),
  "tokenizer-cache-l0-max-entries": one("10000", TOKENIZES),
  "tokenizer-cache-enable-l1": bare(TOKENIZES),
  "tokenizer-cache-l1-max-memory": one("52428800", TOKENIZES),
  "reasoning-parser": one(undefined, PARSES),
  "tool-call-parser": one(undefined, PARSES),
  "mcp-config-path": one(
    undefined,
    refused("tools of MCP servers are not called here: let the client call them"),
  ),
  "backend": one("sglang", refused("workers must speak HTTP as sglang, vllm or openai do"), {
    values: {
      sglang: honoured("asked from the workers"),
      vllm: honoured("asked from the workers"),
      openai: honoured("any OpenAI-compatible server"),
    },
  }),
  "history-backend": one("memory", NO_STORE, {
    values: {
      none: honoured("conversations are not stored"),
      memory: noted("conversations are not stored, as with none"),
    },
  }),
  "oracle-wallet-path": one(undefined, NO_STORE),
  "oracle-tns-alias": one(undefined, NO_STORE),
  "oracle-connect-descriptor": one(undefined, NO_STORE),
  "oracle-username": one(undefined, NO_STORE),
  "oracle-password": one(undefined, NO_STORE),
  "oracle-pool-min": one("1", NO_STORE),
  "oracle-pool-max": one("16", NO_STORE),
  "oracle-pool-timeout-secs": one("30", NO_STORE),
  "postgres-db-url": one(undefined, NO_STORE),
  "postgres-pool-max": one("16", NO_STORE),
  "redis-url": one(undefined, NO_STORE),
  "redis-pool-max": one("16", NO_STORE),
  "redis-retention-days": one("30", NO_STORE),
  "client-cert-path": one(undefined, honoured("our certificate for workers", "server.worker_tls.cert")),
  "client-key-path": one(undefined, honoured("its key", "server.worker_tls.key")),
  "ca-cert-paths": any(
    honoured("authorities of workers' certificates, besides the system's", "server.worker_tls.ca", "list"),
  ),
  "tls-cert-path": one(
    undefined,
    honoured("certificate of this server; read again when it changes", "server.tls.cert"),
  ),
  "tls-key-path": one(undefined, honoured("its key", "server.tls.key")),
  "enable-trace": bare(honoured("spans of requests go to a collector, by OTLP over gRPC")),
  "otlp-traces-endpoint": one("localhost:4317", honoured("the collector; with --enable-trace")),
  "api-key": one(undefined, honoured("bearer token that clients must send, and that workers get")),
  "control-plane-api-keys": any(
    honoured("bearer tokens for changes to the router: those of role admin; user ones may change nothing"),
  ),
  "control-plane-audit-enabled": bare(honoured("each change is logged, with a part of its key's hash")),
  "jwt-issuer": one(undefined, NO_JWT),
  "jwt-audience": one(undefined, NO_JWT),
  "jwt-jwks-uri": one(undefined, NO_JWT),
  "jwt-role-mapping": any(NO_JWT),
};
