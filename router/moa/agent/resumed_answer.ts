import type { Json } from "../../../base/json.ts";
import { Detokenizer } from "../../../ml/tokenizers/detokenizer.ts";
import type { ModelConfig } from "../../../cfgs/schema/config.ts";
import type { ModelTokenizer } from "../../../ml/tokenizers/model_tokenizer.ts";
import type { EngineUsage, GenerateEvent, Prompt, Sampling } from "../../engines/engine.ts";
import { StopFilter } from "../../engines/protocol/stop_filter.ts";
import type { OutputDelta, OutputLog } from "./output_log.ts";
import { EngineError } from "../../worker/engine_error.ts";
import type { CalledWorker } from "../../worker/upstream_call.ts";

/** The last event of a generation. */
type End = Extract<GenerateEvent, { type: "end" }>;

/**
 * Parameters with which an engine would not go on with an answer as it began: grammars begin anew, and these stops are
 * not what the router looks for itself.
 */
const NOT_RESUMABLE = [
  "custom_params",
  "ebnf",
  "guided_choice",
  "guided_grammar",
  "guided_json",
  "guided_regex",
  "include_stop_str_in_output",
  "json_schema",
  "no_stop_trim",
  "regex",
  "response_format",
  "stop_regex",
  "structural_tag",
  "structured_outputs",
];

/** Tokens of the prompt that an answer is read behind: some tokenizers drop a text's first space. */
const CONTEXT_TOKENS = 5;
/** Most tokens of a character that may be incomplete at the seam. */
const CHARACTER_TOKENS = 8;

/** An answer that was broken off, with what it was asked for. */
export interface BrokenAnswer {
  readonly prompt: Prompt;
  readonly sampling: Sampling;
  readonly log: Pick<OutputLog, "text" | "reasoning" | "tokens" | "tokenIds">;
  /** Usage as it was known last, the tokens of earlier attempts included. */
  readonly usage: EngineUsage | undefined;
  readonly tokenizer: ModelTokenizer | undefined;
  readonly engine: ModelConfig["engine"];
  /** It is gone on with again behind its next end, unless that `isPause` says otherwise. */
  readonly open?: boolean | undefined;
}

/** A broken answer that can be gone on with. */
interface Seam {
  readonly broken: BrokenAnswer;
  readonly promptIds: readonly number[];
  readonly detokenizer: Detokenizer;
  /** Text of the tokens written so far, without an incomplete character at its end. */
  readonly decoded: string;
}

/**
 * The rest of an answer that was broken off: another worker reads the prompt and the tokens written so far, and goes
 * on behind them. The text is made here, of the ids alone, and stops are looked for here as well, because no engine
 * knows the text before the seam: half a character or half a stop string may stand there.
 */
export class ResumedAnswer {
  /** The prompt of the other worker. */
  readonly prompt: Extract<Prompt, { kind: "tokens" }>;
  /** The parameters with the limits that are left. */
  readonly sampling: Sampling;
  /** Number of tokens that are kept. */
  readonly tokens: number;
  /**
   * Of an answer that would come out the same each time: why it will not go on as it would have, as the end of a
   * sentence; undefined where it will.
   */
  readonly divergence: string | undefined;
  readonly #promptTokens: number;
  readonly #cachedTokens: number | undefined;
  readonly #detokenizer: Detokenizer;
  readonly #filter: StopFilter;
  /** Text from before the seam that has not come out yet. */
  #pending = "";
  /** Ids that the other worker has given. */
  #ids = 0;
  /** Characters yet to come out of the filter that were out before the seam. */
  #repeated = 0;
  readonly #open: boolean;
  readonly #stopIds: Json | undefined;
  /** The last event, held back: when the answer ends with a token that is no text, it is this one's last. */
  #held: OutputDelta | undefined;
  #usage: EngineUsage;

  constructor({ broken, promptIds, detokenizer, decoded }: Seam) {
    const { sampling, log, usage, engine, open = false } = broken;
    this.tokens = log.tokenIds.length;
    this.#open = open;
    this.#stopIds = sampling.extra?.["stop_token_ids"];
    this.divergence = divergenceOf(sampling, engine);
    this.#promptTokens = promptIds.length;
    this.#cachedTokens = usage?.cachedTokens;
    this.#usage = this.#whole(undefined, this.tokens);
    this.prompt = { kind: "tokens", ids: [...promptIds, ...log.tokenIds] };
    this.sampling = restOf(sampling, this.tokens);
    this.#detokenizer = detokenizer;
    this.#filter = new StopFilter(sampling.stop ?? []);
    const shown = this.#filter.push(decoded);
    this.#pending = shown.slice(log.text.length);
    this.#repeated = Math.max(0, log.text.length - shown.length);
  }

