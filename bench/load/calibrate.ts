import { deadlineSignal } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { JsonObject } from "../../base/json.ts";
import type { Random } from "../../base/random.ts";
import { randomText } from "../experiments/workload.ts";
import { meanOf, quantile } from "../statistics/statistics.ts";
import type { DecodePoint, PrefillPoint } from "./fit_cost.ts";
import { type LoadSample, type LoadTarget, sendOne } from "./request.ts";

/** Options of `measureCost`. */
export interface CalibrationOptions extends LoadTarget {
  readonly model: string;
  /** Words of the longest prompt; each is about a token. */
  readonly maxPromptTokens: number;
  /** Most answers at the same time. */
  readonly maxStreams: number;
  /** Length of each of them. */
  readonly answerTokens: number;
  /** Each measurement is made so many times, and its median counts. */
  readonly repeats: number;
  /** Asks the engine not to stop before (`ignore_eos`, which OpenAI itself refuses). */
  readonly ignoreEos: boolean;
  /** Longest time for one request. */
  readonly timeoutMs: number;
  readonly random: Random;
  readonly signal: AbortSignal;
  /** Called before each measurement with what it is. */
  readonly onPart?: (name: string) => void;
}

/** What was measured of an endpoint. */
export interface MeasuredCost {
  readonly prefills: readonly PrefillPoint[];
  readonly decodes: readonly DecodePoint[];
}

const SHORTEST_PROMPT = 16;
/** Requests before: programs are slow until they have done something for a while. */
const WARM_UPS = 12;
/** From so many tokens a piece on, pieces are no steps: the engine is faster than they are sent or read. */
const SEVERAL_TOKENS = 1.25;
/** Words of the prompts whose answers are decoded: hardly any context, and some. */
const DECODE_PROMPTS = [32, 1024];

/**
 * Measures what an OpenAI-compatible endpoint takes for prompts of growing length, and for each step of 1 to
 * `maxStreams` answers at a time. Nothing else may use it meanwhile. Rejects with `calibration_failed` (502).
 */
export async function measureCost(options: CalibrationOptions): Promise<MeasuredCost> {
  const { maxPromptTokens, maxStreams, repeats, onPart } = options;
  for (let index = 0; index < WARM_UPS; index++) {
    onPart?.(`warm-up, ${index + 1} of ${WARM_UPS}`);
    await one(options, `warm-up/${index}`, { words: SHORTEST_PROMPT * (index + 1), tokens: 8 });
  }
  const prompts = growing(SHORTEST_PROMPT, maxPromptTokens).map((words) => ({
    words,
    points: new Array<PrefillPoint>(),
  }));
  const answers = DECODE_PROMPTS.flatMap((length) =>
    growing(1, maxStreams).map((streams) => ({
      words: Math.min(length, maxPromptTokens),
      streams,
      points: new Array<DecodePoint>(),
    }))
  );
  // One after the other in each round, so that what changes meanwhile hits all of them alike.
  for (let round = 1; round <= repeats; round++) {
    for (const { words, points } of prompts) {
      onPart?.(`round ${round} of ${repeats}: prompt of ${words} words`);
      points.push(await prefillPoint(options, words, round));
    }
    for (const { words, streams, points } of answers) {
      onPart?.(`round ${round} of ${repeats}: ${streams} answers at a time to prompts of ${words} words`);
      points.push(await decodePoint(options, { words, streams }, round));
    }
  }
  return {
    prefills: prompts.map(({ points }) => ({
      tokens: medianOf(points.map(({ tokens }) => tokens)),
      ms: medianOf(points.map(({ ms }) => ms)),
    })),
    decodes: answers.map(({ streams, points }) => ({
      streams,
      context: medianOf(points.map(({ context }) => context)),
      ms: medianOf(points.map(({ ms }) => ms)),
    })),
  };
}

/** From the first to the last in steps of a factor of two, and, where there is room, of half of one. */
function growing(first: number, last: number): number[] {
  const values: number[] = [];
  for (let value = first; value < last; value *= 2) {
    values.push(value);
    const between = 1.5 * value;
    if (Number.isInteger(between) && between < last && value > first) values.push(between);
  }
  return [...values, last];
}

