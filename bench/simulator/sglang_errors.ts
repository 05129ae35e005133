import { jsonReply, Refusal, type Reply, textReply } from "./reply.ts";

/** Where the schema errors of an endpoint say that they come from. */
const HANDLERS: Readonly<Record<string, readonly [line: number, name: string]>> = {
  "/generate": [889, "generate_request"],
  "/v1/completions": [1714, "openai_v1_completions"],
  "/v1/chat/completions": [1722, "openai_v1_chat_completions"],
};

/** The error body of SGLang's OpenAI endpoints. */
export function openaiError(status: number, message: string, type = "BadRequestError"): Reply {
  return jsonReply(status, { object: "error", message, type, param: null, code: status });
}

/** The error body of `/generate`. */
export function generateError(status: number, message: string): Reply {
  return jsonReply(status, { error: { message } });
}

/** A 400 of an OpenAI endpoint. */
export function refuseOpenai(message: string): Refusal {
  return new Refusal(openaiError(400, message));
}

/** A 400 of the schema; each error is the `repr` of a Python dict. */
export function refuseSchema(path: string, errors: readonly string[]): Refusal {
  const [line, name] = HANDLERS[path] ?? [1, "handler"];
  const head = `${errors.length} validation error${errors.length === 1 ? "" : "s"}:`;
  const message = `${head}\n${
    errors.map((error) => `  ${error}`).join("\n")
  }\n\n  File "sglang/srt/entrypoints/http_server.py", line ${line}, in ${name}\n    POST ${path} [${
    errors.join(", ")
  }]`;
  return new Refusal(openaiError(400, message, "Bad Request"));
}

/** What an exception outside of all handlers looks like. */
export function internalError(): Reply {
  return { ...textReply(500, "Internal Server Error"), uncaught: true };
}

/** A `/generate` request that cannot be served; in a stream it is an event under status 200. */
export class GenerateRefusal extends Error {
  /** Undefined: an exception outside of all handlers. */
  readonly detail: string | undefined;

  constructor(detail: string | undefined) {
    super(detail ?? "Internal Server Error");
    this.detail = detail;
  }
}
