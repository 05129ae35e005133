import type { Clock } from "../../base/clock.ts";
import { AsyncQueue } from "../../base/queue.ts";
import { TransportError } from "../../base/transport.ts";
import type { Strike } from "../engine/faults.ts";
import type { Events } from "./reply.ts";
import { Utf8Arena } from "./utf8.ts";

/** Events of a slowed stream that wait for their time. */
const MAX_SLOW_EVENTS = 1024;

const utf8 = new Utf8Arena();

/** Facts about a request that its faults need. */
export interface StruckRequest {
  readonly url: string;
  readonly beganMs: number;
  readonly clock: Clock;
}

/** The body of a whole answer as bytes; `truncate` cuts it in half. */
export function faultyBytes(bytes: Uint8Array, strike: Strike | undefined, url: string): Events {
  if (strike?.kind !== "truncate") return wholeBody(bytes);
  return truncated(wholeBody(bytes.subarray(0, bytes.length >> 1)), 1, url);
}

/** A stream of events that a fault may cut, split or slow. */
export function faultyEvents(events: Events, strike: Strike | undefined, request: StruckRequest): Events {
  switch (strike?.kind) {
    case "truncate":
      return truncated(events, Math.max(0, strike.value ?? 1), request.url);
    case "split":
      return split(events);
    case "slow":
      return slowed(events, slowness(strike), request);
    default:
      return events;
  }
}

/** Factor on the duration of a request that is struck by `slow`. */
export function slowness(strike: Strike): number {
  return strike.value ?? 10;
}

async function* truncated(
  events: Events,
  count: number,
  url: string,
): Events {
  try {
    for (let sent = 0; sent < count; sent++) {
      const event = await events.next();
      if (event.done === true) return;
      yield event.value;
    }
  } finally {
    await events.return();
  }
  throw new TransportError("reset_in_body", url);
}

/** Sends every event in two pieces, cut anywhere: as TCP may. */
async function* split(events: Events): Events {
  let cut = 1;
  for await (const event of events) {
    const bytes = typeof event === "string" ? utf8.encode(event) : event;
    cut = (cut * 31 + 7) % 8191;
    const at = cut % (bytes.length + 1);
    for (const piece of [bytes.slice(0, at), bytes.slice(at)]) if (piece.length > 0) yield piece;
  }
}

/** Delivers each event `factor` times as late after the request's begin as it comes. */
async function* slowed(
  events: Events,
  factor: number,
  { beganMs, clock }: StruckRequest,
): Events {
  const queue = new AsyncQueue<{ event: string | Uint8Array; atMs: number }>(MAX_SLOW_EVENTS);
  const pump = async () => {
    for await (const event of events) await queue.push({ event, atMs: clock.now() });
    queue.close();
  };
  pump().catch((error) => queue.fail(error));
  for await (const { event, atMs } of queue) {
    const delayMs = beganMs + factor * (atMs - beganMs) - clock.now();
    if (delayMs > 0) await clock.sleep(delayMs);
    yield event;
  }
}

async function* wholeBody(bytes: Uint8Array): Events {
  await Promise.resolve();
  if (bytes.length > 0) yield bytes;
}
