import type { JsonObject } from "../../../base/json.ts";
import { atOnce, turnByTurn } from "../../../base/turns.ts";
import { refuseDeadly } from "../../engines/guards/refuse_deadly.ts";
import { outcomeOf, pulledBody, type RequestScope } from "../gate/request_scope.ts";
import type { HttpServices } from "../gate/services.ts";
import type { RelayRequest } from "../../relay/relay_types.ts";
import { LONG_BODY } from "../../relay/request_plan.ts";
import { askingForUsage, hidesUsage, UsageMeter } from "../../relay/usage_meter.ts";
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
  const { model, path, headers, body } = request;
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
  const metered = await meteredRequest(http, request, scope);
  const { status, headers: returned, body: answer } = await http.relay.relay(
    model,
    {
      method: "POST",
      path,
      headers,
      ...metered,
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

/** The request with what counts its tokens, where the client's key has a limit on them: they are spent when it ends. */
async function meteredRequest(
  { clock }: HttpServices,
  { path, bytes, body }: EngineRequest,
  scope: RequestScope,
): Promise<Pick<RelayRequest, "body" | "rewrite">> {
  const { pass } = scope;
  if (pass?.countsTokens !== true) return { body: bytes };
  const hides = hidesUsage(path, body);
  const rewrite = new UsageMeter(hides);
  scope.onEnd(() => pass.spend(rewrite.tokens));
  if (!hides) return { body: bytes, rewrite };
  const asking = askingForUsage(bytes, body);
  const asked = bytes.length > LONG_BODY ? await turnByTurn(clock, asking, scope.signal) : atOnce(asking);
  return { body: asked, rewrite };
}
