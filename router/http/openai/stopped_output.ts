import type { RunEvent } from "../../moa/run_types.ts";
import { StopFilter } from "../../engines/stop_filter.ts";
import type { Plan } from "./plan.ts";

/**
 * A run's output, each choice of which ends at the router's own stops. When all choices have ended, the output is
 * left: what the root still decodes is stopped.
 */
export async function* stoppedOutput(
  output: AsyncIterable<RunEvent>,
  plan: Pick<Plan, "choices" | "ownStops">,
): AsyncGenerator<RunEvent, void, undefined> {
  const filters = Array.from({ length: plan.choices }, () => new StopFilter(plan.ownStops));
  let open = plan.choices;
  for await (const event of output) {
    const filter = filters[event.index];
    if (filter === undefined || filter.stopped) continue;
    const { index } = event;
    if (event.type === "end") {
      const rest = filter.flush();
      if (rest !== "") yield { type: "delta", index, delta: { type: "delta", text: rest } };
      yield event;
      open--;
    } else {
      const text = filter.push(event.delta.text);
      yield { ...event, delta: { ...event.delta, text } };
      if (!filter.stopped) continue;
      yield { type: "end", index, finishReason: "stop" };
      open--;
    }
    if (open === 0) return;
  }
}
