import type { JsonObject } from "../../../base/json.ts";
import { refuseDeadly } from "../../engines/guards/refuse_deadly.ts";
import { outcomeOf, pulledBody, type RequestScope } from "../gate/request_scope.ts";
import type { HttpServices } from "../gate/services.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** One request for an engine model: its bytes go to a worker as they came. */
export interface EngineRequest {
  readonly model: ServedModel;
  /** With the query, if any. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: Uint8Array;
  /** The same, parsed; of a form its fields. */
  readonly body: JsonObject;
}

/** Relays a request to a worker, holding a place until the answer was taken. Throws `CanopyError`. */
export async function serveEngine(
  http: HttpServices,
  request: EngineRequest,
  scope: RequestScope,
): Promise<Response> {
  const { model, path, headers, bytes, body } = request;
  refuseDeadly({
    engine: model.config.engine,
    version: model.engine.capabilities.version,
    vocabSize: model.tokenizer?.vocabSize,
    path: path.split("?")[0] ?? path,
    body,
  });
  const stream = body["stream"] === true;
  const backend = model.config.engine.endsWith("-pd") ? "pd" : "regular";
  const timer = http.metrics.models.begin({ model: model.name, backend, path, stream });
  // No function made here may last as long as the answer: it would keep the request with its prompt.
  scope.onEnd(timer.ended);
  const release = await http.admission.take(scope.signal);
  scope.onEnd(release);
  const { status, headers: returned, body: answer } = await http.relay.relay(
    model,
    {
      method: "POST",
      path,
      headers,
      body: bytes,
      owner: scope.owner,
      credentials: http.keys.forWorkers(headers["authorization"]),
    },
    scope.signal,
  );
  if (status < 400) timer.first();
  const init = { status, headers: returned };
  if (answer === undefined || answer instanceof Uint8Array) {
    scope.end(outcomeOf(status));
    return new Response(answer ?? null, init);
  }
  return new Response(pulledBody(answer, scope, outcomeOf(status)), init);
}
