import type { StartPhase } from "../logs/log_patterns.ts";

/** Where an engine is between its plan and its end. `waiting`: for those that start before it. */
export type EnginePhase =
  | "waiting"
  | StartPhase
  | "ready"
  | "restarting"
  | "failed"
  | "stopping"
  | "stopped";

/** What is known of one supervised engine. */
export interface EngineStatus {
  readonly name: string;
  readonly phase: EnginePhase;
  /** How much of the phase is done, where the engine says so. */
  readonly percent: number | undefined;
  /** Of its first process, and the number of its process group; undefined while it has none. */
  readonly pid: number | undefined;
  readonly startTime: string | undefined;
  /** Times that it was started again after a crash. */
  readonly restarts: number;
  /** Why it is, or was last, down: one sentence that begins with its name; lines behind it are the end of its log. */
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
