import { Hono } from "hono";
import type { Env } from "../gate/context.ts";
import { type ReadRequest, withBody } from "../gate/read_request.ts";
import { guarded, type Operation } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import {
  generateRequestSchema,
  graphRequestSchema,
  prefillRequestSchema,
  warmRequestSchema,
} from "./request_schema.ts";
import { graphAnswerSchema, graphChunkSchema, warmSchema } from "./response_schema.ts";
import { serveGraph } from "./serve_graph.ts";
import { serveGenerate } from "./serve_shell.ts";
import { servePrefill, serveWarm } from "./serve_warm.ts";

/** Graphs in requests, prefill only, and the spellings under which shell routers know both. */
export function graphRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  const post = (
    path: string,
    serve: (http: HttpServices, request: ReadRequest) => Promise<Response>,
    operation: Operation,
  ) =>
    routes.post(
      path,
      guarded(http, "api", operation),
      (call) => withBody(http, call, (request) => serve(http, request)),
    );
  post("/v1/graph", serveGraph, {
    summary: "Run the graph of agents in the request; any agent may read the answers of others.",
    request: graphRequestSchema,
    response: graphAnswerSchema,
    streams: graphChunkSchema,
  });
  post("/v1/warm", serveWarm, {
    summary: "Prefill a prompt, so that a later request that begins with it is answered sooner.",
    request: warmRequestSchema,
    response: warmSchema,
  });
  post("/generate", serveGenerate, {
    summary:
      "SGLang's native generation: relayed as it is, unless its texts have slots for each other's answers.",
    request: generateRequestSchema,
    streams: true,
  });
  post("/prefill_only", servePrefill, {
    summary: "Prefill in SGLang's form.",
    request: prefillRequestSchema,
  });
  return routes;
}
