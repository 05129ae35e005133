import { deadlineSignal } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";
import { readText } from "../../base/read_body.ts";
import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import { type ModelConfig, modelSchema } from "../../cfgs/schema/config.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand, type OptionValues } from "../kit/command.ts";
import { OVERRIDE_OPTIONS, overridesOf } from "../kit/config_file.ts";
import type { Io } from "../kit/io.ts";
import { serveLoaded } from "../kit/router/serve_loaded.ts";
import { workerUrl } from "../../router/worker/worker_access.ts";

/** Time between two questions to servers that are still starting. */
const ASK_AGAIN_MS = 1_000;
/** Longest wait for one answer. */
const ANSWER_MS = 5_000;
/** Longest answer that is read. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
/** SGLang's routers listen here. */
const PORT = 30_000;

const SECONDS = { type: "number", value: "SECONDS", min: 0, fraction: true } as const;
const COUNT = { type: "number", value: "N", min: 1 } as const;

const POLICIES = modelSchema.shape.policy.unwrap().options;
/** Stands in for policies that are not known here. */
const POLICY = "cache_aware";

const options = {
  "pd-disaggregation": { type: "flag", help: "Serve prefill and decode servers, without a configuration" },
  prefill: {
    type: "list",
    value: "URL [PORT]",
    second: /^(?:\d+|none)$/,
    help: "A prefill server and its bootstrap port",
  },
  decode: { type: "list", value: "URL", help: "A decode server" },
  policy: { type: "text", value: "NAME", help: `${POLICIES.join(" or ")}; others are named, and not used` },
  host: OVERRIDE_OPTIONS.host,
  port: { ...OVERRIDE_OPTIONS.port, help: `Port to listen on (${PORT}); 0: any` },
  "api-key": { type: "text", value: "KEY", help: "Bearer token of the servers" },
  "worker-startup-timeout-secs": { ...SECONDS, help: "Longest wait for a first server at the start (1800)" },
  "request-timeout-secs": { ...SECONDS, help: "Longest wait for a first token (1800)" },
  "max-concurrent-requests": {
    type: "number",
    value: "N",
    min: -1,
    help: "Requests that run at once (4096)",
  },
  "queue-size": { type: "number", value: "N", min: 0, help: "Requests that may wait for a place" },
  "queue-timeout-secs": { ...SECONDS, help: "Longest wait for a place" },
  "max-payload-size": { ...COUNT, value: "BYTES", help: "Largest request body" },
  "retry-max-retries": { type: "number", value: "N", min: 0, help: "Further attempts before the first byte" },
  "disable-retries": { type: "flag", help: "No further attempts" },
  "cb-failure-threshold": { ...COUNT, help: "Failures in a row that open a server's breaker" },
  "cb-timeout-duration-secs": { ...SECONDS, help: "Time until one request may try an open breaker" },
  "health-check-interval-secs": { ...SECONDS, help: "Time between two health checks" },
  "health-check-timeout-secs": { ...SECONDS, help: "Longest wait for a health check" },
  "health-failure-threshold": { ...COUNT, help: "Bad checks in a row that take a server out" },
  "health-success-threshold": { ...COUNT, help: "Good checks in a row that bring it back" },
  "log-level": { type: "text", value: "LEVEL", help: "trace, debug, info, warning, error or fatal" },
  set: OVERRIDE_OPTIONS.set,
} as const;

/** `canopy serve --pd-disaggregation`: in the place of SGLang's own routers, with their options. */
export const servePdCommand = defineCommand({
  name: "serve",
  summary: "Serve SGLang prefill and decode servers, any with any",
  maxArguments: 0,
  options,
  skipsUnknown: true,
  details:
    `The model's name is asked from the servers. Options of SGLang's routers that mean nothing here are named and
skipped.

Example:
  canopy serve --pd-disaggregation --prefill http://gpu1:30000 8998 --decode http://gpu2:30000 --port 8000`,
  run: async (values, _, io) => {
    const prefills = values.prefill.map(prefillOf);
    if (prefills.length === 0) throw new UsageError("Option --prefill is needed: name a prefill server");
    if (values.decode.length === 0) throw new UsageError("Option --decode is needed: name a decode server");
    const servers = [...prefills.map((one) => one.prefill), ...values.decode];
    for (const url of servers) {
      if (!/^https?:\/\/./.test(url) || !URL.canParse(url)) {
        throw new UsageError(`A server's URL must begin with http:// or https://: current value is "${url}"`);
      }
    }
    if (values.policy !== undefined && policyOf(values.policy) === undefined) {
      io.err.write(
        `Option --policy ${values.policy} is not known here: ${POLICY} is used instead (known: ${
          POLICIES.join(", ")
        })\n`,
      );
    }
    const name = await modelName(servers, values, io);
    const loaded = loadCheckedConfig({
      value: configOf(name, prefills, values),
      path: "the command line",
      env: io.env,
      overrides: overridesOf({ ...values, "base-port": undefined }),
    });
    return await serveLoaded(loaded, io);
  },
});