  /**
   * The last events of an answer that lacked nothing but the word that it is over; undefined where there is more to
   * write.
   */
  ended(): GenerateEvent[] | undefined {
    if (this.#filter.stopped) return [...this.#delta(undefined, ""), this.#stopEnd()];
    const { max_tokens } = this.sampling;
    if (max_tokens === undefined || max_tokens > 0) return undefined;
    return this.#finish({ type: "end", finishReason: "length", usage: NO_USAGE });
  }

  /** The events that an unbroken stream would have in place of this one. Throws `EngineError` where ids are missing. */
  take(event: GenerateEvent, worker: CalledWorker): GenerateEvent[] {
    if (event.type === "end") return this.#finish(event);
    const { tokenIds = [], text, usage } = event;
    this.#ids += tokenIds.length;
    if (tokenIds.length === 0 && text !== "") {
      // An engine that held the beginning of a stop string back lets it out alone: the ids that made it are here.
      if (this.#ids === 0 || (usage?.completionTokens ?? 0) > this.#ids) throw noIds(worker);
      return [];
    }
    const held = this.#held;
    this.#held = event;
    if (held === undefined) return [];
    const events = this.#delta(held, this.#filter.push(this.#textOf(held.tokenIds ?? [])));
    return this.#filter.stopped ? [...events, this.#stopEnd()] : events;
  }

  #textOf(ids: readonly number[]): string {
    let text = "";
    for (const id of ids) text += this.#detokenizer.push(id);
    return text;
  }

  #finish(end: End): GenerateEvent[] {
    const held = this.#held;
    const ids = held?.tokenIds ?? [];
    const byToken = end.finishReason === "stop" && typeof end.stopReason !== "string";
    if (this.#open && isPause(end, this.#stopIds)) return this.#pause(end, byToken);
    const last = this.#textOf(byToken ? ids.slice(0, -1) : ids) + this.#detokenizer.flush();
    let text = this.#filter.push(last);
    const unseen = this.#filter.stopped && typeof end.stopReason !== "string";
    const rest = this.#filter.flush();
    // What an engine that has found a stop leaves of it is no text.
    if (typeof end.stopReason !== "string" || !end.stopReason.startsWith(rest)) text += rest;
    const events = this.#delta(held, text);
    if (unseen) return [...events, this.#stopEnd()];
    return [...events, { ...end, usage: this.#whole(end.usage, this.#usage.completionTokens) }];
  }

  /**
   * The last events of a part behind which the answer goes on: an incomplete character and the beginning of a stop
   * string stay back, and a token that ended it is none of the answer's.
   */
  #pause(end: End, byToken: boolean): GenerateEvent[] {
    const held = this.#held;
    const kept = held === undefined || !byToken ? held : withoutLast(held);
    const text = this.#filter.push(this.#textOf(kept?.tokenIds ?? []));
    const events = this.#delta(kept?.tokenIds?.length === 0 ? undefined : kept, text);
    if (this.#filter.stopped) return [...events, this.#stopEnd()];
    return [...events, { ...end, usage: this.#whole(end.usage, this.#usage.completionTokens) }];
  }

  /** An event with other text; what is empty then is left out. */
  #delta(event: OutputDelta | undefined, text: string): OutputDelta[] {
    const fresh = this.#pending + text.slice(this.#repeated);
    this.#repeated = Math.max(0, this.#repeated - text.length);
    this.#pending = "";
    if (event === undefined) return fresh === "" ? [] : [{ type: "delta", text: fresh }];
    const counted = this.#usage.completionTokens + (event.tokenIds?.length ?? 0);
    this.#usage = this.#whole(event.usage, counted);
    return [{ ...event, text: fresh, usage: this.#usage }];
  }

  #stopEnd(): End {
    return { type: "end", finishReason: "stop", stopReason: this.#filter.found, usage: this.#usage };
  }

  /** Both parts' tokens: those before the seam are no prompt, though the other worker has read them as one. */
  #whole(usage: EngineUsage | undefined, counted: number): EngineUsage {
    const cached = usage?.cachedTokens;
    return {
      promptTokens: this.#promptTokens,
      completionTokens: usage === undefined || usage.reported === false
        ? counted
        : this.tokens + usage.completionTokens,
      cachedTokens: this.#cachedTokens ??
        (cached === undefined ? undefined : Math.min(cached, this.#promptTokens)),
      reasoningTokens: usage?.reasoningTokens,
    };
  }
}

const NO_USAGE: EngineUsage = {
  promptTokens: 0,
  completionTokens: 0,
  cachedTokens: undefined,
  reported: false,
};

/**
 * The way to go on with a broken answer; where there is none, the reason, as the end of a sentence: its prompt is not
 * known as tokens, or an engine would go on otherwise than it began.
 */
export function resumeAnswer(broken: BrokenAnswer): ResumedAnswer | string {
  const { prompt, sampling: { extra }, log, tokenizer } = broken;
  if (prompt.kind !== "tokens") return "the engine tokenises its prompt";
  if (tokenizer === undefined) return "the router does not know the model's tokenizer";
  if (log.reasoning !== "" || log.tokenIds.length !== log.tokens) {
    return "the engine did not return all of its token ids";
  }
  const refusal = whyNotGoneOn(broken.sampling);
  if (refusal !== undefined) return refusal;
  const seam = seamOf(prompt.ids, log, {
    tokenizer,
    skipSpecialTokens: extra?.skip_special_tokens !== false,
  });
  return seam === undefined
    ? "its tokens do not give the text that the engine sent"
    : new ResumedAnswer({ broken, promptIds: prompt.ids, ...seam });
}

/** The reason, as the end of a sentence, why parameters keep an answer from being gone on with; undefined where none do. */
export function whyNotGoneOn({ extra, stop = [] }: Sampling): string | undefined {
  const field = NOT_RESUMABLE.find((name) => isSet(extra?.[name]));
  if (field !== undefined) return `it was asked for with \`${field}\``;
  return isSet(extra?.min_tokens) && stop.length > 0
    ? "it was asked for with both `min_tokens` and `stop`"
    : undefined;
}

/**
 * True for an end behind which an answer can go on: its tokens were used up, or the model had no more to say; false where
 * a stop that was asked for was met. `stopIds`: the parameter `stop_token_ids`.
 */
export function isPause({ finishReason, stopReason }: End, stopIds: Json | undefined): boolean {
  if (finishReason === "length") return true;
  if (finishReason !== "stop" || typeof stopReason === "string") return false;
  return !(Array.isArray(stopIds) && stopReason !== undefined && stopIds.includes(stopReason));
}

function withoutLast(delta: OutputDelta): OutputDelta {
  const { tokenIds, logprobs } = delta;
  return {
    ...delta,
    ...(tokenIds === undefined ? {} : { tokenIds: tokenIds.slice(0, -1) }),
    ...(logprobs === undefined ? {} : { logprobs: logprobs.slice(0, -1) }),
  };
}

/** The text of the tokens written so far, and the way to go on with it; undefined where it is not the engine's. */
function seamOf(
  promptIds: readonly number[],
  { text, tokenIds }: BrokenAnswer["log"],
  { tokenizer, skipSpecialTokens }: { tokenizer: ModelTokenizer; skipSpecialTokens: boolean },
): Pick<Seam, "detokenizer" | "decoded"> | undefined {
  const context = promptIds.slice(-CONTEXT_TOKENS);
  const textOf = (ids: readonly number[]) => tokenizer.decode(ids, { skipSpecialTokens });
  const contextLength = textOf(context).length;
  if (tokenIds.length === 0) {
    return { detokenizer: new Detokenizer(tokenizer, context, skipSpecialTokens), decoded: "" };
  }
  for (let incomplete = 0; incomplete < Math.min(CHARACTER_TOKENS, tokenIds.length); incomplete++) {
    const complete = [...context, ...tokenIds.slice(0, tokenIds.length - incomplete)];
    let decoded = textOf(complete).slice(contextLength);
    if (decoded.endsWith("\ufffd")) continue;
    const detokenizer = new Detokenizer(tokenizer, complete, skipSpecialTokens);
    for (const id of tokenIds.slice(tokenIds.length - incomplete)) decoded += detokenizer.push(id);
    return decoded.startsWith(text) ? { detokenizer, decoded } : undefined;
  }
  return undefined;
}

/** The parameters for what comes behind the first `tokens` tokens of an answer. */
function restOf(sampling: Sampling, tokens: number): Sampling {
  const { max_tokens, extra } = sampling;
  const minTokens = extra?.min_tokens;
  return {
    ...sampling,
    ...(max_tokens === undefined ? {} : { max_tokens: Math.max(0, max_tokens - tokens) }),
    ...(typeof minTokens === "number"
      ? { extra: { ...extra, min_tokens: Math.max(0, minTokens - tokens) } }
      : {}),
  };
}

function isSet(value: Json | undefined): boolean {
  return value !== undefined && value !== null && value !== false && value !== 0;
}

/** As `ResumedAnswer.divergence`. SGLang draws by a token's position, if at all by the seed. */
function divergenceOf(sampling: Sampling, engine: ModelConfig["engine"]): string | undefined {
  const isSglang = engine.startsWith("sglang");
  const { temperature, seed } = sampling;
  if (temperature !== 0 && seed === undefined) return undefined;
  if (temperature !== 0 && !isSglang) return "the engine would begin the random numbers of its `seed` anew";
  const penalties = ["frequency_penalty", "presence_penalty"] as const;
  const penalty = penalties.find((name) => (sampling[name] ?? 0) !== 0) ??
    (isSglang && (sampling.repetition_penalty ?? 1) !== 1 ? "repetition_penalty" : undefined);
  return penalty && `the engine would not count its tokens so far for \`${penalty}\``;
}

function noIds({ workerId, url }: CalledWorker): EngineError {
  return new EngineError(`Worker ${workerId} went on with an answer without its token ids`, {
    code: "worker_invalid_answer",
    status: 502,
    workerUrl: url,
    retryable: false,
  });
}
