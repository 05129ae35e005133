import { unixSeconds } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import { turnByTurn } from "../../../base/turns.ts";
import { refuseDeadly } from "../../engines/guards/refuse_deadly.ts";
import { refuseSprawl } from "../gate/body.ts";
import { asCanopyError } from "../gate/errors.ts";
import { type RequestScope, ScopedBody } from "../gate/request_scope.ts";
import type { HttpServices } from "../gate/services.ts";
import { withAsked } from "./asked_request.ts";
import type { AnswerHead, AnswerWriter } from "./answer/answer.ts";
import { ChatAnswer } from "./answer/chat_answer.ts";
import { CompletionAnswer } from "./answer/completion_answer.ts";
import { OpenAiAnswer } from "./answer/openai_answer.ts";
import type { RunAnswer, RunsSoFar } from "./answer/run_answer.ts";
import { readChat } from "./chat_request.ts";
import { readCompletion } from "./completion_request.ts";
import { type CompletionPlan, refuseStaircase, type RunTarget } from "./plan.ts";
import { atEffort, checkBudget } from "./run_reach.ts";
import { canopyBody, runHeaders, usageBody } from "./run_body.ts";
import { RunGroup } from "./run_group.ts";
import { type ClientNames, inClientsWords, type TranslatedChat, type Translation } from "./translation.ts";
import { REWRITE_AGENT } from "../../moa/exit/agreed_rewrite.ts";
import { answeringAgents, type Graph } from "../../moa/graph/graph_types.ts";
import type { RunEvent } from "../../moa/run/run.ts";

/** One request for a graph. */
export interface VirtualRequest {
  /** A translation makes it a chat. */
  readonly kind: "chat" | "completion" | Translation;
  /** Of the request's route. */
  readonly path: string;
  readonly graph: Graph;
  readonly body: JsonObject;
  /** Passed on to the engines. */
  readonly headers: Readonly<Record<string, string>>;
}

/**
 * Serves a request for a virtual model. The head of a stream is sent with the root's first output, so that an error
 * before it has its true status; a later one is the stream's last event. Throws `CanopyError`.
 */
export async function serveVirtual(
  http: HttpServices,
  request: VirtualRequest,
  scope: RequestScope,
): Promise<Response> {
  const { kind } = request;
  await turnByTurn(http.clock, refuseSprawl(request.body), scope.signal);
  if (typeof kind === "string") return await serveRuns(http, { ...request, kind }, scope);
  const translated = kind.translate(request.body);
  try {
    return await serveRuns(http, { ...request, kind: "chat", body: translated.body, translated }, scope);
  } catch (error) {
    throw inClientsWords(error, translated.names);
  }
}

/** A request in the words of chat or completions. */
interface OpenAiRequest extends VirtualRequest {
  readonly kind: "chat" | "completion";
  readonly translated?: TranslatedChat | undefined;
}

async function serveRuns(
  http: HttpServices,
  request: OpenAiRequest,
  scope: RequestScope,
): Promise<Response> {
  const { headers, path } = request;
  const { graph, body } = atEffort(request.graph, request.body);
  const target: RunTarget = { graph, root: http.models.get(graph.root.model) };
  const read = request.kind === "chat"
    ? await turnByTurn(http.clock, readChat(body, target, headers), scope.signal)
    : await readCompletion(body, target, headers, scope.signal);
  const openAiPath = request.kind === "chat" ? "/v1/chat/completions" : "/v1/completions";
  const asked = { path: openAiPath, body: { ...request.body, model: request.graph.name } } as const;
  const plan = { ...read, inputs: withAsked(read.inputs, asked) };
  guardRoot(target, plan, openAiPath);
  for (const input of plan.inputs.slice(0, 1)) checkBudget(input, graph, http.models);
  refuseStaircase(target, plan);
  const timer = http.metrics.models.begin({
    model: graph.name,
    backend: "graph",
    path,
    stream: plan.stream,
  });
  scope.onEnd((outcome) => timer.ended(outcome));

  const group = await RunGroup.start({
    moa: http.moa,
    admission: http.admission,
    plan,
    owner: scope.owner,
    signal: scope.signal,
    onRunStarted: (run) => {
      http.metrics.followRun(graph.name, run);
      scope.pass?.follow(run);
    },
  });
  const answer = newAnswer(http, request, plan);
  const events = group.events();
  const soFar: RunsSoFar = {
    runs: group.runs,
    usage: () => usageOf(group, plan),
    canopy: () => canopyOf(group, plan),
  };
  if (!plan.stream) {
    for await (const event of events) answer.add(event);
    const whole = answer.whole(soFar);
    scope.end("ok");
    return new Response(JSON.stringify(whole), {
      headers: { "content-type": "application/json", ...runHeaders(group.runs) },
    });
  }
  const first = await events.next();
  timer.first();
  const pieces = streamed(first, events, { soFar, answer, scope, names: request.translated?.names });
  return scope.answer({
    status: 200,
    headers: { "content-type": answer.streamType, "cache-control": "no-cache", ...runHeaders(group.runs) },
    body: new ScopedBody(pieces, scope),
  });
}

