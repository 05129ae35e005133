import { nearest } from "../../../base/nearest.ts";
import type { Override } from "../../../cfgs/load/overrides.ts";
import { DEFAULT_POLICY, POLICY_NAMES, type PolicyName } from "../../../cfgs/schema/policies.ts";
import { readNumber, UsageError } from "../args.ts";
import { setOverrides } from "../config_file.ts";
import type { GivenFlags } from "./read_flags.ts";
import type { ValueForm } from "./router_flag.ts";
import { ROUTER_FLAGS } from "./table.ts";

/** Pods whose servers join the router, by Kubernetes labels. */
export interface PodSelectors {
  /** Labels of whole servers; empty in front of pairs. */
  readonly whole: readonly string[];
  readonly prefill: readonly string[];
  readonly decode: readonly string[];
  readonly port: number;
  /** All namespaces when undefined. */
  readonly namespace: string | undefined;
}

/** The configuration that a router's flags stand for. */
export interface FlagConfig {
  /** In Canopy's format, unchecked. */
  readonly value: Settings;
  /** From `--set`. */
  readonly overrides: readonly Override[];
  readonly pods: PodSelectors | undefined;
  /** The cluster's API server, if it was named. */
  readonly kubernetesApi: string | undefined;
  /** One line for each thing that is not as asked. */
  readonly notes: readonly string[];
}

interface Settings {
  [name: string]: unknown;
}

/** Stands for "no limit" where a number is needed. */
const NO_LIMIT = 1_000_000;
/** Requests of one server: the servers have queues of their own, and the sockets to each are as many. */
const MAX_IN_FLIGHT = 4_096;

/**
 * Makes a configuration of flags, with the peers' defaults where none was given, or (`onlyGiven`) without. Throws
 * `UsageError`.
 */
export function configOfFlags(flags: GivenFlags, { onlyGiven = false } = {}): FlagConfig {
  const notes = [...flags.notes];
  const reader = new FlagReader(flags, onlyGiven);
  const value: Settings = {};
  for (const [name, { verdict, there }] of Object.entries(ROUTER_FLAGS)) {
    const setting = verdict.kind === "honoured" ? verdict.setting : undefined;
    if (setting === undefined) continue;
    const given = reader.has(name)
      ? reader.read(name, setting.form)
      : reader.byDefault(defaultOf(there, setting.form));
    if (given !== undefined) put(value, setting.path, given);
  }
  const level = reader.text("log-level") ?? reader.byDefault("info");
  put(value, "server.log_level", level === undefined ? undefined : logLevel(level));
  if (reader.has("log-json")) put(value, "server.log_format", "json");
  if (reader.has("control-plane-audit-enabled")) put(value, "server.audit", true);
  const workers = reader.text("workers");
  put(value, "server.workers", workers === "auto" ? workers : reader.count("workers", 1));
  if (reader.has("no-page")) put(value, "server.page", false);
  put(value, "server.reports", reader.text("reports"));
  putRecords(value, reader);
  putLimits(value, reader);
  putKeys(value, reader);
  putModel(value, reader, notes);
  putTracing(value, reader, notes);
  if (!onlyGiven || reader.has("prometheus-port") || reader.has("prometheus-host")) {
    put(value, "server.metrics", {
      host: reader.text("prometheus-host") ??
        (reader.text("host")?.includes(":") === true ? "::" : "0.0.0.0"),
      port: reader.count("prometheus-port", 0) ?? 29_000,
      required: reader.has("prometheus-port"),
    });
  }
  const pods = podsOf(reader);
  const servers = workersOf(reader, pods !== undefined);
  put(value, "fleet.workers", reader.byDefault(servers));
  const backend = reader.text("backend");
  if (backend === "openai") put(value, "fleet.engine", backend);
  checkTogether(reader, "tls-cert-path", "tls-key-path");
  checkTogether(reader, "client-cert-path", "client-key-path");
  return {
    value,
    overrides: setOverrides(reader.values("set").map(([text = ""]) => text)),
    pods,
    kubernetesApi: reader.text("kubernetes-api"),
    notes,
  };
}

function putRecords(value: Settings, reader: FlagReader): void {
  const file = reader.text("records");
  const keepsNothing = reader.has("no-records");
  if (file !== undefined && keepsNothing) {
    throw new UsageError("--records and --no-records exclude each other");
  }
  put(value, "server.records.file", file);
  if (keepsNothing) put(value, "server.records.keep", false);
}

