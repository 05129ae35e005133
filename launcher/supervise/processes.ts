import { spawn } from "node:child_process";
import { accessSync, constants } from "node:fs";
import process from "node:process";
import { CanopyError, messageOf } from "../../base/errors.ts";
import type { EngineCommand } from "../commands/engine_command.ts";
import { LogFile } from "../logs/log_file.ts";
import { LineSplitter } from "../logs/log_lines.ts";
import { FOLDER_VARIABLE, groupRuns, LAUNCH_VARIABLE, type ProcessTable } from "./process_table.ts";

/** End of a process. */
export interface Exit {
  /** Undefined when a signal ended it. */
  readonly code: number | undefined;
  readonly signal: string | undefined;
}

/** An engine's process and all that it has started: one process group. */
export interface EngineProcess {
  /** Number of the first process, and of its group. */
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

/** Options of a process to start. */
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

/** Options of `SystemProcesses`. */
export interface SystemProcessesOptions {
  /** Marks all that this launch starts. */
  readonly launchId: string;
  /** Folder of its state: should the state be lost, what runs is found by it. */
  readonly folder?: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly table: ProcessTable;
}

/**
 * Real processes, each the leader of a session and group of its own, so that a Ctrl-C on the terminal does not reach
 * it and one signal reaches all that it started. However this program exits, short of being killed, it takes the
 * groups with it.
 */
export class SystemProcesses implements Processes {
  readonly #options: SystemProcessesOptions;
  readonly #groups = new Set<number>();
  readonly #onExit = () => {
    for (const group of this.#groups) this.#options.table.signal(-group, "SIGKILL");
  };

  constructor(options: SystemProcessesOptions) {
    this.#options = options;
    process.on("exit", this.#onExit);
  }

  /** Call it when all groups have ended. */
  close(): void {
    process.off("exit", this.#onExit);
  }

  async start({ command, logFile, onLine }: ProcessOptions): Promise<EngineProcess> {
    const { env, launchId, folder, table } = this.#options;
    const [program, ...args] = command.argv;
    const container = containerOf(command.argv);
    // One of this name may be left of a launch that was killed.
    if (container !== undefined) await removeContainer(container, env);
    const log = new LogFile(logFile);
    log.write(new TextEncoder().encode(`\n$ ${command.argv.join(" ")}\n`));
    const child = spawn(program, args, {
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
      env: {
        ...env,
        ...command.env,
        [LAUNCH_VARIABLE]: launchId,
        ...(folder === undefined ? {} : { [FOLDER_VARIABLE]: folder }),
      },
    });
    const exited = Promise.withResolvers<Exit>();
    child.once(
      "exit",
      (code, signal) => exited.resolve({ code: code ?? undefined, signal: signal ?? undefined }),
    );
    const outputs = [child.stdout, child.stderr].map((stream) => {
      const lines = new LineSplitter(onLine);
      stream.on("data", (bytes: Uint8Array) => {
        log.write(bytes);
        lines.write(bytes);
      });
      stream.on("error", () => {});
      return lines;
    });
    child.once("close", () => {
      for (const lines of outputs) lines.end();
      void log.close();
    });
    const { pid } = child;
    if (pid === undefined) {
      const error = await new Promise<Error>((resolve) => child.once("error", resolve));
      await log.close();
      throw startError(program, error, env);
    }
    child.on("error", () => {}); // after the start there is nothing that `exit` does not tell
    this.#groups.add(pid);
    return {
      pid,
      startTime: table.startTime(pid),
      exited: exited.promise,
      signal: (name) => {
        table.signal(-pid, name);
        // The engine is no child of the client that is killed here.
        if (name === "SIGKILL" && container !== undefined) void removeContainer(container, env);
      },
      groupAlive: () => {
        const alive = groupRuns(table, pid);
        if (!alive) this.#groups.delete(pid);
        return alive;
      },
    };
  }
}

/** The name of the container that a command runs; undefined when it runs none. */
function containerOf(argv: readonly string[]): string | undefined {
  const at = argv.indexOf("--name");
  return argv[0] === "docker" && argv[1] === "run" && at > 0 ? argv[at + 1] : undefined;
}

function removeContainer(name: string, env: SystemProcessesOptions["env"]): Promise<void> {
  return new Promise((resolve) => {
    const child = spawn("docker", ["rm", "--force", name], { stdio: "ignore", env: { ...env } });
    child.once("error", () => resolve());
    child.once("exit", () => resolve());
  });
}

function startError(program: string, cause: Error, env: SystemProcessesOptions["env"]): CanopyError {
  const code = "code" in cause ? cause.code : undefined;
  if (code === "ENOENT") {
    const where = program.includes("/") ? "" : ` in PATH (${env.PATH ?? ""})`;
    return new CanopyError(`There is no program ${program}${where}`, {
      code: "engine_not_installed",
      status: 500,
      cause,
    });
  }
  const what = code === "EACCES" && !isExecutable(program) ? "it is not executable" : messageOf(cause);
  return new CanopyError(`Cannot start ${program}: ${what}`, { code: "cannot_start", status: 500, cause });
}

function isExecutable(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
