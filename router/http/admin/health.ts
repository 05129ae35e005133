import { Hono } from "hono";
import type { Env } from "../gate/context.ts";
import { notReadyReason } from "../gate/readiness.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";

/** Probes: whether the process lives, and whether it should get requests. */
export function healthRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  for (const path of ["/health", "/liveness"]) {
    routes.get(
      path,
      guarded(http, "open", { summary: "The router answers." }),
      (call) => call.json({ status: "ok" }),
    );
  }
  routes.get(
    "/readiness",
    guarded(http, "open", {
      summary: "Every served model has a worker that is known to be well, and the router is not draining.",
    }),
    (call) => {
      const reason = notReadyReason(http);
      if (reason === undefined) return call.json({ status: "ready" });
      return call.json({ status: "not_ready", reason }, 503, { "retry-after": "1" });
    },
  );
  return routes;
}
