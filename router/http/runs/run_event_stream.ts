import type { JsonObject } from "../../../base/json.ts";
import { AsyncQueue } from "../../../base/queue.ts";
import { asCanopyError } from "../gate/errors.ts";
import { errorBody } from "../../wire/error_form.ts";
import { traceEventBody } from "../openai/run_body.ts";
import type { Run } from "../../moa/run/run.ts";
import { DONE, DONE_EVENT, sseEvent } from "../../wire/sse.ts";

/** Events that wait for a client that does not read. */
const CAPACITY = 16;
const HEADERS = { "content-type": "text/event-stream", "cache-control": "no-cache" } as const;

/** Options of `runEventStream`. */
export interface RunEventOptions {
  /** True for `agent_delta` events, too: what each agent writes. */
  readonly texts: boolean;
  /** Aborts when the client has gone. */
  readonly client: AbortSignal;
}

/** The events of a run as an answer: one `data:` line each, `[DONE]` at the end of the run. */
export function runEventStream(run: Run, { texts, client }: RunEventOptions): Response {
  const gone = new AbortController();
  const onClientGone = () => gone.abort(client.reason);
  client.addEventListener("abort", onClientGone, { once: true });
  if (client.aborted) onClientGone();
  const events = (texts ? withTexts(run, gone.signal) : traced(run, gone.signal))[Symbol.asyncIterator]();
  const finish = () => client.removeEventListener("abort", onClientGone);
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const next = await events.next();
          if (next.done !== true) return controller.enqueue(sseEvent(next.value));
          controller.enqueue(DONE_EVENT);
        } catch (error) {
          if (!gone.signal.aborted) controller.enqueue(sseEvent(errorBody(asCanopyError(error))));
        }
        finish();
        controller.close();
      },
      async cancel() {
        finish();
        gone.abort(new DOMException("The client has gone", "AbortError"));
        await events.return?.();
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(body, { headers: HEADERS });
}

/** The events of an ended run, each as JSON, as an answer like that of `runEventStream`. */
export function endedEventStream(events: readonly string[]): Response {
  const body = [...events, DONE].map((event) => `data: ${event}\n\n`).join("");
  return new Response(body, { headers: HEADERS });
}

async function* traced(run: Run, signal: AbortSignal): AsyncGenerator<JsonObject, void, undefined> {
  for await (const event of run.events(signal)) yield traceEventBody(event);
}

async function* written(run: Run, signal: AbortSignal): AsyncGenerator<JsonObject, void, undefined> {
  for await (const event of run.agentEvents(signal)) {
    if (event.type !== "delta") continue;
    const { agent, text, reasoning } = event;
    yield { type: "agent_delta", agent, text, ...(reasoning === "" ? {} : { reasoning }) };
  }
}

/** The trace and what agents write, each in its order, as they come; ends with the later of the two. */
async function* withTexts(run: Run, signal: AbortSignal): AsyncGenerator<JsonObject, void, undefined> {
  const queue = new AsyncQueue<JsonObject>(CAPACITY);
  const copy = async (events: AsyncIterable<JsonObject>) => {
    for await (const event of events) await queue.push(event, signal);
  };
  Promise.all([copy(traced(run, signal)), copy(written(run, signal))]).then(
    () => queue.close(),
    (error) => queue.fail(error),
  );
  yield* queue;
}
