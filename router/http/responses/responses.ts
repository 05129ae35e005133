import { Hono } from "hono";
import type { Env } from "../gate/context.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { dispatch } from "../openai/dispatch.ts";
import { responseRequestSchema } from "./request_schema.ts";
import { responseEventSchema, responseSchema } from "./response_schema.ts";
import { responseTranslation } from "./response_translation.ts";

/** OpenAI's Responses, of graphs; requests for engine models are relayed as they are. */
export function responseRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  routes.post(
    "/v1/responses",
    guarded(http, "api", {
      summary: "Answer a conversation, as OpenAI's Responses; engine models: relayed as it is.",
      request: responseRequestSchema,
      response: responseSchema,
      streams: responseEventSchema,
    }),
    (call) => dispatch(http, call, responseTranslation),
  );
  return routes;
}
