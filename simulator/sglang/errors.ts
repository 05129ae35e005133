import type { Choice, ChoiceFailure } from "../engine/choice.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import { jsonReply, Refusal, type Reply, textReply } from "../server/reply.ts";

/** Source lines that the schema errors of an endpoint name. */
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
export function refuseSglangSchema(path: string, errors: readonly string[]): Refusal {
  const [line, name] = HANDLERS[path] ?? [1, "handler"];
  const head = `${errors.length} validation error${errors.length === 1 ? "" : "s"}:`;
  const message = `${head}\n${
    errors.map((error) => `  ${error}`).join("\n")
  }\n\n  File "sglang/srt/entrypoints/http_server.py", line ${line}, in ${name}\n    POST ${path} [${
    errors.join(", ")
  }]`;
  return new Refusal(openaiError(400, message, "Bad Request"));
}

/** Answer to an exception outside of all handlers. */
export function internalError(): Reply {
  return { ...textReply(500, "Internal Server Error"), bare: true };
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

/** The answer of `/generate` to a request that its engine gave up; undefined when all went well. */
export function generateFailure(choices: readonly Choice[]): Reply | undefined {
  const failure = failureOf(choices);
  if (failure === undefined) return undefined;
  return failure.status === 400
    ? generateError(400, failure.message)
    : openaiError(failure.status, failure.message, String(failure.status));
}

/** The same for the OpenAI endpoints. */
export function openaiFailure(choices: readonly Choice[]): Reply | undefined {
  const failure = failureOf(choices);
  if (failure === undefined) return undefined;
  const type = failure.status === 400 ? "BadRequestError" : String(failure.status);
  return openaiError(failure.status, failure.message, type);
}

/**
 * Last events of a stream whose request was given up; undefined when it was not, or when the next event says it.
 * Before 0.5.10 the connection just ends, unless the request was wrong.
 */
export function failureEvents(
  choice: Choice,
  endpoint: "generate" | "openai",
  version: string,
): string[] | undefined {
  const failure = failureOf([choice]);
  if (failure === undefined) return undefined;
  const { status, message } = failure;
  const old = versionNumber(version) < SGLANG.errorEvents;
  if (old && status !== 400) return [];
  const done = "data: [DONE]\n\n";
  if (endpoint === "generate") {
    return old ? [`data: ${JSON.stringify({ error: { message } })}\n\n`, done] : undefined;
  }
  const type = status !== 400 ? "INTERNAL_SERVER_ERROR" : old ? "BadRequestError" : "BAD_REQUEST";
  return [
    `data: {"error": {"object": "error", "message": ${
      JSON.stringify(message)
    }, "type": "${type}", "param": null, "code": ${status}}}\n\n`,
    done,
  ];
}

function failureOf(choices: readonly Choice[]): ChoiceFailure | undefined {
  for (const { finish } of choices) if (finish?.type === "abort" && finish.failure) return finish.failure;
  return undefined;
}
