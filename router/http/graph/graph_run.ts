import type { JsonObject } from "../../../base/json.ts";
import { asCanopyError } from "../gate/errors.ts";
import { errorBody } from "../../wire/error_form.ts";
import { type RequestScope, ScopedBody } from "../gate/request_scope.ts";
import type { HttpServices } from "../gate/services.ts";
import { REQUEST_GRAPH } from "./build_graph.ts";
import { runHeaders } from "../openai/run_body.ts";
import type { AgentEvent } from "../../moa/agent/agent_events.ts";
import type { AgentGraph } from "../../moa/graph/graph_types.ts";
import type { Run } from "../../moa/run/run.ts";
import { DONE_EVENT, sseEvent } from "../../wire/sse.ts";

/** Takes a place and starts a run, which holds the place until no engine works for it. Throws `CanopyError`. */
export async function startGraph(
  http: HttpServices,
  graph: AgentGraph,
  headers: Readonly<Record<string, string>>,
  scope: RequestScope,
): Promise<Run> {
  scope.model = REQUEST_GRAPH;
  const release = await http.admission.take(scope.signal);
  let run: Run | undefined;
  try {
    scope.signal.throwIfAborted();
    const question = { kind: "chat", messages: [] } as const;
    const { owner, signal } = scope;
    run = http.moa.start(graph, { question, rootSampling: {}, choices: 1, headers, owner }, signal);
    http.metrics.followRun(REQUEST_GRAPH, run);
    scope.pass?.follow(run);
    return run;
  } finally {
    if (run === undefined) release();
    else void run.ended.then(release);
  }
}

/** Waits until a run has ended and nothing of it is left. Throws its error. */
export async function finished(run: Run): Promise<void> {
  for await (const _ of run.output);
  await run.ended;
}

/** Options of `eventStream`. */
export interface EventStreamOptions {
  readonly run: Run;
  readonly scope: RequestScope;
  /** The events that one event of an agent becomes. */
  readonly chunk: (event: AgentEvent) => JsonObject[];
  /** The last ones, once the run has ended. */
  readonly closing: () => JsonObject[];
}

/**
 * The answer to a request with `stream`. Its head is sent when an agent has said something, so that the error of a
 * request of which nothing comes has its true status; a later error is the stream's last event.
 */
export async function eventStream(options: EventStreamOptions): Promise<Response> {
  const { run, scope } = options;
  const events = run.agentEvents(scope.signal)[Symbol.asyncIterator]();
  const held: AgentEvent[] = [];
  let next = await events.next();
  while (next.done !== true && isFruitless(next.value)) {
    held.push(next.value);
    next = await events.next();
  }
  if (next.done === true) await finished(run);
  const pieces = streamed([...held, ...(next.done === true ? [] : [next.value])], events, options);
  return scope.answer({
    status: 200,
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-cache",
      ...runHeaders([run]),
    },
    body: new ScopedBody(pieces, scope),
  });
}

function isFruitless(event: AgentEvent): boolean {
  return event.type === "end" && event.record.state !== "done";
}

async function* streamed(
  held: readonly AgentEvent[],
  events: AsyncIterator<AgentEvent>,
  { run, scope, chunk, closing }: EventStreamOptions,
): AsyncGenerator<Uint8Array, void, undefined> {
  try {
    for (const event of held) for (const piece of chunk(event)) yield sseEvent(piece);
    for (let next = await events.next(); next.done !== true; next = await events.next()) {
      for (const piece of chunk(next.value)) yield sseEvent(piece);
    }
    await finished(run);
    for (const piece of closing()) yield sseEvent(piece);
    yield DONE_EVENT;
  } catch (error) {
    scope.end("stream_error");
    yield sseEvent(errorBody(asCanopyError(error)));
  } finally {
    await events.return?.();
  }
}
