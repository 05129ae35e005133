import type { Clock } from "../../../base/clock.ts";
import { turnByTurn } from "../../../base/turns.ts";
import type { IncomingResponse } from "../../../base/transport.ts";
import type { GenerateEvent } from "../engine.ts";
import { parseJsonInTurns } from "../../wire/parse_json.ts";
import { DONE, SseParser } from "../../wire/sse.ts";
import { EngineError } from "../../worker/engine_error.ts";
import {
  accepted,
  type CalledWorker,
  type Read,
  restAsText,
  type UpstreamCall,
} from "../../worker/upstream_call.ts";
import { invalidAnswer } from "../../worker/worker_errors.ts";

/** The content of one event of an engine. */
export type DecodedDelta = Extract<GenerateEvent, { type: "delta" }>;
/** A delta in the making: fields are added one by one, because there is one for every token. */
export type NewDelta = { -readonly [Field in keyof DecodedDelta]: DecodedDelta[Field] };
/** An engine's last word. */
export type End = Extract<GenerateEvent, { type: "end" }>;

/** Understands the events of one answer, in their order. */
export interface AnswerDecoder {
  /**
   * One event's delta, undefined if it brings nothing new. `parsed`: its value, where it is known already. Throws
   * `EngineError` for errors in the stream.
   */
  push(data: string, parsed?: unknown): DecodedDelta | undefined;
  /** True when the next event of the stream, if it is there already, says all that this one does. */
  repeats?(next: string): boolean;
  /** True once the generation is over, whatever else its stream may tell. */
  readonly finished: boolean;
  /** The last event. Throws `EngineError` when the generation is not over. */
  end(): End;
}

/** Length of an event, in UTF-16 units, that is parsed in turns of its own. */
const LONG_EVENT = 256 * 1024;
/** Bytes of a stream that are read in a turn: a worker that writes as fast would have all of them. */
const TURN_BYTES = 1024 * 1024;
const ENCODER = new TextEncoder();
/** Longest answer accepted from a server that does not stream though it was asked to. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** The next read; the end where the worker is lost after the last word of its answer. */
async function nextRead(call: UpstreamCall, decoder: AnswerDecoder): Promise<Read> {
  try {
    return await call.next();
  } catch (error) {
    if (decoder.finished && error instanceof EngineError) return { done: true, value: undefined };
    throw error;
  }
}

/** Options of `readEvents`. */
export interface ReadEventsOptions {
  readonly clock: Clock;
  readonly decoderOf: (worker: CalledWorker) => AnswerDecoder;
  /** Opens the call in another way, such as a retry's. */
  readonly open?: ((call: UpstreamCall) => Promise<IncomingResponse>) | undefined;
}

/** Opens a call and reads its answer, streamed or whole, into events. One that is long has turns of its own. */
export async function* readEvents(
  call: UpstreamCall,
  { clock, decoderOf, open = accepted }: ReadEventsOptions,
): AsyncGenerator<GenerateEvent, void, void> {
  const response = await open(call);
  const { worker } = call;
  const decoder = decoderOf(worker);
  if ((response.headers["content-type"] ?? "").startsWith("application/json")) {
    const delta = decoder.push(await restAsText(call, MAX_ANSWER_BYTES));
    call.complete();
    if (delta !== undefined) yield delta;
  } else {
    const parser = new SseParser({ tooLong: (what) => invalidAnswer(worker, what) });
    let done = false;
    let turnBytes = 0;
    while (!done) {
      const read = await nextRead(call, decoder);
      if (read.done === true) break;
      turnBytes += read.value.length;
      if (turnBytes > TURN_BYTES) {
        turnBytes = 0;
        await clock.sleep(0);
      }
      const events = parser.push(read.value);
      for (let at = 0; at < events.length; at++) {
        const data = events[at]!;
        const next = events[at + 1];
        if (data === DONE) {
          done = true;
          call.complete();
          break;
        }
        if (next !== undefined && decoder.repeats?.(next) === true) continue;
        const parsed = data.length > LONG_EVENT ? await parseLong(data, clock, worker) : undefined;
        const delta = decoder.push(data, parsed);
        if (delta === undefined) continue;
        call.gotToken();
        yield delta;
      }
    }
  }
  const end = decoder.end();
  call.complete();
  yield end;
}

/** The value of a long event. Throws `EngineError` where it is not JSON. */
async function parseLong(data: string, clock: Clock, worker: CalledWorker): Promise<unknown> {
  await clock.sleep(0);
  const bytes = ENCODER.encode(data);
  await clock.sleep(0);
  try {
    return await turnByTurn(clock, parseJsonInTurns(bytes, { exact: [] }));
  } catch (cause) {
    throw invalidAnswer(worker, "an event of its stream is not JSON", cause);
  }
}