async function prefillPoint(
  options: CalibrationOptions,
  words: number,
  round: number,
): Promise<PrefillPoint> {
  const sample = await one(options, `prefill/${words}/${round}`, { words, tokens: 1 });
  // A first token may have no text of its own.
  return { tokens: sample.inputTokens - sample.cachedTokens, ms: sample.ttftMs ?? sample.e2eMs };
}

/** One piece of an answer: its place in it, and the time since the one before. */
interface Piece {
  readonly atMs: number;
  readonly gapMs: number;
  readonly index: number;
}

async function decodePoint(
  options: CalibrationOptions,
  { words, streams }: { readonly words: number; readonly streams: number },
  round: number,
): Promise<DecodePoint> {
  const { answerTokens: tokens, clock } = options;
  const answers = await Promise.all(Array.from({ length: streams }, async (_, stream) => {
    const pieces: Piece[] = [];
    const onGap = (gapMs: number) => pieces.push({ atMs: clock.now(), gapMs, index: pieces.length + 1 });
    const name = `decode/${words}/${streams}/${round}/${stream}`;
    const { inputTokens, outputTokens } = await one(options, name, { words, tokens, onGap });
    return { pieces, inputTokens, tokensPerPiece: outputTokens / (pieces.length + 1) };
  }));
  // Only while all of them decode, and no prompt is read.
  const fromMs = Math.max(...answers.map(({ pieces: [first] }) => first?.atMs ?? Infinity));
  const untilMs = Math.min(...answers.map(({ pieces }) => pieces.at(-1)?.atMs ?? -Infinity));
  const steps = answers.flatMap(({ pieces, inputTokens, tokensPerPiece }) =>
    pieces.filter(({ atMs }) => atMs >= fromMs && atMs <= untilMs)
      .map(({ gapMs, index }) => ({ gapMs, context: inputTokens + index * tokensPerPiece }))
  );
  if (steps.length === 0) {
    throw failed(
      `of ${streams} answers at a time there was no moment at which all were being written: ` +
        "ask for longer ones with --answer-tokens",
    );
  }
  const perPiece = meanOf(answers.map(({ tokensPerPiece }) => tokensPerPiece));
  const gaps = steps.map(({ gapMs }) => gapMs);
  return {
    streams,
    context: streams * medianOf(steps.map(({ context }) => context)),
    ms: perPiece < SEVERAL_TOKENS ? medianOf(gaps) : meanOf(gaps) / perPiece,
  };
}

function medianOf(values: readonly number[]): number {
  return quantile([...values].sort((a, b) => a - b), 0.5);
}

async function one(
  options: CalibrationOptions,
  name: string,
  { words, tokens, onGap = () => {} }: {
    readonly words: number;
    readonly tokens: number;
    readonly onGap?: (ms: number) => void;
  },
): Promise<LoadSample> {
  const { clock, random, signal, timeoutMs, model, ignoreEos } = options;
  const overdue = new CanopyError(`no answer within ${timeoutMs / 1000} s`, { code: "timeout", status: 504 });
  const deadline = deadlineSignal(clock, timeoutMs, overdue, signal);
  const body: JsonObject = {
    model,
    messages: [{ role: "user", content: randomText(random.stream(name), words) }],
    max_tokens: tokens,
    temperature: 0,
  };
  if (ignoreEos) body.ignore_eos = true;
  try {
    const sample = await sendOne(options, body, deadline.signal, onGap);
    signal.throwIfAborted();
    if (sample.error !== undefined) throw failed(sample.error);
    if (sample.inputTokens === 0) throw failed("its answers do not say how many tokens their prompts have");
    return sample;
  } finally {
    deadline.release();
  }
}

function failed(problem: string): CanopyError {
  return new CanopyError(`Cannot calibrate: ${problem}`, { code: "calibration_failed", status: 502 });
}