function putLimits(value: Settings, reader: FlagReader): void {
  const running = reader.count("max-concurrent-requests", -1) ?? reader.byDefault(-1);
  put(value, "server.max_running", running === undefined || running > 0 ? running : NO_LIMIT);
  put(value, "model.max_in_flight", reader.byDefault(MAX_IN_FLIGHT));
  const window = reader.count("prefill-max-inflight-requests-per-worker") ?? -1;
  if (window > 0) put(value, "model.pair_window", window);
  const requestSeconds = reader.number("request-timeout-secs") ?? reader.byDefault(1_800);
  for (const limit of ["first_token_timeout_ms", "idle_timeout_ms"]) {
    put(value, `model.${limit}`, requestSeconds === undefined ? undefined : requestSeconds * 1_000);
  }
  const attempts = reader.has("disable-retries")
    ? 1
    : reader.count("retry-max-retries", 0) ?? reader.byDefault(5);
  put(value, "model.retries", attempts === undefined ? undefined : Math.max(0, attempts - 1));
  if (reader.has("disable-circuit-breaker")) put(value, "model.breaker.failures", Number.MAX_SAFE_INTEGER);
  if (reader.has("dp-aware")) put(value, "model.dp_aware", true);
  if (reader.has("disable-health-check")) put(value, "model.health.enabled", false);
  const path = reader.text("health-check-endpoint");
  if (path !== undefined) put(value, "model.health.path", path.startsWith("/") ? path : `/${path}`);
}

/** One key guards all where there is no other for changes to the router; who holds such a key may add any worker. */
function putKeys(value: Settings, reader: FlagReader): void {
  const key = reader.text("api-key");
  const tenants = reader.values("tenant-api-key").map(([text = ""]) => {
    const [, tenant] = /^[^:]+:(.+)$/.exec(text) ?? [];
    if (tenant === undefined) throw new UsageError("Option --tenant-api-key must look like TENANT:KEY");
    return tenant;
  });
  const roles = reader.values("control-plane-api-keys").flat().map((text) => {
    const [, role, own] = /^[^:]*:[^:]*:(admin|user):(.+)$/.exec(text) ?? [];
    if (own === undefined) {
      throw new UsageError(
        "Option --control-plane-api-keys must look like ID:NAME:ROLE:KEY, ROLE admin or user",
      );
    }
    return { role, own };
  });
  const keys = [...(key === undefined ? [] : [key]), ...tenants];
  const admins = roles.filter(({ role }) => role === "admin").map(({ own }) => own);
  if (roles.length > 0 && admins.length === 0) {
    throw new UsageError(
      "Option --control-plane-api-keys needs a key of role admin: without one nobody may change anything",
    );
  }
  const changers = admins.length > 0 || key === undefined ? admins : [key];
  if (keys.length > 0) put(value, "server.api_keys", keys);
  if (changers.length > 0) {
    put(value, "server.admin_keys", changers);
    put(value, "server.worker_hosts", ["*"]);
  }
  if (key !== undefined) put(value, "model.api_key", key);
}

/** Peers speak gRPC to an address without a scheme. */
function putTracing(value: Settings, reader: FlagReader, notes: string[]): void {
  const address = reader.text("otlp-traces-endpoint");
  if (!reader.has("enable-trace")) {
    if (address !== undefined) {
      notes.push("Option --otlp-traces-endpoint: no spans are sent without --enable-trace: add it");
    }
    return;
  }
  const endpoint = address ?? "localhost:4317";
  put(value, "server.tracing.otlp_endpoint", /^https?:/.test(endpoint) ? endpoint : `http://${endpoint}`);
  put(value, "server.tracing.protocol", "grpc");
}

function putModel(value: Settings, reader: FlagReader, notes: string[]): void {
  put(value, "model.policy", policyOf(reader, "policy", notes) ?? reader.byDefault(DEFAULT_POLICY));
  for (const side of ["prefill", "decode"] as const) {
    const own = policyOf(reader, `${side}-policy`, notes);
    if (own !== undefined) put(value, `model.${side}_policy`, own);
  }
}

function policyOf(reader: FlagReader, flag: string, notes: string[]): PolicyName | undefined {
  const asked = reader.text(flag);
  if (asked === undefined) return undefined;
  const ours = POLICY_NAMES.find((name) => name === asked);
  if (ours !== undefined) return ours;
  // smg's name for a gateway that chooses nothing.
  if (asked === "passthrough") {
    notes.push(`Option --${flag} ${asked}: it is not here; ${DEFAULT_POLICY} is used`);
    return DEFAULT_POLICY;
  }
  const near = nearest(asked, POLICY_NAMES);
  throw new UsageError(
    `Option --${flag} must be one of ${POLICY_NAMES.join(", ")}: current value is "${asked}"` +
      (near === undefined ? "" : `; did you mean ${near}?`),
  );
}

function workersOf(reader: FlagReader, discovers: boolean): unknown[] {
  const whole = reader.values("worker-urls").flat();
  const prefills = reader.values("prefill").map(([url = "", port = "none", ...more]) => {
    if (more.length > 0 || !/^(?:\d+|none)$/i.test(port)) {
      throw new UsageError(
        `Option --prefill takes a URL and a bootstrap port or none: current value is "${
          [url, port, ...more].join(" ")
        }"`,
      );
    }
    return { url, role: "prefill", bootstrap_port: /^none$/i.test(port) ? undefined : Number(port) };
  });
  const decodes = reader.values("decode").map(([url = ""]) => ({ url, role: "decode" }));
  for (const url of [...whole, ...[...prefills, ...decodes].map((one) => one.url)]) checkUrl(url);
  if (!discovers && prefills.length > 0 && decodes.length === 0) {
    throw new UsageError("Option --decode is needed: name a decode server");
  }
  if (!discovers && decodes.length > 0 && prefills.length === 0) {
    throw new UsageError("Option --prefill is needed: name a prefill server");
  }
  if (whole.length > 0 && (decodes.length > 0 || inPairs(reader))) {
    throw new UsageError(
      "Option --worker-urls names whole servers: name pairs by --prefill and --decode instead",
    );
  }
  return [...whole, ...prefills, ...decodes];
}