/** Throws 400 for parameters of the root that would kill its engine. */
function guardRoot({ root }: RunTarget, plan: CompletionPlan, path: string): void {
  const { extra, ...own } = plan.inputs[0]?.rootSampling ?? {};
  if (root === undefined) return;
  refuseDeadly({
    engine: root.config.engine,
    version: root.engine.capabilities.version,
    vocabSize: root.tokenizer?.vocabSize,
    path,
    body: { ...extra, ...own },
  });
}

function newAnswer(
  http: HttpServices,
  { kind, translated }: OpenAiRequest,
  plan: CompletionPlan,
): RunAnswer {
  const created = unixSeconds(http.clock);
  const id = http.random.hex(24);
  const { model } = plan;
  if (translated !== undefined) return translated.answer({ id, created, model }, plan);
  return new OpenAiAnswer(openAiWriter(kind, { id, created, model }, plan), plan);
}

function openAiWriter(
  kind: OpenAiRequest["kind"],
  { id, ...head }: AnswerHead,
  plan: CompletionPlan,
): AnswerWriter {
  const choices = plan.inputs.length * plan.choices;
  const { logprobs } = plan;
  if (kind === "chat") return new ChatAnswer({ id: `chatcmpl-${id}`, ...head }, { choices, logprobs });
  const echo = (index: number) => plan.echo?.[Math.floor(index / plan.choices)] ?? "";
  return new CompletionAnswer({ id: `cmpl-${id}`, ...head }, { choices, logprobs, echo });
}

/** The pieces of a stream. A failure becomes the last of them. */
async function* streamed(
  first: IteratorResult<RunEvent, void>,
  events: AsyncGenerator<RunEvent, void, undefined>,
  { soFar, answer, scope, names }: {
    soFar: RunsSoFar;
    answer: RunAnswer;
    scope: RequestScope;
    names: ClientNames | undefined;
  },
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for (let next = first; next.done !== true; next = await events.next()) {
      yield* answer.written(next.value, soFar);
    }
    yield* answer.closing(soFar);
  } catch (error) {
    scope.end("stream_error");
    const renamed = names === undefined ? error : inClientsWords(error, names);
    yield* answer.failed(asCanopyError(renamed), soFar);
  } finally {
    await events.return();
  }
}

function usageOf({ runs }: RunGroup, { graph }: CompletionPlan): JsonObject {
  const usages = runs.map((run) => run.usage());
  const answering = new Set([...answeringAgents(graph).map(({ id }) => id), REWRITE_AGENT]);
  const own = usages.flatMap(({ agents }) => agents.filter(({ agent }) => answering.has(agent)));
  return usageBody(usages, own.reduce((sum, { completionTokens }) => sum + completionTokens, 0));
}

function canopyOf(group: RunGroup, plan: CompletionPlan): JsonObject {
  return plan.include === undefined ? {} : { canopy: canopyBody(group.runs, plan.graph, plan.include) };
}
