import type { HttpServices, Route } from "../gate/context.ts";
import { type ReadRequest, withBody } from "../gate/read_request.ts";
import { serveGraph } from "./serve_graph.ts";
import { serveGenerate } from "./serve_shell.ts";
import { servePrefill, serveWarm } from "./serve_warm.ts";

/** Graphs in requests, prefill only, and the spellings under which shell routers know both. */
export function graphRoutes(http: HttpServices): Route[] {
  const post = (
    path: string,
    serve: (http: HttpServices, request: ReadRequest) => Promise<Response>,
    operation: Route["operation"],
  ): Route => ({
    method: "POST",
    path,
    access: "api",
    handle: (call) => withBody(http, call, (request) => serve(http, request)),
    operation,
  });
  return [
    post("/v1/graph", serveGraph, {
      summary: "Run the graph of agents in the request; any agent may read the answers of others.",
      request: "GraphRequest",
      response: "Graph",
      streams: true,
    }),
    post("/v1/warm", serveWarm, {
      summary: "Prefill a prompt, so that a later request that begins with it is answered sooner.",
      request: "WarmRequest",
      response: "Warm",
    }),
    post("/generate", serveGenerate, {
      summary:
        "SGLang's native generation: relayed as it is, unless its texts have slots for each other's answers.",
      request: "GenerateRequest",
      streams: true,
    }),
    post("/prefill_only", servePrefill, {
      summary: "Prefill in SGLang's form.",
      request: "PrefillRequest",
    }),
  ];
}
