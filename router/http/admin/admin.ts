import { Hono } from "hono";
import { type EffectiveValue, effectiveValues } from "../../../cfgs/load/effective.ts";
import type { Provenance } from "../../../cfgs/load/load.ts";
import type { ConfigPath } from "../../../cfgs/schema/config_path.ts";
import { queryFlag } from "../gate/query_flag.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { shownSecret } from "../../../cfgs/schema/secrets.ts";
import { MetricsText } from "../../../base/prometheus.ts";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import { naming } from "../gate/naming.ts";
import type { HttpServices } from "../gate/services.ts";
import { Metrics } from "../metrics/metrics.ts";
import { writeWorkerMetrics } from "../metrics/worker_metrics.ts";
import type { WorkerStatus } from "../../pool/worker.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Metrics for an operator's tools, and the configuration in effect for the operator. */
export function adminRoutes(http: HttpServices): Hono<Env> {
  return new Hono<Env>().get(
    "/metrics",
    guarded(http, "api", { summary: "Metrics in Prometheus' text format.", contentType: "text/plain" }),
    async (call) =>
      call.body(await routerMetrics(http, naming(http, call)), 200, {
        "content-type": "text/plain; version=0.0.4; charset=utf-8",
      }),
  ).get(
    "/v1/config",
    guarded(http, "control", {
      summary: "The configuration in effect, its secrets hidden.",
      query: { origins: "true: a list of its values, each with its path, and where it comes from" },
    }),
    (call) => {
      if (queryFlag(call, "origins")) return call.json({ object: "list", data: originsInEffect(http) });
      return call.json(JSON.parse(JSON.stringify(shownSecret(configInEffect(http), []))));
    },
  );
}

/** Every value of the configuration, as `path`, `value` and `origin`. */
function originsInEffect(http: HttpServices): EffectiveValue[] {
  const { origins, config: { models } } = http;
  const provenance = (path: ConfigPath): Provenance => {
    const [section, name] = path;
    const learned = section === "models" && typeof name === "string" && !Object.hasOwn(models, name);
    if (learned) return { kind: "value", name: "learned from its workers" };
    return origins?.of(path) ?? { kind: "value", name: "the program" };
  };
  return effectiveValues({ config: configInEffect(http), provenance });
}

/** The configuration with the models that were learned from workers. */
function configInEffect({ config, models }: HttpServices): Config {
  const learned = [...models.values()].map(({ name, config }) => [name, config] as const);
  return { ...config, models: { ...Object.fromEntries(learned), ...config.models } };
}

/** All metrics in Prometheus' text format, those of other threads added. */
export async function routerMetrics(
  http: Pick<
    HttpServices,
    "clock" | "metrics" | "drain" | "admission" | "models" | "threadCounts" | "keyStore"
  >,
  nameOf: (worker: WorkerStatus) => string,
): Promise<string> {
  const text = new MetricsText();
  const threads = await http.threadCounts?.() ?? [];
  if (threads.length === 0) http.metrics.write(text);
  else {
    const all = new Metrics(http.clock, http.metrics.reloads);
    for (const metrics of [http.metrics.values(), ...threads.map((thread) => thread.metrics)]) {
      all.absorb(metrics);
    }
    all.write(text);
    text.gauge("canopy_threads", "Threads that serve.", threads.filter(({ alive }) => alive).length);
  }
  const inFlight = threads.reduce((sum, { requestsInFlight }) => sum + requestsInFlight, http.drain.inFlight);
  text.gauge("canopy_requests_in_flight", "Requests that are being served.", inFlight);
  text.gauge("canopy_places_in_use", "Runs and relayed requests that hold a place.", http.admission.running);
  text.gauge("canopy_requests_queued", "Requests that wait for a place.", http.admission.waiting);
  const places = [http.admission.counts, ...threads.map((thread) => thread.places)];
  text.counter("smg_http_rate_limit_total", "Requests that got a place, and those turned away.", [
    [{ result: "allowed" }, places.reduce((sum, { allowed }) => sum + allowed, 0)],
    [{ result: "rejected" }, places.reduce((sum, { rejected }) => sum + rejected, 0)],
  ]);
  const stores = [http.keyStore?.isHere, ...threads.map(({ keyStoreUp }) => keyStoreUp)]
    .filter((up) => up !== undefined);
  if (stores.length > 0) {
    const what = "1 while the store in which replicas count what keys use answers all threads.";
    text.gauge("canopy_key_store_up", what, stores.every((up) => up) ? 1 : 0);
  }
  writeWorkerMetrics(text, http.models.values(), nameOf);
  text.gauge(
    "canopy_tokenizer",
    "1 for who makes the tokens of a model's prompts: the router, or its engine, which is asked ahead or never.",
    (threads[0]?.tokensBy ?? tokenMakers(http.models)).map(([model, by]) => [{ model, by }, 1] as const),
  );
  return text.toString();
}

/** By model: who makes the tokens of its prompts. */
export function tokenMakers(models: ReadonlyMap<string, ServedModel>): [model: string, by: string][] {
  return [...models.values()].map((model) => [model.name, tokensBy(model)]);
}

function tokensBy({ tokenizer, askTokens }: ServedModel): "router" | "engine_asked" | "engine" {
  if (tokenizer !== undefined) return "router";
  return askTokens === undefined ? "engine" : "engine_asked";
}
