import type { StopSignal } from "../../../base/stop_signal.ts";
import type { JsonObject } from "../../../base/json.ts";
import { logger } from "../../../base/log.ts";
import { atOnce, turnByTurn } from "../../../base/turns.ts";
import { refuseDeadly } from "../../engines/guards/refuse_deadly.ts";
import { outcomeOf, type RequestScope, ScopedBody } from "../gate/request_scope.ts";
import type { AnswerTimer } from "../metrics/model_metrics.ts";
import type { HttpServices } from "../gate/services.ts";
import { engineRoute } from "./engine_routes.ts";
import type { RelayAnswer, RelayRequest } from "../../relay/relay_types.ts";
import { LONG_BODY } from "../../relay/request_plan.ts";
import { askingForUsage, hidesUsage, UsageMeter } from "../../relay/usage_meter.ts";
import { fallbackReason, fallbacksOf } from "../../served/fallbacks.ts";
import type { ServedModel } from "../../served/served_model.ts";

const log = logger("http");

/** One request for an engine model: its bytes go to a worker as they came. */
export interface EngineRequest {
  readonly model: ServedModel;
  readonly path: string;
  /** As in `RelayRequest`. */
  readonly query: string;
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
  const { model, path, query, headers, body } = request;
  guard(request, model);
  const stream = body["stream"] === true;
  const backend = model.config.engine.endsWith("-pd") ? "pd" : "regular";
  const timer = http.metrics.models.begin({ model: model.name, backend, path, stream });
  // No function made here may last as long as the answer: it would keep the request with its prompt.
  scope.onEnd(endOf(timer));
  // Each wait between a request and its answer is paid for: only where there is something to wait for.
  scope.onEnd(http.admission.tryTake() ?? await http.admission.take(scope.stop));
  const metered = scope.pass?.countsTokens === true ? await meteredRequest(http, request, scope) : undefined;
  const sent: RelayRequest = {
    method: "POST",
    path,
    query,
    headers,
    body: metered?.body ?? request.bytes,
    parsed: metered === undefined ? body : undefined,
    rewrite: metered?.rewrite,
    owner: scope.owner,
    credentials: http.keys.forWorkers(headers["authorization"]),
  };
  const { status, headers: returned, body: answer } = model.config.fallback === undefined
    ? await http.relay.relay(model, sent, scope.stop)
    : await relayed(http, request, sent, scope.stop);
  if (status < 400) timer.first();
  const isWhole = answer === undefined || answer instanceof Uint8Array;
  if (isWhole) scope.end(outcomeOf(status));
  return scope.answer({
    status,
    headers: returned,
    body: isWhole ? answer : new ScopedBody(answer, scope, outcomeOf(status)),
  });
}

/** Made here, where nothing is near that it would keep. */
function endOf(timer: AnswerTimer): (outcome: string) => void {
  return (outcome) => timer.ended(outcome);
}

/** The answer of the model that is asked for or, where no worker of it can answer, of the next one in its place. */
async function relayed(
  { relay, models, metrics }: HttpServices,
  request: EngineRequest,
  sent: RelayRequest,
  signal: StopSignal,
): Promise<RelayAnswer> {
  const { model: asked } = request;
  const others = fallbacksOf(asked.name, (name) => models.get(name)).filter((other) => takes(request, other));
  const id = sent.headers["x-request-id"];
  for (let model = asked;;) {
    const isOther = model !== asked;
    let answer: RelayAnswer | undefined;
    let failure: unknown;
    try {
      answer = await relay.relay(model, isOther ? { ...sent, renames: true } : sent, signal);
    } catch (error) {
      failure = error;
    }
    const reason = answer === undefined ? fallbackReason(failure) : answer.gaveUp;
    const next = reason === undefined || signal.aborted ? -1 : others.findIndex(({ pool }) => pool.ready);
    if (reason === undefined || next < 0) {
      if (answer === undefined) throw failure;
      if (!isOther) return answer;
      return { ...answer, headers: { ...answer.headers, "x-canopy-fallback": model.name } };
    }
    if (answer?.body !== undefined && !(answer.body instanceof Uint8Array)) await answer.body.return();
    const to = others.splice(0, next + 1)[next]!;
    metrics.fellBack(asked.name, to.name, reason);
    log.warning("Request {id} for {model} goes to {to}: {reason}", {
      id,
      model: asked.name,
      to: to.name,
      reason,
    });
    model = to;
  }
}

/** True where another model takes the same request: its engine has the route, and does not die of it. */
function takes(request: EngineRequest, model: ServedModel): boolean {
  const { config } = model;
  const { path } = request;
  // The name inside a form stays as it is.
  if (request.headers["content-type"]?.startsWith("multipart/")) return false;
  const route = engineRoute(path);
  if (route !== undefined && !route.pairs && config.engine.endsWith("-pd")) return false;
  if (path === "/generate" && !config.engine.startsWith("sglang")) return false;
  try {
    guard(request, model);
    return true;
  } catch {
    return false;
  }
}

/** Throws a 400 for a request that would kill its engine. */
function guard({ path, body }: EngineRequest, { config, engine, tokenizer }: ServedModel): void {
  refuseDeadly({
    engine: config.engine,
    version: engine.capabilities.version,
    vocabSize: tokenizer?.vocabSize,
    path,
    body,
  });
}

/** The request with what counts its tokens, for a key that has a limit on them: they are spent when it ends. */
async function meteredRequest(
  { clock }: HttpServices,
  { path, bytes, body }: EngineRequest,
  scope: RequestScope,
): Promise<Pick<RelayRequest, "body" | "rewrite">> {
  const { pass } = scope;
  const hides = hidesUsage(path, body);
  const rewrite = new UsageMeter(hides);
  scope.onEnd(() => pass?.spend(rewrite.tokens));
  if (!hides) return { body: bytes, rewrite };
  const asking = askingForUsage(bytes, body);
  const asked = bytes.length > LONG_BODY ? await turnByTurn(clock, asking, scope.stop) : atOnce(asking);
  return { body: asked, rewrite };
}
