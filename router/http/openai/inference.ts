import { Hono } from "hono";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { dispatch } from "./dispatch.ts";
import { ENGINE_ROUTES } from "./engine_routes.ts";
import { dispatchForm } from "./form_request.ts";
import { chatRequestSchema, completionRequestSchema, engineRequestSchema } from "./request_schema.ts";
import { chatChunkSchema, chatCompletionSchema, completionSchema } from "./response_schema.ts";

/** The routes that name a model in their body. */
export function inferenceRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  routes.post(
    "/v1/chat/completions",
    guarded(http, "api", {
      summary: "Answer a conversation.",
      request: chatRequestSchema,
      response: chatCompletionSchema,
      streams: chatChunkSchema,
    }),
    (call) => dispatch(http, call, "chat"),
  );
  routes.post(
    "/v1/completions",
    guarded(http, "api", {
      summary: "Continue a text.",
      request: completionRequestSchema,
      response: completionSchema,
      streams: completionSchema,
    }),
    (call) => dispatch(http, call, "completion"),
  );
  for (const { path, does, form, graphs } of ENGINE_ROUTES) {
    if (graphs) continue;
    const summary = `${does} Engine models only: relayed as it is.`;
    routes.post(
      path,
      guarded(http, "api", { summary, ...(form ? {} : { request: engineRequestSchema }) }),
      (call) => form ? dispatchForm(http, call) : dispatch(http, call, "engine"),
    );
  }
  return routes;
}
