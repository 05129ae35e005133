import type { Clock } from "../../../base/clock.ts";
import { copied, joinedInTurns } from "../../../base/bytes.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { turnByTurn, type Turns } from "../../../base/turns.ts";
import type { IncomingResponse } from "../../../base/transport.ts";
import type { GenerateEvent } from "../engine.ts";
import { ByteBlocks } from "../../wire/byte_blocks.ts";
import { LONG_DATA_BYTES, type LongData, LongEventParser } from "../../wire/long_events.ts";
import { parseJsonInTurns } from "../../wire/parse_json.ts";
import { DONE } from "../../wire/sse.ts";
import { EngineError } from "../../worker/engine_error.ts";
import { accepted, type CalledWorker, type Read, type UpstreamCall } from "../../worker/upstream_call.ts";
import { invalidAnswer } from "../../worker/worker_errors.ts";

/** The content of one event of an engine. */
export type DecodedDelta = Extract<GenerateEvent, { type: "delta" }>;
/** A delta in the making: fields are added one by one, because there is one for every token. */
export type NewDelta = { -readonly [Field in keyof DecodedDelta]: DecodedDelta[Field] };
/** An engine's last word. */
export type End = Extract<GenerateEvent, { type: "end" }>;

/** Understands the events of one answer, in their order. */
export interface AnswerDecoder {
  /** One event's delta, undefined if it brings nothing new. Throws `EngineError` for errors in the stream. */
  push(data: string): DecodedDelta | undefined;
  /** `push` of an event that is parsed already. */
  pushParsed(event: JsonObject): DecodedDelta | undefined;
  /** True when the next event of the stream, if it is there already, says all that this one does. */
  repeats?(next: string): boolean;
  /** True once the generation is over, whatever else its stream may tell. */
  readonly finished: boolean;
  /** The last event. Throws `EngineError` when the generation is not over. */
  end(): End;
}

/** Bytes of a stream that are read in a turn: a worker that writes as fast would have all of them. */
const TURN_BYTES = 1024 * 1024;
const DECODER = new TextDecoder();
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
    const answer = await restOf(call, clock);
    const delta = typeof answer === "string"
      ? decoder.push(answer)
      : decoder.pushParsed(await parseLong(answer, { clock, worker }));
    call.complete();
    if (delta !== undefined) yield delta;
  } else {
    const parser = new LongEventParser({ tooLong: (what) => invalidAnswer(worker, what) });
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
        if (typeof next === "string" && decoder.repeats?.(next) === true) continue;
        const delta = typeof data === "string"
          ? decoder.push(data)
          : decoder.pushParsed(await parseLong(data, { clock, worker }));
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

/** The rest of a call's answer, cut off after `MAX_ANSWER_BYTES`. */
async function restOf(call: UpstreamCall, clock: Clock): Promise<string | LongData> {
  const answer = new ByteBlocks();
  let turnEnd = TURN_BYTES;
  while (answer.length < MAX_ANSWER_BYTES) {
    const { done, value } = await call.next();
    if (done === true) break;
    answer.append(value);
    if (answer.length < turnEnd) continue;
    turnEnd = answer.length + TURN_BYTES;
    await clock.sleep(0);
  }
  return answer.length > LONG_DATA_BYTES ? answer.blocks : DECODER.decode(copied(answer.blocks));
}

/** A long event. Throws `EngineError` unless it is a JSON object. */
async function parseLong(
  data: LongData,
  { clock, worker }: { readonly clock: Clock; readonly worker: CalledWorker },
): Promise<JsonObject> {
  await clock.sleep(0);
  let value: unknown;
  try {
    value = await turnByTurn(clock, valueOf(data));
  } catch (cause) {
    throw invalidAnswer(worker, "an event of its stream is not JSON", cause);
  }
  if (!isJsonObject(value)) throw invalidAnswer(worker, "an event of its stream is not an object");
  return value;
}

function* valueOf(data: LongData): Turns<unknown> {
  const bytes = yield* joinedInTurns(data);
  yield;
  try {
    const value = yield* parseJsonInTurns(bytes, { exact: [] });
    // A text of megabytes is still in pieces, which its first reader joins at once.
    yield;
    return value;
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    // It is not UTF-8: what cannot be decoded stands as U+FFFD, as in short events.
    return JSON.parse(DECODER.decode(bytes));
  }
}
