import type { JsonObject } from "../../../base/json.ts";
import { parseBody, readBody } from "./body.ts";
import type { Call } from "./context.ts";
import { outcomeOfError, RequestScope } from "./request_scope.ts";
import type { HttpServices } from "./services.ts";

/** A request whose body was read. */
export interface RequestBytes {
  readonly call: Call;
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly scope: RequestScope;
}

/** A request whose JSON body was read. */
export interface ReadRequest extends RequestBytes {
  /** `bytes`, parsed. */
  readonly body: JsonObject;
}

/** Reads a request's JSON body and has it served; an error ends the scope. */
export function withBody(
  http: HttpServices,
  call: Call,
  serve: (request: ReadRequest) => Promise<Response>,
): Promise<Response> {
  return withBytes(http, call, async (request) => {
    const body = await parseBody(request.bytes, { clock: http.clock, signal: request.scope.signal });
    return await serve({ ...request, body });
  });
}

/** Reads a request's body and has it served; an error ends the scope. */
export async function withBytes(
  http: HttpServices,
  call: Call,
  serve: (request: RequestBytes) => Promise<Response>,
): Promise<Response> {
  const scope = new RequestScope(call.req.raw, call.get("requestId"), http);
  scope.owner = http.keys.ownerOf(call.req.header("authorization"));
  try {
    const bytes = await readBody(call.req.raw, http.config.server.max_body_bytes, scope.signal);
    return await serve({ call, bytes, scope });
  } catch (error) {
    scope.end(outcomeOfError(error));
    throw error;
  }
}

/** Headers that the engine calls of a run inherit from the client's request. */
export function tracingHeaders(call: Call): Record<string, string> {
  const headers: Record<string, string> = { "x-request-id": call.get("requestId") };
  for (const name of ["traceparent", "tracestate"]) {
    const value = call.req.header(name);
    if (value !== undefined) headers[name] = value;
  }
  return headers;
}
