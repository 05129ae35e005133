import { turnByTurn } from "../../../base/turns.ts";
import { refuseSprawl } from "../gate/body.ts";
import { type ReadRequest, tracingHeaders } from "../gate/read_request.ts";
import type { HttpServices } from "../gate/services.ts";
import { eventStream, finished, startGraph } from "./graph_run.ts";
import { shellAnswer, ShellStream } from "./shell_answer.ts";
import { isShellRequest, readShellRequest } from "./shell_request.ts";
import { runHeaders } from "../openai/run_body.ts";
import { serveByModel } from "../openai/dispatch.ts";

/** Serves POST /generate: with slots in its texts a graph, without them the engine model's own business. */
export async function serveGenerate(http: HttpServices, request: ReadRequest): Promise<Response> {
  const { call, body, scope } = request;
  if (!isShellRequest(body)) return await serveByModel(http, request, "engine");
  await turnByTurn(http.clock, refuseSprawl(body), scope.signal);
  const { graph, names, isList, stream } = readShellRequest(http, body);
  const run = await startGraph(http, graph, tracingHeaders(call), scope);
  if (stream) {
    const events = new ShellStream(names, isList);
    return await eventStream({ run, scope, chunk: (event) => [events.chunk(event)], closing: () => [] });
  }
  await finished(run);
  const agents = new Map(run.record().agents.map((agent) => [agent.id, agent]));
  const answers = names.map((name) => agents.get(name)).filter((agent) => agent !== undefined).map(
    shellAnswer,
  );
  scope.end("ok");
  return new Response(JSON.stringify(isList ? answers : answers[0] ?? null), {
    headers: { "content-type": "application/json", ...runHeaders([run]) },
  });
}