type Values = OptionValues<typeof options>;

interface Prefill {
  readonly prefill: string;
  readonly bootstrap_port?: number;
}

function prefillOf(text: string): Prefill {
  const [prefill = "", port = "none"] = text.split(" ");
  return port === "none" ? { prefill } : { prefill, bootstrap_port: Number(port) };
}

function configOf(name: string, prefills: readonly Prefill[], values: Values): unknown {
  const many = Math.max(prefills.length, values.decode.length);
  const workers = Array.from({ length: many }, (_, i) => ({
    ...prefills[i % prefills.length],
    decode: values.decode[i % values.decode.length] ?? "",
  }));
  const running = values["max-concurrent-requests"] ?? -1;
  return {
    server: {
      port: PORT,
      max_running: running > 0 ? running : 4_096,
      max_queued: values["queue-size"],
      queue_timeout_ms: ms(values["queue-timeout-secs"]),
      max_body_bytes: values["max-payload-size"],
      log_level: levelOf(values["log-level"]),
    },
    models: {
      [name]: {
        model: name,
        engine: "sglang-pd",
        workers,
        api_key: values["api-key"],
        policy: policyOf(values.policy) ?? POLICY,
        // The servers have queues of their own; what must not wait in them waits for the pairs' windows here.
        max_in_flight: 4_096,
        first_token_timeout_ms: ms(values["request-timeout-secs"] ?? 1_800),
        retries: values["disable-retries"] ? 0 : values["retry-max-retries"],
        health: {
          interval_ms: ms(values["health-check-interval-secs"]),
          timeout_ms: ms(values["health-check-timeout-secs"]),
          failures: values["health-failure-threshold"],
          successes: values["health-success-threshold"],
        },
        breaker: {
          failures: values["cb-failure-threshold"],
          open_ms: ms(values["cb-timeout-duration-secs"]),
        },
      },
    },
  };
}

function policyOf(text: string | undefined): ModelConfig["policy"] | undefined {
  return POLICIES.find((name) => name === text);
}

function ms(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1_000;
}

/** Python's and Rust's spellings, too. */
function levelOf(text: string | undefined): string | undefined {
  const level = text?.toLowerCase();
  return level === "warn" ? "warning" : level === "critical" ? "fatal" : level;
}

/** The first name that a server gives its model; servers that are still starting are asked again. */
async function modelName(servers: readonly string[], values: Values, io: Io): Promise<string> {
  const limitMs = (values["worker-startup-timeout-secs"] ?? 1_800) * 1_000;
  const untilMs = io.clock.now() + limitMs;
  for (let told = false;; told = true) {
    for (const url of servers) {
      const name = await askModel(url, values["api-key"], io);
      if (name !== undefined) return name;
      io.stop.throwIfAborted();
    }
    if (io.clock.now() >= untilMs) break;
    if (!told) io.out.write(`Waiting for a server to name its model: ${servers.join(", ")}\n`);
    await io.clock.sleep(ASK_AGAIN_MS, io.stop);
  }
  throw new CanopyError(
    `No server named its model within ${limitMs / 1_000} s: ${servers.join(", ")}; see that they run`,
    { code: "worker_unreachable", status: 502 },
  );
}

async function askModel(url: string, apiKey: string | undefined, io: Io): Promise<string | undefined> {
  const late = new Error(`${url} did not answer`);
  const { signal, release } = deadlineSignal(io.clock, ANSWER_MS, late, io.stop);
  try {
    const response = await io.transport.send({
      method: "GET",
      url: workerUrl(url, "/v1/models"),
      lane: "control",
      headers: apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` },
      connectTimeoutMs: ANSWER_MS,
    }, signal);
    const list: unknown = JSON.parse(await readText(response.body, MAX_ANSWER_BYTES, "its list of models"));
    const data = isJsonObject(list) && Array.isArray(list.data) ? list.data : [];
    const first = data.find(isJsonObject);
    return typeof first?.id === "string" ? first.id : undefined;
  } catch {
    return undefined;
  } finally {
    release();
  }
}
