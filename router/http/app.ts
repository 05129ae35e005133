import { Hono } from "hono";
import { cors } from "hono/cors";
import { methodNotAllowed } from "hono/method-not-allowed";
import { unixSeconds } from "../../base/clock.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Random } from "../../base/random.ts";
import { adminRoutes } from "./admin/admin.ts";
import { healthRoutes } from "./admin/health.ts";
import { workerRoutes } from "./admin/workers.ts";
import { messageRoutes } from "./anthropic/messages.ts";
import { type Admission, admissionOf } from "./gate/admission.ts";
import { arriving } from "./gate/arrival.ts";
import { Keys } from "./gate/auth.ts";
import type { Env } from "./gate/context.ts";
import { Drain } from "./gate/drain.ts";
import { KeyLimits } from "./gate/key_limits.ts";
import { errorResponse, notFound, wrongMethod } from "./gate/errors.ts";
import { guarded } from "./gate/route.ts";
import type { HttpServices, RouterServices } from "./gate/services.ts";
import { Sites } from "./gate/sites.ts";
import { graphRoutes } from "./graph/graph.ts";
import { Metrics } from "./metrics/metrics.ts";
import { ollamaRoutes } from "./ollama/ollama.ts";
import { inferenceRoutes } from "./openai/inference.ts";
import { modelRoutes } from "./openai/models.ts";
import { pageRoutes } from "./page/page_routes.ts";
import { openApiDocument } from "./openapi.ts";
import { refusedRoutes } from "./refused.ts";
import { reportRoutes } from "./reports/reports.ts";
import { responseRoutes } from "./responses/responses.ts";
import { runRoutes } from "./runs/runs.ts";
import { sglangNativeRoutes } from "./sglang/sglang_native.ts";
import type { Relay } from "../relay/relay_types.ts";
import type { KeyStore } from "../replicas/key_store.ts";
import { type KeyTable, LocalKeyTable } from "../shared/key_counts.ts";

/** Parts of the HTTP surface. */
export interface AppServices extends RouterServices {
  readonly relay: Relay;
  /** By default with the bounds of `config.server`. */
  readonly admission?: Admission | undefined;
  /** By default with the time-out of `config.server`; pass one in order to start the drain on SIGTERM. */
  readonly drain?: Drain | undefined;
  readonly metrics?: Metrics | undefined;
  /** What keys have used until now; by default nothing. */
  readonly keyTable?: KeyTable | undefined;
  /** What all replicas count together; without it each counts on its own. */
  readonly keyStore?: KeyStore | undefined;
  /** For ids of requests; by default a stream of `random`. */
  readonly ids?: Random | undefined;
  /** Start of the router, as unix time in seconds; by default now. */
  readonly startedAt?: number | undefined;
  readonly threadCounts?: HttpServices["threadCounts"];
  /** For /openapi.json. */
  readonly version?: string | undefined;
}

/** The router's HTTP surface: handlers only, no port. */
export function createApp(services: AppServices): Hono<Env> {
  const { clock, config, keyStore: store, metrics = new Metrics(clock) } = services;
  const { keyTable: table = new LocalKeyTable() } = services;
  const { limits } = config.server;
  const http: HttpServices = {
    ...services,
    random: services.ids ?? services.random.stream("http"),
    startedAt: services.startedAt ?? unixSeconds(clock),
    keys: new Keys(config.server),
    limits: limits && new KeyLimits({ limits, clock, table, store, metrics }),
    sites: new Sites(config.server),
    audit: config.server.audit,
    metrics,
    drain: services.drain ?? new Drain({ clock, timeoutMs: config.server.drain_timeout_ms }),
    admission: services.admission ?? admissionOf(config.server, clock),
  };
  const app = new Hono<Env>();
  app.onError((error, call) => {
    const headers = call.get("pass")?.headers() ?? {};
    if (http.drain.draining) headers["connection"] = "close";
    return errorResponse(error, call.req.path, headers);
  });
  app.notFound((call) => errorResponse(notFound(call.req.path), call.req.path));
  const idHeaders = config.server.request_id_headers.map((name) => name.toLowerCase());
  app.use(arriving({ clock, random: http.random, idHeaders, metrics: http.metrics.http }));
  if (config.server.cors_origins.length > 0) app.use(crossOrigin(config.server.cors_origins));
  for (
    const routes of [
      inferenceRoutes(http),
      responseRoutes(http),
      messageRoutes(http),
      ollamaRoutes(http, services.version ?? "0"),
      graphRoutes(http),
      modelRoutes(http),
      healthRoutes(http),
      runRoutes(http),
      sglangNativeRoutes(http),
      adminRoutes(http),
      workerRoutes(http),
      refusedRoutes(),
      reportRoutes(http),
      ...(config.server.page ? [pageRoutes()] : []),
    ]
  ) app.route("/", routes);
  let document: JsonObject | undefined;
  app.get("/openapi.json", guarded(http, "open", { summary: "This description." }), (call) => {
    document ??= openApiDocument(app.routes, { version: services.version ?? "0" });
    return call.json(document);
  });
  // Behind the routes, so that a request that has one does not pass it.
  app.use(methodNotAllowed({ app, onMethodNotAllowed: ({ req }, methods) => wrongMethod(req, methods) }));
  return app;
}

/** Pages of these origins (`*`: of all) may ask, with any header, and read all headers of the answers. */
function crossOrigin(origins: readonly string[]) {
  return cors({
    origin: origins.includes("*") ? "*" : [...origins],
    allowMethods: ["GET", "POST", "PUT", "DELETE"],
    exposeHeaders: ["*"],
    maxAge: 600,
  });
}
