import { isJsonObject, type Json, type JsonObject } from "../../../base/json.ts";
import type { EngineUsage, GenerateEvent, TokenLogprob } from "../engine.ts";
import { finishReasonOf, parseObject } from "../openai/openai_stream.ts";
import {
  type AnswerDecoder,
  type DecodedDelta,
  type End,
  type NewDelta,
  readEvents,
} from "../protocol/read_events.ts";
import type { CallerOptions } from "../protocol/engine_options.ts";
import { CumulativeCut, hasAt } from "./cumulative_cut.ts";
import type { CalledWorker, UpstreamCall } from "../../worker/upstream_call.ts";
import { cutStream, givenUp, readComplaint, streamedError } from "../../worker/worker_errors.ts";

/** Reads the events of SGLang's `/generate`. */
export function readSglang(
  call: UpstreamCall,
  { clock, capabilities: { incrementalStream } }: Pick<CallerOptions, "clock" | "capabilities">,
): AsyncGenerator<GenerateEvent, void, void> {
  return readEvents(call, { clock, decoderOf: (worker) => new SglangDecoder(worker, incrementalStream) });
}

/**
 * Turns the events of one SGLang `/generate` stream into deltas, whichever of its versions and flags wrote them:
 * text, ids and log-probabilities may each hold all so far or only what is new, and 0.5.3 puts the last five prompt
 * ids in front of the first event's. `completion_tokens` says how many tokens are new; these are always the last.
 */
export class SglangDecoder implements AnswerDecoder {
  readonly #worker: CalledWorker;
  readonly #incremental: boolean | undefined;
  readonly #cut: CumulativeCut | undefined;
  #textLength = 0;
  /** All text so far; kept only while it is not known whether events hold it all. */
  #text = "";
  #tokens = 0;
  #idsExact = true;
  #end: End | undefined;

  constructor(worker: CalledWorker, incremental: boolean | undefined) {
    this.#worker = worker;
    this.#incremental = incremental;
    if (incremental === false) this.#cut = new CumulativeCut();
  }

  /** One event's delta, undefined if it brings nothing new. Throws `EngineError` for error and abort events. */
  push(data: string): DecodedDelta | undefined {
    const fresh = this.#cut?.cut(data);
    return this.#deltaOf(parseObject(fresh ?? data, this.#worker), fresh !== undefined);
  }

  pushParsed(event: JsonObject): DecodedDelta | undefined {
    this.#cut?.forget();
    return this.#deltaOf(event, false);
  }

  /** `isCut`: its text holds only what is new. */
  #deltaOf(event: JsonObject, isCut: boolean): DecodedDelta | undefined {
    if (event.error !== undefined || event.object === "error") {
      throw streamedError(this.#worker, readComplaint(event));
    }
    const meta = isJsonObject(event.meta_info) ? event.meta_info : {};
    const finish = isJsonObject(meta.finish_reason) ? meta.finish_reason : undefined;
    if (finish?.type === "abort" || finish?.type === "error") {
      throw givenUp(this.#worker, finish.type, {
        ...readComplaint({ message: finish.message ?? "" }),
        status: typeof finish.status_code === "number" ? finish.status_code : undefined,
      });
    }
    const text = this.#newText(typeof event.text === "string" ? event.text : "", isCut);
    const total = typeof meta.completion_tokens === "number" ? meta.completion_tokens : this.#tokens;
    const newTokens = Math.max(0, total - this.#tokens);
    this.#tokens = total;
    const logprobs = logprobsOf(meta, newTokens);
    const tokenIds = this.#newIds(event.output_ids, logprobs, newTokens);
    const usage = usageOf(meta, total);
    if (finish !== undefined) this.#end = endOf(finish, usage);
    if (text === "" && tokenIds === undefined && logprobs === undefined) return undefined;
    const delta: NewDelta = { type: "delta", text, usage };
    if (tokenIds !== undefined) delta.tokenIds = tokenIds;
    if (logprobs !== undefined) delta.logprobs = logprobs;
    return delta;
  }

