import { AsyncQueue } from "../../../base/queue.ts";
import type { AgentCall } from "./agent_call.ts";
import type { AgentRecord } from "../record/run_record.ts";

/** An agent's output as it comes; then, once, its end. */
export type AgentEvent =
  | { readonly type: "delta"; readonly agent: string; readonly text: string; readonly reasoning: string }
  | { readonly type: "end"; readonly agent: string; readonly record: AgentRecord };

/** Events that wait for the reader; what is not in it yet is still in the agents' logs. */
const CAPACITY = 16;

/**
 * Reads what several calls say, as it comes, and the end of each. A slow reader slows no agent: it gets much at a time.
 * Throws the signal's reason when it aborts.
 */
export async function* readAgents(
  calls: readonly AgentCall[],
  signal: AbortSignal,
): AsyncGenerator<AgentEvent, void, undefined> {
  const queue = new AsyncQueue<AgentEvent>(CAPACITY);
  const stop = new AbortController();
  const onAbort = () => stop.abort(signal.reason);
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  Promise.all(calls.map((call) => copy(call, queue, stop.signal))).then(
    () => queue.close(),
    (error) => queue.fail(error),
  );
  try {
    for await (const event of queue) yield event;
  } finally {
    signal.removeEventListener("abort", onAbort);
    stop.abort(new Error("The agents' output is not read any more"));
  }
}

async function copy(call: AgentCall, to: AsyncQueue<AgentEvent>, signal: AbortSignal): Promise<void> {
  for await (const { text, reasoning } of call.log.read(signal)) {
    if (text === "" && (reasoning ?? "") === "") continue;
    await to.push({ type: "delta", agent: call.id, text, reasoning: reasoning ?? "" }, signal);
  }
  await to.push({ type: "end", agent: call.id, record: call.record() }, signal);
}
