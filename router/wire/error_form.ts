import type { CanopyError } from "../../base/errors.ts";
import { namedEvent, sseEvent } from "./sse.ts";

/** OpenAI's error body. */
export interface ErrorBody {
  readonly error: {
    readonly message: string;
    readonly type: string;
    readonly param: string | null;
    readonly code: string;
  };
}

/** Anthropic's error body. */
export interface AnthropicError {
  readonly type: "error";
  readonly error: { readonly type: string; readonly message: string };
}

/** The body of an error of a route; OpenAI's form is the usual one. */
export function errorBodyAt(path: string, error: CanopyError): object {
  if (isAnthropic(path)) return anthropicError(error);
  return path.startsWith("/api/") ? { error: error.message } : errorBody(error);
}

/** The error as the last event of a stream that was relayed. */
export function errorEventAt(path: string, error: CanopyError): Uint8Array<ArrayBuffer> {
  return isAnthropic(path) ? namedEvent("error", anthropicError(error)) : sseEvent(errorBody(error));
}

function isAnthropic(path: string): boolean {
  return /^\/v1\/messages(?:\/|$)/.test(path);
}

/** The error in OpenAI's form. */
export function errorBody(error: CanopyError): ErrorBody {
  return {
    error: { message: error.message, type: error.type, param: error.param ?? null, code: error.code },
  };
}

/** The error in Anthropic's form, whose sentence names the field at fault. */
export function anthropicError({ status, message }: CanopyError): AnthropicError {
  return { type: "error", error: { type: anthropicType(status), message } };
}

function anthropicType(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 413) return "request_too_large";
  if (status === 429) return "rate_limit_error";
  if (status === 503) return "overloaded_error";
  if (status === 504) return "timeout_error";
  return status >= 500 ? "api_error" : "invalid_request_error";
}
