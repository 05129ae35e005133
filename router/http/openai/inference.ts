import type { HttpServices, Route } from "../gate/context.ts";
import { dispatch } from "./dispatch.ts";

/** The routes that name a model in their body. */
export function inferenceRoutes(http: HttpServices): Route[] {
  const engineOnly = (path: string, summary: string): Route => ({
    method: "POST",
    path,
    access: "api",
    handle: (call) => dispatch(http, call, "engine"),
    operation: { summary: `${summary} Engine models only: relayed as it is.`, request: "EngineRequest" },
  });
  return [
    {
      method: "POST",
      path: "/v1/chat/completions",
      access: "api",
      handle: (call) => dispatch(http, call, "chat"),
      operation: {
        summary: "Answer a conversation.",
        request: "ChatCompletionRequest",
        response: "ChatCompletion",
        streams: true,
      },
    },
    {
      method: "POST",
      path: "/v1/completions",
      access: "api",
      handle: (call) => dispatch(http, call, "completion"),
      operation: {
        summary: "Continue a text.",
        request: "CompletionRequest",
        response: "Completion",
        streams: true,
      },
    },
    engineOnly("/v1/embeddings", "Embed texts."),
    engineOnly("/tokenize", "Token ids of a text."),
    engineOnly("/detokenize", "Text of token ids."),
  ];
}
