/** The problem of a target and a `Host` that name nothing. */
export const NO_URL = "its target and Host make no URL";

/** The body of an answer to what is no request. */
export function noRequestBody(status: number, problem: string): string {
  const message = `The request cannot be read: ${problem}`;
  const code = status === 408 ? "request_timeout" : "invalid_http";
  return JSON.stringify({ error: { message, type: "invalid_request_error", param: null, code } });
}
