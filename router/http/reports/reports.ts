import { Hono } from "hono";
import { z } from "zod";
import { CanopyError } from "../../../base/errors.ts";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { listReports, readReport } from "./report_folder.ts";

/** Nothing runs, nothing is loaded, and it is of no origin: a file of that folder may be anybody's. */
const HEADERS = {
  "content-type": "text/html; charset=utf-8",
  "content-security-policy":
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; " +
    "frame-ancestors 'none'; sandbox",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cache-control": "no-cache",
} as const;

const reportListSchema = z.strictObject({
  object: z.literal("list"),
  folder: z.string().nullable(),
  data: z.array(z.strictObject({
    name: z.string(),
    title: z.string(),
    bytes: z.int(),
    modified: z.int().describe("Unix time in seconds"),
  })),
}).meta({ id: "ReportList" });

/** The HTML reports of the folder `server.reports`, for the page; without one the list is empty. */
export function reportRoutes(http: HttpServices): Hono<Env> {
  const { reports: folder } = http.config.server;
  const routes = new Hono<Env>();
  routes.get(
    "/v1/reports",
    guarded(http, "control", {
      summary: "The reports in the folder server.reports, the newest first.",
      response: reportListSchema,
    }),
    async (call) => {
      const data = folder === undefined ? [] : await listReports(folder);
      return call.json({ object: "list", folder: folder ?? null, data: data.map((one) => ({ ...one })) });
    },
  );
  routes.get(
    "/v1/reports/:name",
    guarded(http, "control", { summary: "One report.", contentType: "text/html" }),
    async (call) => {
      const name = call.req.param("name") ?? "";
      const bytes = folder === undefined ? undefined : await readReport(folder, name);
      if (bytes === undefined) throw noReport(name);
      return new Response(bytes, { headers: HEADERS });
    },
  );
  return routes;
}

function noReport(name: string): CanopyError {
  return new CanopyError(
    `There is no report ${JSON.stringify(name.slice(0, 100))}: GET /v1/reports lists them`,
    { code: "report_not_found", status: 404, param: "name" },
  );
}
