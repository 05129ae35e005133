import type { Json } from "../../base/json.ts";
import type { Choice, Collector } from "../engine/choice.ts";
import { jsonReply, Refusal, type Reply } from "../server/reply.ts";

/** The error body of vLLM. */
export function vllmError(status: number, message: string, type: string, param: string | null = null): Reply {
  return jsonReply(status, { error: { message, type, param, code: status } });
}

/** A 400 of the request's meaning. `value` is shown as Python would. */
export function refuse(message: string, param?: string, value?: string): Refusal {
  const details = [
    ...(param === undefined ? [] : [`parameter=${param}`]),
    ...(value === undefined ? [] : [`value=${value}`]),
  ];
  const text = details.length === 0 ? message : `${message} (${details.join(", ")})`;
  return new Refusal(vllmError(400, text, "BadRequestError", param ?? null));
}

/** One complaint of the schema. */
export interface SchemaError {
  readonly type: string;
  readonly loc: string;
  readonly msg: string;
  readonly input: string;
  readonly ctx?: string;
}

/** A 400 of the request's form. */
export function refuseVllmSchema(errors: readonly SchemaError[]): Refusal {
  const lines = errors.map(({ type, loc, msg, input, ctx }) =>
    `  {'type': '${type}', 'loc': '${loc}', 'msg': '${msg}', 'input': '${input}'${
      ctx === undefined ? "" : `, 'ctx': ${ctx}`
    }}`
  );
  const head = `${errors.length} validation error${errors.length === 1 ? "" : "s"}:`;
  return new Refusal(vllmError(400, [head, ...lines].join("\n"), "Bad Request", errors[0]?.loc ?? null));
}

/** An input as the schema's messages show it. */
export function shownInput(value: Json): string {
  if (Array.isArray(value)) return `<list of ${value.length} items>`;
  if (typeof value === "object" && value !== null) return `<dict of ${Object.keys(value).length} items>`;
  return String(value);
}

/** The 400 for another content type, or none. */
export function unsupportedMediaType(): Refusal {
  const message = "1 validation error:\n  Unsupported Media Type: Only 'application/json' is allowed";
  return new Refusal(vllmError(400, message, "Bad Request"));
}

/** The 404 for a model that is not served. */
export function unknownModel(model: string, served: readonly string[]): Refusal {
  const message = `The model \`${model}\` does not exist. Valid aliases: ${served.join(", ")}.`;
  return new Refusal(vllmError(404, message, "NotFoundError", "model"));
}

/** The 503 of a full queue. */
export function busy(): Refusal {
  const message =
    "The engine is currently busy and cannot accept new requests. Please try again later or on a different instance.";
  return new Refusal(vllmError(503, message, "Service Unavailable"));
}

/** Error of a request whose engine has died. */
export const ENGINE_DEATH = "EngineCore encountered an issue. See stack trace (above) for the root cause.";

/** The 500 of a request that the engine gave up; undefined when all went well. */
export function failed(collector: Collector): Reply | undefined {
  for (const { finish } of collector.choices) {
    if (finish?.type === "abort" && finish.failure !== undefined) {
      return vllmError(finish.failure.status, finish.failure.message, "InternalServerError");
    }
  }
  return undefined;
}

/** The end of a stream whose request the engine gave up; undefined when it did not. */
export function brokenStream(choice: Choice): string | undefined {
  const { finish } = choice;
  if (finish?.type !== "abort" || finish.failure === undefined) return undefined;
  const { status, message } = finish.failure;
  return `data: {"error": {"message": ${
    JSON.stringify(message)
  }, "type": "InternalServerError", "param": null, "code": ${status}}}\n\ndata: [DONE]\n\n`;
}
