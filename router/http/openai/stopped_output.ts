import { StopFilter } from "../../engines/protocol/stop_filter.ts";
import type { CompletionPlan } from "./plan.ts";
import type { Run, RunEvent } from "../../moa/run/run.ts";

/**
 * A run's output, each choice of which ends at the router's own stops; the run is told, so that the root stops
 * decoding there.
 */
export async function* stoppedOutput(
  run: Pick<Run, "output" | "satisfy">,
  plan: Pick<CompletionPlan, "choices" | "ownStops">,
): AsyncGenerator<RunEvent, void, undefined> {
  const filters = Array.from({ length: plan.choices }, () => new StopFilter(plan.ownStops));
  for await (const event of run.output) {
    const filter = filters[event.index];
    if (filter === undefined || filter.stopped) continue;
    const { index } = event;
    if (event.type === "end") {
      const rest = filter.flush();
      if (rest !== "") yield { type: "delta", index, delta: { type: "delta", text: rest } };
      yield event;
      continue;
    }
    const text = filter.push(event.delta.text);
    if (filter.stopped) run.satisfy(index);
    yield { ...event, delta: { ...event.delta, text } };
    if (filter.stopped) yield { type: "end", index, finishReason: "stop" };
  }
}
