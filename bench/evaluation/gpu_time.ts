import type { AnswerRun } from "./answer_run.ts";
import type { EvalRecord } from "./eval_record.ts";

/** GPUs of a server of a model, or of a pair of them; 0 for a model that runs on processors. */
export type GpusOf = (model: string) => number;

/** What GPU time is counted from. */
export type TimedAnswer = Pick<EvalRecord, "latencyMs" | "run" | "work">;

interface Span {
  readonly fromMs: number;
  readonly toMs: number;
}

/**
 * Seconds of GPUs that worked for an answer, by model: a server's GPUs count while a call or a warm of the answer is under
 * way on it, calls at the same time once. Without a run's record the whole latency counts for the one model that was
 * asked; undefined where a graph's run is not known.
 */
export function gpuSeconds(
  { latencyMs, run, work }: TimedAnswer,
  gpusOf: GpusOf,
): ReadonlyMap<string, number> | undefined {
  if (run !== undefined) {
    return new Map([...busyMs(run)].map(([model, ms]) => [model, gpusOf(model) * ms / 1000]));
  }
  const [model, ...others] = Object.keys(work?.models ?? {});
  if (model === undefined || others.length > 0 || work?.graph === true) return undefined;
  return new Map([[model, gpusOf(model) * latencyMs / 1000]]);
}

/** Time in which a model's servers worked for a run, in ms. */
function busyMs({ agents, warms }: AnswerRun): Map<string, number> {
  const spans = [
    ...agents.flatMap(({ model, worker, placedMs, endedMs }) =>
      placedMs === null || endedMs === null ? [] : [{ model, worker, fromMs: placedMs, toMs: endedMs }]
    ),
    ...warms,
  ];
  return new Map(
    [...Map.groupBy(spans, ({ model }) => model)].map(([model, own]) => {
      const servers = [...Map.groupBy(own, ({ worker }) => worker).values()];
      return [model, servers.reduce((sum, server) => sum + coveredMs(server), 0)];
    }),
  );
}

/** Length of all spans together, what lies in several of them counted once. */
function coveredMs(spans: readonly Span[]): number {
  let [covered, endMs] = [0, -Infinity];
  for (const { fromMs, toMs } of [...spans].sort((a, b) => a.fromMs - b.fromMs)) {
    covered += Math.max(0, toMs - Math.max(fromMs, endMs));
    endMs = Math.max(endMs, toMs);
  }
  return covered;
}