function checkUrl(url: string): void {
  if (/^https?:\/\/./i.test(url) && URL.canParse(url)) return;
  if (/^(?:grpcs?|zmq|ipc|tcp):/i.test(url)) {
    throw new UsageError(`Workers speak HTTP here: start ${url} with its HTTP server`);
  }
  throw new UsageError(`A server's URL must begin with http:// or https://: current value is "${url}"`);
}

function inPairs(reader: FlagReader): boolean {
  return ["pd-disaggregation", "vllm-pd-disaggregation", "mini-lb"].some((flag) => reader.has(flag));
}

function podsOf(reader: FlagReader): PodSelectors | undefined {
  const labels = (flag: string) => {
    const all = reader.values(flag).flat();
    const wrong = all.find((label) => !/^[^=\s]+=[^=\s]*$/.test(label));
    if (wrong === undefined) return all;
    throw new UsageError(`Option --${flag} must look like KEY=VALUE: current value is "${wrong}"`);
  };
  const pods = {
    whole: labels("selector"),
    prefill: labels("prefill-selector"),
    decode: labels("decode-selector"),
    port: reader.count("service-discovery-port", 1, 65_535) ?? 80,
    namespace: reader.text("service-discovery-namespace"),
  };
  const given = pods.whole.length + pods.prefill.length + pods.decode.length;
  const asked = reader.has("service-discovery") || reader.text("discovery-provider") === "kubernetes";
  if (!asked) {
    if (given === 0) return undefined;
    throw new UsageError("Option --service-discovery is needed for the selectors: add it");
  }
  const needed = inPairs(reader) ? ["prefill-selector", "decode-selector"] : ["selector"];
  const missing = needed.find((flag) => !reader.has(flag));
  if (missing !== undefined) {
    throw new UsageError(`Option --${missing} is needed with --service-discovery: name the pods' labels`);
  }
  return inPairs(reader) ? { ...pods, whole: [] } : pods;
}

function checkTogether(reader: FlagReader, one: string, other: string): void {
  if (reader.has(one) === reader.has(other)) return;
  const [there, missing] = reader.has(one) ? [one, other] : [other, one];
  throw new UsageError(
    `Option --${missing} is needed with --${there}: a certificate and its key go together`,
  );
}

/** The spellings of peers, of Python and of Rust. */
function logLevel(text: string): string {
  const level = text.toLowerCase();
  const ours = level === "warn" ? "warning" : level === "critical" ? "fatal" : level;
  if (["trace", "debug", "info", "warning", "error", "fatal"].includes(ours)) return ours;
  throw new UsageError(`Option --log-level must be debug, info, warn or error: current value is "${text}"`);
}

/** The value that an absent flag stands for. */
function defaultOf(there: string | undefined, form: ValueForm): unknown {
  if (there === undefined || form === "list") return undefined;
  if (form === "text") return there;
  return form === "seconds" ? Number(there) * 1_000 : Number(there);
}

function put(value: Settings, path: string, leaf: unknown): void {
  if (leaf === undefined) return;
  const parts = path.replace(/^model\./, "fleet.model.").split(".");
  const last = parts.pop()!;
  let at = value;
  for (const part of parts) {
    const next = at[part];
    at = isSettings(next) ? next : at[part] = {};
  }
  at[last] = leaf;
}

function isSettings(value: unknown): value is Settings {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Reads the values of flags; throws `UsageError` for what is no number. */
class FlagReader {
  readonly #given: GivenFlags["given"];
  readonly #onlyGiven: boolean;

  constructor({ given }: GivenFlags, onlyGiven: boolean) {
    this.#given = given;
    this.#onlyGiven = onlyGiven;
  }

  /** The value for a flag that was not given; undefined where only given ones count. */
  byDefault<T>(value: T): T | undefined {
    return this.#onlyGiven ? undefined : value;
  }

  has(name: string): boolean {
    return this.#given.has(name);
  }

  /** The values of each time that the flag was given. */
  values(name: string): readonly (readonly string[])[] {
    return this.#given.get(name) ?? [];
  }

  text(name: string): string | undefined {
    return this.values(name).at(-1)?.[0];
  }

  count(name: string, min?: number, max?: number): number | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : readNumber(name, text, { min, max });
  }

  number(name: string): number | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : readNumber(name, text, { fraction: true });
  }

  read(name: string, form: ValueForm): unknown {
    if (form === "list") return this.values(name).flat();
    if (form === "text") return this.text(name);
    if (form === "count") return this.count(name);
    return (this.number(name) ?? 0) * (form === "seconds" ? 1_000 : 1);
  }
}
