import { Hono } from "hono";
import type { Call, Env } from "../gate/context.ts";
import { errorResponse, notFound } from "../gate/errors.ts";
import files from "./page_files.json" with { type: "json" };

/** Nothing from elsewhere, nothing inline, in nobody's frame: what a model has written can start nothing. */
const HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; " +
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
  "x-frame-options": "DENY",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "cross-origin-opener-policy": "same-origin",
  // Asked for again each time, and not sent again where it is known: a new version of the program has a new page.
  "cache-control": "no-cache",
  "etag": `"${files.sources}"`,
} as const;

/**
 * The page for browsers. At `/` it is there for who asks for HTML only: for others that path is what it is at other
 * routers, unknown. The page itself is open to everybody; all that it shows it asks for, with its user's key.
 */
export function pageRoutes(): Hono<Env> {
  const routes = new Hono<Env>();
  routes.all("/", (call) => {
    const reads = call.req.method === "GET" || call.req.method === "HEAD";
    if (!reads || !wantsHtml(call.req.header("accept"))) return errorResponse(notFound("/"), "/");
    return file(call, files["index.html"], "text/html; charset=utf-8");
  });
  routes.get("/page/page.css", (call) => file(call, files["page.css"], "text/css; charset=utf-8"));
  routes.get("/page/page.js", (call) => file(call, files["page.js"], "text/javascript; charset=utf-8"));
  return routes;
}

/** True for browsers, and whoever else names HTML as something that it takes. */
function wantsHtml(accept: string | undefined): boolean {
  return (accept ?? "").split(",").some((range) =>
    /^\s*text\/html\s*(?:;(?!\s*q=0(?:\.0*)?\s*$)|$)/i.test(range)
  );
}

function file(call: Call, text: string, type: string): Response {
  const headers = { ...HEADERS, "content-type": type, vary: "accept" };
  if (call.req.header("if-none-match") === HEADERS.etag) return new Response(null, { status: 304, headers });
  return new Response(text, { headers });
}
