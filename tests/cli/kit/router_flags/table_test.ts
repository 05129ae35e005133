import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { test } from "node:test";
import { UsageError } from "../../../../cli/kit/args.ts";
import { configOfFlags } from "../../../../cli/kit/router_flags/config_of_flags.ts";
import { dropInTables } from "../../../../cli/kit/router_flags/drop_in_table.ts";
import { readRouterFlags } from "../../../../cli/kit/router_flags/read_flags.ts";
import { SGLANG_ROUTER_FLAGS } from "../../../../cli/kit/router_flags/sglang_router.ts";
import { SMG_FLAGS } from "../../../../cli/kit/router_flags/smg.ts";
import { ROUTER_FLAGS } from "../../../../cli/kit/router_flags/table.ts";
import { configSchema } from "../../../../cfgs/schema/config.ts";
import { type HelpFlag, peerFlags } from "./peer_help.ts";

const shape = ({ name, arity, there }: HelpFlag) => ({ name, arity, there });
const declared = (flags: typeof ROUTER_FLAGS) =>
  Object.entries(flags).map(([name, { arity, there }]) => ({ name, arity, there }));
const byName = (a: { name: string }, b: { name: string }) => a.name < b.name ? -1 : 1;

test("all 98 flags of sglang-router 0.3.2 are declared, with its arities and defaults", () => {
  const theirs = peerFlags("sglang-router-0.3.2");
  assert.equal(theirs.length, 98);
  assert.deepEqual(declared(SGLANG_ROUTER_FLAGS).sort(byName), theirs.map(shape).sort(byName));
});

test("all 124 further spellings of smg 1.13.0 are declared, with its arities and defaults", () => {
  const theirs = peerFlags("smg-1.13.0");
  const further = theirs.filter(({ name }) => !Object.hasOwn(SGLANG_ROUTER_FLAGS, name));
  const spellings = theirs.flatMap(({ name, aliases }) => [name, ...aliases]).filter((name) =>
    !Object.hasOwn(SGLANG_ROUTER_FLAGS, name)
  );
  assert.equal(spellings.length, 124);
  assert.deepEqual(declared(SMG_FLAGS).sort(byName), further.map(shape).sort(byName));
  for (const { name, aliases } of theirs) {
    assert.deepEqual(ROUTER_FLAGS[name]?.aliases ?? [], aliases, name);
  }
});

/** A value of every flag that it takes by itself. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  "host": ["127.0.0.1"],
  "worker-urls": ["http://a:1", "http://b:1"],
  "policy": ["round_robin"],
  "prefill-policy": ["round_robin"],
  "decode-policy": ["round_robin"],
  "prefill": ["http://a:1", "8998"],
  "decode": ["http://a:1"],
  "log-level": ["warn"],
  "log-dir": ["logs"],
  "selector": ["app=a", "tier=b"],
  "prefill-selector": ["app=a"],
  "decode-selector": ["app=a"],
  "service-discovery-namespace": ["default"],
  "prometheus-host": ["::"],
  "request-id-headers": ["x-a", "x-b"],
  "cors-allowed-origins": ["https://a.example", "https://b.example"],
  "retry-jitter-factor": ["0.5"],
  "health-check-endpoint": ["/health_generate"],
  "backend": ["openai"],
  "history-backend": ["none"],
  "client-cert-path": ["c.pem"],
  "client-key-path": ["k.pem"],
  "ca-cert-paths": ["a.pem", "b.pem"],
  "tls-cert-path": ["c.pem"],
  "tls-key-path": ["k.pem"],
  "api-key": ["sk"],
  "tenant-api-key": ["a:sk"],
  "control-plane-api-keys": ["k1:Ops Team:admin:s:1", "k2:Read:user:s2"],
  "discovery-provider": ["kubernetes"],
  "kubernetes-api": ["http://127.0.0.1:8001"],
  "set": ["server.max_runs_kept=7"],
};
/** Flags that mean nothing without others. */
const BESIDE: Readonly<Record<string, readonly string[]>> = {
  "prefill": ["--decode", "http://b:1"],
  "decode": ["--prefill", "http://b:1"],
  "service-discovery": ["--selector", "app=a"],
  "discovery-provider": ["--selector", "app=a"],
  "selector": ["--service-discovery"],
  "prefill-selector": ["--service-discovery", "--pd-disaggregation", "--decode-selector", "app=d"],
  "decode-selector": ["--service-discovery", "--pd-disaggregation", "--prefill-selector", "app=d"],
  "tls-cert-path": ["--tls-key-path", "k.pem"],
  "tls-key-path": ["--tls-cert-path", "c.pem"],
  "client-cert-path": ["--client-key-path", "k.pem"],
  "client-key-path": ["--client-cert-path", "c.pem"],
  "otlp-traces-endpoint": ["--enable-trace"],
};

