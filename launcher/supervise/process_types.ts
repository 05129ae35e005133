import type { EngineCommand } from "../commands/engine_command.ts";

/** How a process ended. */
export interface Exit {
  /** Undefined when a signal ended it. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
}

/** An engine's process and all that it has started: one process group. */
export interface EngineProcess {
  /** Of the first process, and the number of its group. */
  readonly pid: number;
  /** Tells it from a later process of the same number. */
  readonly startTime: string | undefined;
  /** Resolves when the first process has ended; others of its group may still run. Never rejects. */
  readonly exited: Promise<Exit>;
  /** Sends a signal to the whole group. */
  signal(name: "SIGTERM" | "SIGKILL"): void;
  /** True while any process of the group runs. */
  groupAlive(): boolean;
}

/** What a process is started with. */
export interface ProcessOptions {
  readonly command: EngineCommand;
  /** Its output is appended here; older output moves to FILE.1, FILE.2 … */
  readonly logFile: string;
  /** Called for each line of its output, without line ends and colours. */
  readonly onLine: (line: string) => void;
}

/** Starts processes. */
export interface Processes {
  /** Throws `CanopyError` `engine_not_installed` when there is no such program, `cannot_start` otherwise. */
  start(options: ProcessOptions): Promise<EngineProcess>;
}
