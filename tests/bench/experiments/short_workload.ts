import { shippedWorkload } from "../../../bench/experiments/workloads/shipped_workloads.ts";
import type { BenchWorkload } from "../../../bench/experiments/workloads/workload_file.ts";

const ANSWER_TOKENS = 48;

/** `chat` with answers a sixth as long: what holds for them takes a sixth of the time to simulate. */
export function shortWorkload(): BenchWorkload {
  const chat = shippedWorkload("chat");
  return { ...chat, answers: chat.answers.map((lengths) => ({ ...lengths, median: ANSWER_TOKENS })) };
}