function read(...args: string[]) {
  return configOfFlags(readRouterFlags(args, { env: {} }));
}

test("every flag is in effect, or noted in one line, or refused in one sentence; the configuration it makes is valid", () => {
  for (const [name, { verdict, there, arity }] of Object.entries(ROUTER_FLAGS)) {
    const values = arity === "none" ? [] : VALUES[name] ?? [there ?? "7"];
    const args = [`--${name}`, ...values, ...BESIDE[name] ?? []];
    assert.ok(verdict.says.length > 5, `${name} says what becomes of it`);
    if (verdict.kind === "refused" && ROUTER_FLAGS[name]?.values?.[values[0] ?? ""] === undefined) {
      assert.throws(() => read(...args), new UsageError(`Option --${name}: ${verdict.says}`));
      continue;
    }
    const { value, notes } = read(...args);
    assert.deepEqual(notes, verdict.kind === "noted" ? [`Option --${name}: ${verdict.says}`] : [], name);
    assert.doesNotThrow(() => configSchema.parse(value), name);
  }
});

test("--enable-trace sends spans over gRPC to the peers' default collector, or to another one; alone an endpoint does nothing and says so", () => {
  const tracing = (...args: string[]) =>
    (read(...args).value["server"] as Record<string, unknown>)["tracing"];
  assert.deepEqual(tracing("--enable-trace"), { otlp_endpoint: "http://localhost:4317", protocol: "grpc" });
  assert.deepEqual(tracing("--enable-trace", "--otlp-traces-endpoint", "https://collector:1"), {
    otlp_endpoint: "https://collector:1",
    protocol: "grpc",
  });
  assert.equal(tracing("--otlp-traces-endpoint", "collector:1"), undefined);
  assert.deepEqual(read("--otlp-traces-endpoint", "collector:1").notes, [
    "Option --otlp-traces-endpoint: no spans are sent without --enable-trace: add it",
  ]);
});

test("no flag about security is only noted", () => {
  const security = /^(?:tls|client|ca|jwt|mesh-tls|trust|tenant-api)-|api-key/;
  const noted = Object.entries(ROUTER_FLAGS).filter(([name, { verdict }]) =>
    security.test(name) && verdict.kind === "noted"
  );
  assert.deepEqual(noted, []);
});

test("without flags the peers' defaults hold where their users would notice", () => {
  const { server, fleet } = configSchema.parse(read().value);
  assert.equal(`${server.host}:${server.port}`, "0.0.0.0:30000");
  assert.deepEqual(
    [server.max_body_bytes, server.max_queued, server.queue_timeout_ms, server.drain_timeout_ms],
    [512 * 1024 * 1024, 100, 60_000, 180_000],
  );
  assert.deepEqual(server.metrics, { host: "0.0.0.0", port: 29_000, required: false });
  const model = fleet?.model;
  assert.equal(model?.retries, 4, "five attempts in all");
  assert.deepEqual(model?.breaker, { failures: 10, successes: 3, open_ms: 60_000 });
  assert.deepEqual(model?.health, {
    enabled: true,
    interval_ms: 60_000,
    timeout_ms: 5_000,
    failures: 3,
    successes: 2,
  });
  assert.equal(model?.first_token_timeout_ms, 1_800_000);
});

test("values become settings", () => {
  const settings = (...args: string[]) => configSchema.parse(read(...args).value);
  assert.equal(settings("--retry-max-retries", "3").fleet?.model.retries, 2);
  assert.equal(settings("--disable-retries").fleet?.model.retries, 0);
  assert.equal(settings("--retry-max-retries=1").fleet?.model.retries, 0);
  assert.equal(settings("--max-concurrent-requests", "64").server.max_running, 64);
  assert.equal(settings("--disable-circuit-breaker").fleet?.model.breaker.failures, Number.MAX_SAFE_INTEGER);
  assert.equal(settings("--disable-health-check").fleet?.model.health.enabled, false);
  assert.equal(settings("--cb-timeout-duration-secs", "1.5").fleet?.model.breaker.open_ms, 1_500);
  assert.deepEqual(settings("--worker-urls", "http://a:1", "http://b:2").fleet?.workers, [
    "http://a:1",
    "http://b:2",
  ]);
  assert.deepEqual(
    settings(
      "--pd-disaggregation",
      "--prefill",
      "http://p:1",
      "none",
      "--prefill",
      "http://q:1",
      "9000",
      "--decode",
      "http://d:1",
    )
      .fleet?.workers,
    [
      { url: "http://p:1", role: "prefill", bootstrap_port: undefined },
      { url: "http://q:1", role: "prefill", bootstrap_port: 9000 },
      { url: "http://d:1", role: "decode" },
    ],
  );
  const keyed = settings("--api-key", "sk");
  assert.deepEqual([keyed.server.api_keys, keyed.server.admin_keys, keyed.fleet?.model.api_key], [["sk"], [
    "sk",
  ], "sk"]);
  const split = settings(
    "--api-key",
    "sk",
    "--control-plane-api-keys",
    "1:Ops EU:admin:s",
    "2:Ops:admin:a:b",
    "3:R:user:u",
  );
  assert.deepEqual(split.server.admin_keys, ["s", "a:b"]);
  assert.deepEqual(settings("--log-level", "warn").server.log_level, "warning");
});

