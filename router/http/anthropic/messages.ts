import { Hono, type MiddlewareHandler } from "hono";
import type { Call, Env } from "../gate/context.ts";
import { withBody } from "../gate/read_request.ts";
import { guarded } from "../gate/route.ts";
import type { HttpServices } from "../gate/services.ts";
import { dispatch, findTarget, serveByModel } from "../openai/dispatch.ts";
import { conversationTokens } from "./conversation_tokens.ts";
import { messageTranslation } from "./message_translation.ts";
import { countRequestSchema, messageRequestSchema } from "./request_schema.ts";
import {
  anthropicErrorSchema,
  anthropicMessageSchema,
  messageEventSchema,
  tokenCountSchema,
} from "./response_schema.ts";

const PATH = "/v1/messages";
const COUNT_PATH = "/v1/messages/count_tokens";

/** Anthropic's clients send their key in this header. */
const KEY_HEADER = "x-api-key";

/** Anthropic's Messages, of graphs; requests for engine models are relayed as they are. */
export function messageRoutes(http: HttpServices): Hono<Env> {
  const routes = new Hono<Env>();
  const error = anthropicErrorSchema;
  for (const path of [PATH, COUNT_PATH]) routes.use(path, identified);
  routes.post(
    PATH,
    guarded(http, "api", {
      summary: "Answer a conversation, as Anthropic's Messages; engine models: relayed as it is.",
      request: messageRequestSchema,
      response: anthropicMessageSchema,
      streams: messageEventSchema,
      keyHeader: KEY_HEADER,
      error,
    }),
    (call) => dispatch(http, call, messageTranslation),
  );
  routes.post(
    COUNT_PATH,
    guarded(http, "api", {
      summary: "Tokens of a conversation for a graph's root; engine models: relayed as it is.",
      request: countRequestSchema,
      response: tokenCountSchema,
      keyHeader: KEY_HEADER,
      error,
    }),
    (call) => count(http, call),
  );
  return routes;
}

/** Anthropic's clients look for a request's id here. */
const identified: MiddlewareHandler<Env> = async (call, next) => {
  await next();
  call.res.headers.set("request-id", call.get("requestId"));
};

function count(http: HttpServices, call: Call): Promise<Response> {
  return withBody(http, call, async (request) => {
    const target = findTarget(http, request.body, COUNT_PATH);
    if ("model" in target) return await serveByModel(http, request, "engine");
    const { scope } = request;
    scope.model = target.graph.name;
    const input_tokens = await conversationTokens(http, target.graph, request);
    scope.end("ok");
    return call.json({ input_tokens });
  });
}
