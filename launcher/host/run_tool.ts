import { execFile } from "node:child_process";

/** Output of a program, and its exit code. */
export interface ToolOutput {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end; undefined when there is no such program. */
export type RunTool = (
  command: string,
  args: readonly string[],
  signal: AbortSignal,
) => Promise<ToolOutput | undefined>;

const TIMEOUT_MS = 30_000;

/** Runs a program of this host, for at most half a minute. */
export const runTool: RunTool = (command, args, signal) =>
  new Promise((resolve, reject) => {
    execFile(
      command,
      [...args],
      { signal, timeout: TIMEOUT_MS, encoding: "utf8" },
      (error, stdout, stderr) => {
        if (signal.aborted) return reject(signal.reason);
        if (error === null) return resolve({ code: 0, stdout, stderr });
        if (error.code === "ENOENT" || error.code === "EACCES") return resolve(undefined);
        resolve({ code: typeof error.code === "number" ? error.code : 1, stdout, stderr });
      },
    );
  });