test("the first words of a flag stand for it where no other begins so, as argparse has it", () => {
  assert.deepEqual(read("--eviction-interval", "60").notes.length, 1);
  const { fleet } = configSchema.parse(read("--request-timeout", "5", "--cb-failure", "2").value);
  assert.deepEqual([fleet?.model.first_token_timeout_ms, fleet?.model.breaker.failures], [5_000, 2]);
  for (const ambiguous of ["--health-check", "--worker", "--polic"]) {
    assert.throws(() => read(ambiguous, "1"), /Unknown option/);
  }
});

test("what cannot be meant is refused, with the nearest name", () => {
  const refused = (pattern: RegExp, ...args: string[]) => assert.throws(() => read(...args), pattern);
  refused(
    /Unknown option --max-concurent-requests: did you mean --max-concurrent-requests\?/,
    "--max-concurent-requests",
    "4",
  );
  refused(/Option --port must be a whole number.*"x"/, "--port", "x");
  refused(/Option --policy must be one of .*"nonsense"/, "--policy", "nonsense");
  refused(/Option --policy needs a value/, "--policy", "--host", "::");
  refused(/Option --dp-aware takes no value/, "--dp-aware=1");
  refused(/Unexpected argument "canopy.jsonc"/, "--enable-igw", "canopy.jsonc");
  refused(/--tls-key-path is needed with --tls-cert-path/, "--tls-cert-path", "c.pem");
  refused(/must begin with http.*"gpu1:30000"/, "--worker-urls", "gpu1:30000");
  refused(/Workers speak HTTP here: start grpc:\/\/a:1/, "--worker-urls", "grpc://a:1");
  refused(/names whole servers/, "--worker-urls", "http://a:1", "--pd-disaggregation");
  refused(/must look like ID:NAME:ROLE:KEY/, "--control-plane-api-keys", "secret");
  refused(/needs a key of role admin/, "--control-plane-api-keys", "1:R:user:u");
  refused(/--records and --no-records exclude each other/, "--records", "runs.sqlite", "--no-records");
  refused(/Option --selector is needed with --service-discovery/, "--service-discovery");
  refused(
    /a URL and a bootstrap port or none.*"http:\/\/a:1 http:\/\/b:1"/,
    "--prefill",
    "http://a:1",
    "http://b:1",
  );
});

test("an environment variable stands for a flag that is not given", () => {
  const flags = readRouterFlags(["--port", "1"], {
    env: {
      CANOPY_ROUTER_WORKER_URLS: "http://a:1 http://b:1",
      CANOPY_ROUTER_PORT: "2",
      CANOPY_ROUTER_DISABLE_RETRIES: "true",
      CANOPY_ROUTER_ENABLE_TRACE: "0",
    },
  });
  const { server, fleet } = configSchema.parse(configOfFlags(flags).value);
  assert.equal(server.port, 1);
  assert.deepEqual(fleet?.workers, ["http://a:1", "http://b:1"]);
  assert.equal(fleet?.model.retries, 0);
  assert.deepEqual(flags.notes, []);
  const pair = readRouterFlags([], {
    env: {
      CANOPY_ROUTER_PREFILL: "http://p:1 8998, http://q:1",
      CANOPY_ROUTER_DECODE: "http://d:1,http://e:1",
    },
  });
  assert.deepEqual(pair.given.get("prefill"), [["http://p:1", "8998"], ["http://q:1"]]);
  assert.deepEqual(pair.given.get("decode"), [["http://d:1"], ["http://e:1"]]);
});

test("docs/drop-in.md shows what is declared (CANOPY_WRITE_DOCS=1 writes it)", () => {
  const path = new URL("../../../../docs/drop-in.md", import.meta.url);
  const text = readFileSync(path, "utf8");
  const begin = "<!-- flags: made of cli/kit/router_flags by tests/cli/kit/router_flags/table_test.ts -->\n";
  const end = "<!-- end of flags -->\n";
  const [before, rest] = text.split(begin);
  const [shown, after] = (rest ?? "").split(end);
  const made = `\n${dropInTables()}\n`;
  if (process.env.CANOPY_WRITE_DOCS === "1") writeFileSync(path, `${before}${begin}${made}${end}${after}`);
  else assert.equal(shown, made);
});
