import { type IncrementalPrefill, tree931 } from "./graphs.ts";
import type { ExperimentOptions } from "./modes.ts";
import { runTrial, type Trial } from "./trial.ts";
import { questionsOf } from "./workload.ts";
import type { BenchWorkload } from "./workloads/workload_file.ts";
import { meanOf, sumOf } from "../statistics/statistics.ts";

/** Options of `sweepChunks`. */
export interface ChunkOptions extends ExperimentOptions {
  readonly workloads: readonly BenchWorkload[];
  readonly questions: number;
  /** Fixed steps to try, in tokens. */
  readonly chunkTokens: readonly number[];
}

/** One pace of incremental prefill; durations in ms. */
export interface PaceFigures {
  /** `off`: none; `self`: the pace sets itself; else the fixed step in tokens. */
  readonly pace: "off" | "self" | number;
  readonly e2eMs: number;
  readonly ttftMs: number;
  /** Mean latency over the critical-path bound. */
  readonly ratioToBound: number;
  /** Mean time between a precursor's last and a successor's first token, over all hops of the critical path. */
  readonly handOverMs: number;
  readonly splicedFromCacheShare: number;
  /** Requests to the engines that read prompts, warms included. */
  readonly engineRequests: number;
}

/** All paces on one workload. */
export interface ChunkSweep {
  readonly workload: string;
  readonly boundMs: number;
  readonly off: PaceFigures;
  readonly self: PaceFigures;
  readonly fixed: readonly PaceFigures[];
  /** The fixed step with the lowest mean latency, and the self-clocked mean latency over its. */
  readonly best: PaceFigures;
  readonly selfToBest: number;
}

/** End-to-end latency of the tree over fixed steps of incremental prefill, beside the pace that sets itself. */
export async function sweepChunks(options: ChunkOptions): Promise<ChunkSweep[]> {
  const sweeps: ChunkSweep[] = [];
  for (const workload of options.workloads) {
    const questions = questionsOf(workload, options.questions, options.seed);
    const run = (name: string, prefill: IncrementalPrefill) => {
      options.onPart?.(`${workload.name}: ${name}`);
      return runTrial({ ...options, graph: tree931(prefill, options.slots), questions, concurrency: 1 });
    };
    const without = await run("none", { mode: "off" });
    const boundMs = meanOf(without.runs.map((figures) => figures.boundMs));
    const off = paceFigures("off", without, boundMs);
    const self = paceFigures("self", await run("self-clocked", { mode: "on" }), boundMs);
    const fixed: PaceFigures[] = [];
    for (const tokens of options.chunkTokens) {
      const trial = await run(`${tokens} tokens`, { mode: "on", chunk_tokens: tokens });
      fixed.push(paceFigures(tokens, trial, boundMs));
    }
    const best = fixed.reduce((best, pace) => pace.e2eMs < best.e2eMs ? pace : best, fixed[0] ?? off);
    sweeps.push({
      workload: workload.name,
      boundMs,
      off,
      self,
      fixed,
      best,
      selfToBest: self.e2eMs / best.e2eMs,
    });
  }
  return sweeps;
}

function paceFigures(pace: PaceFigures["pace"], trial: Trial, boundMs: number): PaceFigures {
  const { runs } = trial;
  const agents = runs.flatMap((run) => run.agents);
  const e2eMs = meanOf(runs.map((run) => run.e2eMs));
  return {
    pace,
    e2eMs,
    ttftMs: meanOf(runs.map((run) => run.ttftMs)),
    ratioToBound: e2eMs / boundMs,
    handOverMs: meanOf(runs.map((run) => run.path.handOverMs)),
    splicedFromCacheShare: sumOf(agents.map((agent) => agent.splicedFromCache)) /
      sumOf(agents.map((agent) => agent.spliceTokens)),
    engineRequests: trial.work.requests,
  };
}
