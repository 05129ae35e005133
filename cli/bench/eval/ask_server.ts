import { deadlineSignal } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { type AnswerRun, answerRunOf } from "../../../bench/evaluation/answer_run.ts";
import { answerWork } from "../../../bench/evaluation/answer_work.ts";
import type { AskMode, EvalAnswer } from "../../../bench/evaluation/eval_record.ts";
import { DurationHistogram } from "../../../bench/statistics/histogram.ts";
import { meanOf } from "../../../bench/statistics/statistics.ts";
import { TransportError } from "../../../base/transport.ts";
import { type ChatEvent, getJson, type Server, streamChat } from "../../kit/client.ts";
import type { Io } from "../../kit/io.ts";
import type { EvalTarget } from "./eval_targets.ts";

/** Longest answer where neither the user nor the protocol sets one. */
export const DEFAULT_MAX_TOKENS = 4096;

/** Asks models and graphs over HTTP, by the names that modes give them; `maxTokens` stands above the protocol's limit. */
export function askServer(
  targets: ReadonlyMap<string, EvalTarget>,
  { maxTokens, timeoutMs }: { readonly maxTokens: number | undefined; readonly timeoutMs: number },
  { transport, clock }: Pick<Io, "transport" | "clock">,
): AskMode {
  return async (name, { messages, stop, temperature, maxTokens: limit }, { seed, logprobs, run, signal }) => {
    const { server, model, graph } = targets.get(name)!;
    const deadline = deadlineSignal(
      clock,
      timeoutMs,
      new Error(`No answer within ${timeoutMs / 1000} s`),
      signal,
    );
    const read = new ReadAnswer(name, clock);
    try {
      const body = {
        model,
        messages: messages.map((message) => ({ ...message })),
        seed,
        max_tokens: maxTokens ?? limit ?? DEFAULT_MAX_TOKENS,
        ...stop === undefined || stop.length === 0 ? {} : { stop: [...stop] },
        ...logprobs === true ? { logprobs: true } : {},
        ...temperature === undefined ? {} : { temperature },
        ...graph === true ? { canopy: { include: ["usage"] } } : {},
      };
      for await (const event of streamChat(transport, server, body, deadline.signal)) read.take(event);
    } finally {
      deadline.release();
    }
    const answer = read.answer();
    if (run !== true || graph !== true) return answer;
    return { ...answer, run: await recordedRun(transport, server, read.runId, signal) };
  };
}

/** What the server keeps of a run; undefined where it keeps nothing, or does not show it. Rejects when `signal` aborts. */
async function recordedRun(
  transport: Io["transport"],
  server: Server,
  runId: string | undefined,
  signal: AbortSignal,
): Promise<AnswerRun | undefined> {
  if (runId === undefined) return undefined;
  try {
    return answerRunOf(
      await getJson(transport, server, `/v1/runs/${encodeURIComponent(runId)}`, signal),
    );
  } catch (error) {
    signal.throwIfAborted();
    // The answer is there: what it took in the tree is then not known.
    if (error instanceof CanopyError || error instanceof TransportError) return undefined;
    throw error;
  }
}

/** An answer as its stream is read; times count from its making, in ms. */
class ReadAnswer {
  readonly #name: string;
  readonly #clock: Pick<Io["clock"], "now">;
  readonly #startMs: number;
  readonly #gaps = new DurationHistogram();
  readonly #logprobs: number[] = [];
  #text = "";
  #firstMs: number | undefined;
  #lastMs: number | undefined;
  #finish: string | undefined;
  #usage: JsonObject = {};
  #canopy: JsonObject | undefined;
  /** Of a graph's answer, where the server tells. */
  runId: string | undefined;

  constructor(name: string, clock: Pick<Io["clock"], "now">) {
    this.#name = name;
    this.#clock = clock;
    this.#startMs = clock.now();
  }

  take(event: ChatEvent): void {
    if (event.type === "head") this.runId = event.runId;
    if (event.type === "usage") this.#usage = event.usage;
    if (event.type === "canopy") this.#canopy = event.canopy;
    if (event.type === "logprobs") this.#logprobs.push(...event.values);
    if (event.type === "finish") this.#finish = event.reason;
    if (event.type === "text") this.#addText(event.text);
    // What comes behind the last word are counts, of a graph when no engine works for it any more.
    if (event.type === "text" || event.type === "finish") this.#lastMs = this.#sinceStart();
  }

  answer(): EvalAnswer {
    const { prompt_tokens: prompt, completion_tokens: completion } = this.#usage;
    const details = this.#usage["completion_tokens_details"];
    const answerTokens = isJsonObject(details) ? details["answer_tokens"] : undefined;
    const completionTokens = typeof completion === "number" ? completion : 0;
    return {
      text: this.#text,
      finish: this.#finish,
      meanLogprob: this.#logprobs.length === 0 ? undefined : meanOf(this.#logprobs),
      ttftMs: this.#firstMs,
      latencyMs: this.#lastMs ?? this.#sinceStart(),
      promptTokens: typeof prompt === "number" ? prompt : 0,
      completionTokens,
      answerTokens: typeof answerTokens === "number" ? answerTokens : completionTokens,
      gaps: this.#gaps.kept(),
      work: answerWork(this.#name, this.#usage, this.#canopy),
    };
  }

  #addText(text: string): void {
    const nowMs = this.#sinceStart();
    if (this.#firstMs !== undefined && this.#lastMs !== undefined) this.#gaps.add(nowMs - this.#lastMs);
    this.#firstMs ??= nowMs;
    this.#text += text;
  }

  #sinceStart(): number {
    return this.#clock.now() - this.#startMs;
  }
}
