import { shippedWorkload } from "../../../bench/experiments/workloads/shipped_workloads.ts";
import type { BenchWorkload } from "../../../bench/experiments/workloads/workload_file.ts";

const ANSWER_TOKENS = 80;

/** `chat` with answers a quarter as long: what holds for them takes a quarter of the time to simulate. */
export function shortWorkload(): BenchWorkload {
  const chat = shippedWorkload("chat");
  return { ...chat, answers: chat.answers.map((lengths) => ({ ...lengths, median: ANSWER_TOKENS })) };
}
