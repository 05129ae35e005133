import { routePath } from "hono/route";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import type { JsonObject } from "../../../base/json.ts";
import { parseBody, readBody } from "./body.ts";
import type { Call } from "./context.ts";
import type { KeyPass } from "./key_limits.ts";
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
  return withBytes(http, call, (request) => {
    const { bytes, scope } = request;
    const body = parseBody(bytes, { clock: http.clock, signal: scope.stop });
    // A short one is there at once: each wait between a request and its answer is paid for.
    if (!(body instanceof Promise)) return serve({ call, bytes, scope, body });
    return body.then((body) => serve({ call, bytes, scope, body }));
  });
}

/** Reads a request's body and has it served; an error ends the scope. */
export async function withBytes(
  http: HttpServices,
  call: Call,
  serve: (request: RequestBytes) => Promise<Response>,
): Promise<Response> {
  const scope = new RequestScope(call.req.raw, call.get("requestId"), http);
  const headers = call.get("headers");
  const authorization = headers["authorization"] ?? call.get("authorization");
  scope.owner = http.keys.ownerOf(authorization);
  const endSpan = beginSpan(http, call, scope);
  try {
    const pass = http.limits?.passOf(http.keys.callerOf(authorization));
    if (pass !== undefined) await begin(pass, call, scope);
    const { clock, config: { server } } = http;
    const bytes = await readBody(call.req.raw, {
      maxBytes: server.max_body_bytes,
      clock,
      signal: scope.stop,
      headers,
    });
    const response = await serve({ call, bytes, scope });
    for (const [name, value] of Object.entries(pass?.headers() ?? {})) response.headers.set(name, value);
    endSpan?.(response.status);
    return response;
  } catch (error) {
    scope.end(outcomeOfError(error));
    endSpan?.(CanopyError.is(error) ? error.status : 500, error);
    throw error;
  }
}

/** Begins a request of a limited key. Rejects with `rate_limit_exceeded` (429). */
async function begin(pass: KeyPass, call: Call, scope: RequestScope): Promise<void> {
  call.set("pass", pass);
  scope.pass = pass;
  await pass.enter();
  scope.onEnd(() => pass.leave());
}

/** Begins the span of a request; its end comes with the scope's, after it was told the status. */
function beginSpan(
  { spans }: HttpServices,
  call: Call,
  scope: RequestScope,
): ((status: number, error?: unknown) => void) | undefined {
  if (spans === undefined) return undefined;
  const { method } = call.req;
  const route = routePath(call);
  const span = spans.begin({
    name: `${method} ${route}`,
    kind: "server",
    parent: call.get("headers"),
    attributes: {
      "http.request.method": method,
      "http.route": route,
      "canopy.request_id": call.get("requestId"),
    },
  });
  call.set("span", span);
  return (status, error) =>
    scope.onEnd((outcome) => {
      span.set({
        "http.response.status_code": status,
        "gen_ai.request.model": scope.model,
        "canopy.outcome": outcome,
      });
      span.end(error === undefined ? outcome === "ok" ? undefined : outcome : messageOf(error));
    });
}

/** Headers that the engine calls of a run inherit from the client's request. */
export function tracingHeaders(call: Call): Record<string, string> {
  const sent = call.get("headers");
  const headers: Record<string, string> = { "x-request-id": call.get("requestId") };
  for (const name of ["traceparent", "tracestate"]) {
    const value = sent[name];
    if (value !== undefined) headers[name] = value;
  }
  return call.get("span")?.carriedBy(headers) ?? headers;
}
