import type { CostedGpu } from "./costed_gpu.ts";

/**
 * Asks questions on costed GPUs, so many at a time, and follows them from event to event; gives their latencies in ms.
 * `start` gets a question's number and when it is asked, and calls `onEnd` when it has its answer.
 */
export function askCosted(
  { gpus, count, atOnce }: {
    readonly gpus: readonly CostedGpu[];
    readonly count: number;
    readonly atOnce: number;
  },
  start: (number: number, startMs: number, onEnd: (endMs: number) => void) => void,
): number[] {
  const latencies: number[] = [];
  let nowMs = 0;
  let next = 0;
  const askOn = (startMs: number) => {
    const number = next++;
    if (number >= count) return;
    start(number, startMs, (endMs) => {
      latencies[number] = endMs - startMs;
      askOn(endMs);
    });
  };
  for (let lane = 0; lane < atOnce; lane++) askOn(0);
  while (true) {
    const thenMs = Math.min(...gpus.map((gpu) => gpu.nextMs(nowMs)));
    if (thenMs === Infinity) return latencies;
    const fromMs = nowMs;
    nowMs = thenMs;
    // All have come as far before anything that ends makes another one begin.
    const ended = gpus.map((gpu) => gpu.advance(fromMs, thenMs));
    for (const ends of ended) for (const end of ends) end(thenMs);
  }
}
