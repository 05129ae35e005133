import assert from "node:assert/strict";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { TraceEvent } from "../../router/moa/record/trace.ts";
import { createRouter, type Router } from "../../router/router.ts";
import { builtinTokenizer } from "../../simulator/server/backend.ts";
import { makeWorld, type World } from "./world.ts";

/** A world whose router knows its models' tokenizer, so that it can splice and warm. */
export function makeWarmWorld(options: Parameters<typeof makeWorld>[0]): World {
  const world = makeWorld({ ...options, model: { tokenizer: "built-in", ...options.model } });
  return {
    ...world,
    router: () =>
      createRouter({
        config: world.config,
        clock: world.clock,
        random: world.random.stream("router"),
        transport: world.transport,
        loadTokenizer: () => Promise.resolve(builtinTokenizer()),
        earlyExit: options.earlyExit?.(world.clock),
      }),
  };
}

/** Runs a question through a graph and returns the record of the ended run. */
export async function ask(
  router: Router,
  graph: string,
  question: string,
  signal: AbortSignal = new AbortController().signal,
): Promise<RunRecord> {
  const { moa } = router.services;
  const run = moa.start(moa.graphs.get(graph)!, {
    question: { kind: "chat", messages: [{ role: "user", content: question }] },
    rootSampling: {},
    choices: 1,
  }, signal);
  try {
    for await (const _event of run.output);
  } catch {
    // The record tells.
  }
  await run.ended;
  return run.record();
}

/** Events of one type, of one agent or of all. */
export function eventsOf(record: RunRecord, type: string, agent?: string): TraceEvent[] {
  return record.events.filter((event) =>
    event.type === type && (agent === undefined || event.agent === agent)
  );
}

/** A number in an event's data. */
export function figure(event: TraceEvent | undefined, name: string): number {
  const value = event?.data?.[name];
  assert.ok(typeof value === "number", `${event?.type} has no number ${name}`);
  return value;
}
