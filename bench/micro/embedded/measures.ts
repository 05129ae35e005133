import process from "node:process";
import type { Clock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { Generator, SequenceRequest } from "../../../embedded/scheduler/generator.ts";
import { NEUTRAL_SAMPLING } from "../../../embedded/scheduler/sampling.ts";

/** Tokens per second of a prompt, and of the answer behind its first token. */
export interface Pace {
  readonly promptPerSecond: number;
  readonly answerPerSecond: number;
}

/** A prompt of random tokens. */
export function promptOf(seed: string, tokens: number, vocabulary: number): number[] {
  const random = new Random(seed);
  return Array.from({ length: tokens }, () => random.int(vocabulary));
}

/** Asks for the likeliest tokens, whatever they are. */
export function greedyRequest(promptIds: readonly number[], maxTokens: number): SequenceRequest {
  const sampling = { ...NEUTRAL_SAMPLING, temperature: 0, seed: "0" };
  return { promptIds, maxTokens, minTokens: 0, sampling, stopIds: new Set(), logprobs: undefined };
}

/** One greedy answer. */
export async function generated(
  clock: Clock,
  generator: Generator,
  promptIds: readonly number[],
  maxTokens: number,
): Promise<Pace> {
  const startMs = clock.now();
  let firstMs = startMs;
  const request = greedyRequest(promptIds, maxTokens);
  for await (const event of generator.generate(request, new AbortController().signal)) {
    if (event.type === "prompt") firstMs = clock.now();
  }
  return {
    promptPerSecond: promptIds.length / (firstMs - startMs) * 1000,
    answerPerSecond: (maxTokens - 1) / (clock.now() - firstMs) * 1000,
  };
}

/** By how many bytes the process's memory grows at most while `work` goes on. */
export async function peakWhile(clock: Clock, work: () => Promise<unknown>): Promise<number> {
  const before = process.memoryUsage.rss();
  let peak = before;
  let over = false;
  const done = work().finally(() => over = true);
  while (!over) {
    await clock.sleep(20);
    peak = Math.max(peak, process.memoryUsage.rss());
  }
  await done;
  return peak - before;
}