  /** Events that hold all so far replace the ones before them. */
  repeats(next: string): boolean {
    return this.#incremental === false && next.startsWith('{"text":');
  }

  get finished(): boolean {
    return this.#end !== undefined;
  }

  /** The last event. Throws `EngineError` when the generation is not over. */
  end(): End {
    if (this.#end === undefined) throw cutStream(this.#worker);
    return this.#end;
  }

  #newText(text: string, isNew: boolean): string {
    if (this.#incremental === true) return text;
    if (isNew) {
      this.#textLength += text.length;
      return text;
    }
    if (this.#incremental === false) {
      const fresh = text.slice(this.#textLength);
      this.#textLength = Math.max(this.#textLength, text.length);
      return fresh;
    }
    if (hasAt(text, 0, this.#text)) {
      const fresh = text.slice(this.#text.length);
      this.#text = text;
      return fresh;
    }
    this.#text += text;
    return text;
  }

  #newIds(
    value: Json | undefined,
    logprobs: readonly TokenLogprob[] | undefined,
    fresh: number,
  ): number[] | undefined {
    if (fresh === 0 || !this.#idsExact) return undefined;
    const all = Array.isArray(value) ? value : [];
    // All so far may come with each event: only the last ones are looked at.
    const last = all.slice(-fresh);
    if (last.length === fresh && last.every((id) => typeof id === "number")) return last;
    const ids = all.filter((id) => typeof id === "number");
    if (ids.length >= fresh) return ids.slice(ids.length - fresh);
    // 0.5.3 to 0.5.5 lose ids when events are merged; the log-probabilities still have them.
    const fromLogprobs = logprobs?.flatMap((entry) => entry.tokenId ?? []) ?? [];
    if (fromLogprobs.length === fresh) return fromLogprobs;
    this.#idsExact = false;
    return undefined;
  }
}

function endOf(finish: JsonObject, usage: EngineUsage): End {
  const { type, matched } = finish;
  return {
    type: "end",
    finishReason: finishReasonOf(typeof type === "string" ? type : "stop"),
    ...(typeof matched === "string" || typeof matched === "number" ? { stopReason: matched } : {}),
    usage,
  };
}

function usageOf(meta: JsonObject, completionTokens: number): EngineUsage {
  return {
    promptTokens: typeof meta.prompt_tokens === "number" ? meta.prompt_tokens : 0,
    completionTokens,
    cachedTokens: typeof meta.cached_tokens === "number" ? meta.cached_tokens : undefined,
    ...(typeof meta.reasoning_tokens === "number" ? { reasoningTokens: meta.reasoning_tokens } : {}),
  };
}

/** The log-probabilities of the last `fresh` tokens. */
function logprobsOf(meta: JsonObject, fresh: number): TokenLogprob[] | undefined {
  const all = meta.output_token_logprobs;
  if (!Array.isArray(all) || fresh === 0 || all.length < fresh) return undefined;
  const tops = Array.isArray(meta.output_top_logprobs) ? meta.output_top_logprobs : [];
  const list: TokenLogprob[] = [];
  for (let back = fresh; back > 0; back--) {
    const one = tokenLogprob(all[all.length - back]);
    if (one === undefined) return undefined;
    const row = tops[tops.length - back];
    const top = Array.isArray(row) ? row.flatMap((item) => tokenLogprob(item) ?? []) : [];
    list.push(top.length === 0 ? one : { ...one, top });
  }
  return list;
}

/** SGLang's `[logprob, id, text or null]`. */
function tokenLogprob(
  item: Json | undefined,
): { token: string; logprob: number; tokenId: number } | undefined {
  if (!Array.isArray(item)) return undefined;
  const [logprob, tokenId, token] = item;
  if (typeof logprob !== "number" || typeof tokenId !== "number") return undefined;
  return { token: typeof token === "string" ? token : "", logprob, tokenId };
}
