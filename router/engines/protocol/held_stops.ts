import type { GenerateEvent } from "../engine.ts";
import { StopFilter } from "./stop_filter.ts";

/**
 * The events of an engine that streams the beginning of a stop string before it knows that it is one: text that may
 * begin a stop is held back until the next token tells, or the end does.
 */
export async function* heldStops(
  events: AsyncGenerator<GenerateEvent, void, void>,
  stops: readonly string[],
): AsyncGenerator<GenerateEvent, void, void> {
  const filter = new StopFilter(stops);
  for await (const event of events) {
    if (event.type === "delta") {
      yield { ...event, text: filter.push(event.text) };
      continue;
    }
    const rest = filter.flush();
    const begunStop = typeof event.stopReason === "string" && event.stopReason.startsWith(rest);
    if (rest !== "" && !begunStop) yield { type: "delta", text: rest };
    yield event;
  }
}
