import { Hono } from "hono";
import { unixSeconds } from "../../base/clock.ts";
import { adminRoutes } from "./admin/admin.ts";
import { healthRoutes } from "./admin/health.ts";
import { workerRoutes } from "./admin/workers.ts";
import { Admission } from "./gate/admission.ts";
import { Keys } from "./gate/auth.ts";
import type { Call, Env, HttpServices, Route } from "./gate/context.ts";
import { Drain } from "./gate/drain.ts";
import { errorResponse, methodNotAllowed, notFound } from "./gate/errors.ts";
import { requestId } from "./gate/request_id.ts";
import type { RouterServices } from "./gate/services.ts";
import { graphRoutes } from "./graph/graph.ts";
import { Metrics } from "./metrics/metrics.ts";
import { inferenceRoutes } from "./openai/inference.ts";
import { modelRoutes } from "./openai/models.ts";
import { openApiDocument } from "./openapi.ts";
import { runRoutes } from "./runs/runs.ts";
import { sglangNativeRoutes } from "./sglang/sglang_native.ts";
import type { Relay } from "../relay/relay_types.ts";

/** What the HTTP surface is made of. */
export interface AppServices extends RouterServices {
  readonly relay: Relay;
  /** By default with the bounds of `config.server`. */
  readonly admission?: Admission;
  /** By default with the time-out of `config.server`; pass one in order to start the drain on SIGTERM. */
  readonly drain?: Drain;
  readonly metrics?: Metrics;
  /** Value of `access-control-allow-origin`; absent: no cross-origin access for browsers. */
  readonly corsOrigin?: string;
  /** For /openapi.json. */
  readonly version?: string;
}

/** The router's HTTP surface: handlers only, no port. */
export function createApp(services: AppServices): Hono<Env> {
  const { clock, config } = services;
  const http: HttpServices = {
    ...services,
    random: services.random.stream("http"),
    startedAt: unixSeconds(clock),
    keys: new Keys(config.server),
    metrics: services.metrics ?? new Metrics(clock),
    drain: services.drain ?? new Drain({ clock, timeoutMs: config.server.drain_timeout_ms }),
    admission: services.admission ?? new Admission({
      clock,
      maxRunning: config.server.max_running,
      maxQueued: config.server.max_queued,
      queueTimeoutMs: config.server.queue_timeout_ms,
    }),
  };
  const routes: Route[] = [
    ...inferenceRoutes(http),
    ...graphRoutes(http),
    ...modelRoutes(http),
    ...healthRoutes(http),
    ...runRoutes(http),
    ...sglangNativeRoutes(http),
    ...adminRoutes(http),
    ...workerRoutes(http),
  ];
  routes.push(openApiRoute(routes, services.version ?? "0"));

  const app = new Hono<Env>();
  const finish = (call: Call, response: Response) => withHeaders(call, response, services.corsOrigin);
  for (const route of routes) {
    app.on(route.method, route.path, async (call) => {
      call.set("requestId", requestId(call.req.raw.headers, http.random));
      try {
        http.keys.check(route.access, call.req.header("authorization"));
        return finish(call, await route.handle(call));
      } catch (error) {
        return finish(call, errorResponse(error, http.drain.draining ? { connection: "close" } : {}));
      }
    });
  }
  for (const [path, methods] of methodsByPath(routes)) {
    app.all(path, (call) => {
      call.set("requestId", requestId(call.req.raw.headers, http.random));
      if (call.req.method === "OPTIONS" && services.corsOrigin !== undefined) {
        return finish(call, preflight(methods));
      }
      const error = methodNotAllowed(call.req.method, call.req.path, methods);
      return finish(call, errorResponse(error, { allow: methods.join(", ") }));
    });
  }
  app.notFound((call) => {
    call.set("requestId", requestId(call.req.raw.headers, http.random));
    return finish(call, errorResponse(notFound(call.req.path)));
  });
  return app;
}

function openApiRoute(others: readonly Route[], version: string): Route {
  let document: string | undefined;
  const route: Route = {
    method: "GET",
    path: "/openapi.json",
    access: "open",
    handle: () => {
      document ??= JSON.stringify(openApiDocument([...others], { version }));
      return new Response(document, { headers: { "content-type": "application/json" } });
    },
    operation: { summary: "This description." },
  };
  return route;
}

function methodsByPath(routes: readonly Route[]): Map<string, string[]> {
  const paths = new Map<string, string[]>();
  for (const { path, method } of routes) {
    const methods = paths.get(path) ?? [];
    methods.push(method);
    paths.set(path, methods);
  }
  return paths;
}

function preflight(methods: readonly string[]): Response {
  return new Response(null, {
    status: 204,
    headers: {
      "access-control-allow-methods": methods.join(", "),
      "access-control-allow-headers": "*, authorization",
      "access-control-max-age": "600",
    },
  });
}

function withHeaders(call: Call, response: Response, corsOrigin: string | undefined): Response {
  response.headers.set("x-request-id", call.get("requestId"));
  if (corsOrigin !== undefined) {
    response.headers.set("access-control-allow-origin", corsOrigin);
    response.headers.set("access-control-expose-headers", "*");
  }
  return response;
}
