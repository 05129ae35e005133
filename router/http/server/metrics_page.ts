import type { Fetches } from "./fetches.ts";

/** A server of nothing but GET /metrics, for scrapers that know no key. */
export function metricsPage(text: () => string | Promise<string>): Fetches {
  return {
    fetch: async ({ method, url }) => {
      if (new URL(url).pathname !== "/metrics") {
        return new Response("Only GET /metrics is here\n", {
          status: 404,
          headers: { "content-type": "text/plain; charset=utf-8" },
        });
      }
      if (method !== "GET" && method !== "HEAD") {
        return new Response(null, { status: 405, headers: { allow: "GET, HEAD" } });
      }
      return new Response(await text(), {
        headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
      });
    },
  };
}
