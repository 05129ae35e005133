import type { CanopyError } from "../../../base/errors.ts";

/** Anthropic's error body. */
export interface AnthropicError {
  readonly type: "error";
  readonly error: { readonly type: string; readonly message: string };
}

/** The error in Anthropic's form, whose sentence names the field at fault. */
export function anthropicError({ status, message }: CanopyError): AnthropicError {
  return { type: "error", error: { type: typeOf(status), message } };
}

function typeOf(status: number): string {
  if (status === 401) return "authentication_error";
  if (status === 403) return "permission_error";
  if (status === 404) return "not_found_error";
  if (status === 413) return "request_too_large";
  if (status === 429) return "rate_limit_error";
  if (status === 503) return "overloaded_error";
  if (status === 504) return "timeout_error";
  return status >= 500 ? "api_error" : "invalid_request_error";
}
