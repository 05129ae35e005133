import { Hono } from "hono";
import { CanopyError } from "../../base/errors.ts";
import type { Env } from "./gate/context.ts";
import { errorResponse } from "./gate/errors.ts";

/** Routes of other routers and of OpenAI that are not here, with what to do instead. */
const REFUSED: readonly (readonly [paths: readonly string[], sentence: string])[] = [
  [
    ["/v1/conversations", "/v1/conversations/*", "/v1/responses/*"],
    "This router keeps no conversations: send the history with each request",
  ],
  [
    ["/v1/tokenizers", "/v1/tokenizers/*"],
    "Tokenizers are not registered at run time: name one in models.NAME.tokenizer",
  ],
  [
    ["/parse/function_call", "/parse/reasoning"],
    "Tool calls and reasoning are parsed by the engines: start them with --tool-call-parser and --reasoning-parser",
  ],
  [["/wasm", "/wasm/*"], "There are no WebAssembly plug-ins here"],
  [["/ha/*", "/mesh/*"], "Routers share no state here: put several behind a load balancer"],
  [["/mcp", "/mcp/*"], "There are no MCP servers here: let the client call its tools"],
  [
    ["/v1/realtime", "/v1/realtime/*"],
    "There are no realtime sessions here: use /v1/chat/completions with stream",
  ],
  [
    ["/v1/files", "/v1/files/*", "/v1/batches", "/v1/batches/*"],
    "There are no files and batches here: send requests",
  ],
];

/** Answers each of them with 501 and one sentence. */
export function refusedRoutes(): Hono<Env> {
  const routes = new Hono<Env>();
  for (const [paths, sentence] of REFUSED) {
    for (const path of paths) {
      routes.all(
        path,
        () => errorResponse(new CanopyError(sentence, { code: "not_implemented", status: 501 }), path),
      );
    }
  }
  return routes;
}
