import { CanopyError, messageOf } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import { errorBodyAt } from "../../wire/error_form.ts";
import { EngineError } from "../../worker/engine_error.ts";

const log = logger("http");

/** Any thrown value as our own error; what we did not expect becomes a 500 without details, and is logged. */
export function asCanopyError(error: unknown): CanopyError {
  if (CanopyError.is(error)) return error;
  if (error instanceof DOMException && error.name === "AbortError") return clientGone();
  log.error("Unexpected error: {message}", { message: messageOf(error), error });
  return new CanopyError("The router failed to serve the request: see its log for the cause", {
    code: "internal_error",
    status: 500,
    cause: error,
  });
}

/**
 * The error as an HTTP answer, in the form of the path's API. `x-should-retry: false` tells OpenAI's clients not to repeat what was retried
 * already (workers) or will fail again (our own 500s); 429 and 503 carry `Retry-After` in seconds.
 */
export function errorResponse(
  thrown: unknown,
  path: string,
  extraHeaders: Readonly<Record<string, string>> = {},
): Response {
  const error = asCanopyError(thrown);
  const headers = new Headers({
    "content-type": "application/json",
    // SGLang's gateway names it so, and tools that watch one read it.
    "x-smg-error-code": error.code,
    ...extraHeaders,
  });
  if (error.status === 429 || error.status === 503) {
    headers.set("retry-after", String(Math.max(1, Math.ceil(error.retryAfterSeconds ?? 1))));
  } else if (error.status >= 499 || error instanceof EngineError) headers.set("x-should-retry", "false");
  if (error.status === 401) headers.set("www-authenticate", "Bearer");
  return new Response(JSON.stringify(errorBodyAt(path, error)), { status: error.status, headers });
}

/** The reason with which everything that works for a request is aborted when its client has left. */
export function clientGone(): CanopyError {
  return new CanopyError("The client closed the connection before the answer was complete", {
    code: "client_gone",
    status: 499,
  });
}

export function notFound(path: string): CanopyError {
  return new CanopyError(
    `There is no ${path.slice(0, 200)} here: GET /openapi.json lists what there is`,
    { code: "not_found", status: 404, param: "path" },
  );
}

/** The 405 for a path that takes other methods, with those in `allow`. */
export function wrongMethod(
  { method, path }: { readonly method: string; readonly path: string },
  methods: readonly string[],
): Response {
  const allowed = methods.filter((one) => one !== "HEAD");
  const message = `${path.slice(0, 200)} does not take ${method}: use ${allowed.join(" or ")}`;
  const error = new CanopyError(message, {
    code: "method_not_allowed",
    status: 405,
    type: "invalid_request_error",
    param: "method",
  });
  return errorResponse(error, path, { allow: allowed.join(", ") });
}
