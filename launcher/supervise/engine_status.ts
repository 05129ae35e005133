import type { StartPhase } from "../logs/log_patterns.ts";

/** State of an engine between its plan and its end. `waiting`: engines on its GPUs start before it. */
export type EnginePhase =
  | "waiting"
  | StartPhase
  | "ready"
  | "restarting"
  | "failed"
  | "stopping"
  | "stopped";

/** State of one supervised engine. */
export interface EngineStatus {
  readonly name: string;
  readonly phase: EnginePhase;
  /** Part of the phase that is done, where the engine says so. */
  readonly percent: number | undefined;
  /** Number of its first process, and of its process group; undefined while it has none. */
  readonly pid: number | undefined;
  readonly startTime: string | undefined;
  /** Times that it was started again after a crash. */
  readonly restarts: number;
  /** Reason why it is, or was last, down: a sentence that begins with its name; lines behind it are the end of its log. */
  readonly problem: string | undefined;
  readonly url: string;
  readonly logFile: string;
}

/** A problem without the name of its engine, where that is told anyway. */
export function engineProblemText({ name, problem = "" }: Pick<EngineStatus, "name" | "problem">): string {
  return problem.startsWith(`${name}: `) ? problem.slice(name.length + 2) : problem;
}

/** The same without lines of a log. */
export function problemSentence(status: Pick<EngineStatus, "name" | "problem">): string {
  return engineProblemText(status).split("\n")[0] ?? "";
}
