import { turnByTurn } from "../../../base/turns.ts";
import { unixSeconds } from "../../../base/clock.ts";
import { refuseSprawl } from "../gate/body.ts";
import { type ReadRequest, tracingHeaders } from "../gate/read_request.ts";
import type { HttpServices } from "../gate/services.ts";
import { runHeaders } from "../openai/run_body.ts";
import { closingChunk, graphChunk, wholeGraph } from "./answer.ts";
import { eventStream, finished, startGraph } from "./graph_run.ts";
import { readGraph } from "./read_graph.ts";

/** Serves POST /v1/graph: runs the graph in the request. Throws `CanopyError`. */
export async function serveGraph(
  http: HttpServices,
  { call, body, scope }: ReadRequest,
): Promise<Response> {
  await turnByTurn(http.clock, refuseSprawl(body), scope.signal);
  const { graph, stream, include } = readGraph(http, body);
  const run = await startGraph(http, graph, tracingHeaders(call), scope);
  const answer = { run, graph, include, created: unixSeconds(http.clock) };
  if (stream) {
    return await eventStream({
      run,
      scope,
      chunk: (event) => [graphChunk(answer, event)],
      closing: () => [closingChunk(answer)],
    });
  }
  await finished(run);
  const whole = wholeGraph(answer);
  scope.end("ok");
  return new Response(JSON.stringify(whole), {
    headers: { "content-type": "application/json", ...runHeaders([run]) },
  });
}
