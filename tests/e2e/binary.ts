import { type ChildProcess, spawn } from "node:child_process";
import process from "node:process";
import { createInterface } from "node:readline";
import { mortalEnv } from "../lifeline.ts";

const LIMIT_MS = 120_000;

/** A `canopy` process that listens. */
export interface RunningBinary {
  readonly url: string;
  readonly output: () => string;
  readonly process: ChildProcess;
  /** Sends SIGTERM, unless it has ended, and resolves with the exit code. */
  stop(): Promise<number | null>;
}

/** The compiled program under test. */
export const binaryPath = process.env["CANOPY_BIN"] ?? new URL("../../dist/canopy", import.meta.url).pathname;

/** Starts the binary and waits for the line that names its URL. Rejects with its output when it ends first. */
export function startBinary(args: readonly string[], options: { cwd?: string } = {}): Promise<RunningBinary> {
  const child = spawn(binaryPath, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: mortalEnv(),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  let text = "";
  let over = false;
  const ended = new Promise<number | null>((resolve) =>
    child.once("exit", (code) => {
      over = true;
      resolve(code);
    })
  );
  return new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface({ input: stream }).on("line", (line) => {
        text += line + "\n";
        const url = /listening on (http:\/\/[^\s/]+)/i.exec(line)?.[1];
        if (url === undefined) return;
        resolve({
          url,
          output: () => text,
          process: child,
          stop: () => {
            // Not `child.kill`: under Deno the exit event then names the signal, whatever the exit code was.
            if (!over && child.pid !== undefined) process.kill(child.pid, "SIGTERM");
            return ended;
          },
        });
      });
    }
    child.once("error", reject);
    AbortSignal.timeout(LIMIT_MS).addEventListener("abort", () => {
      reject(new Error(`${binaryPath} ${args.join(" ")} names no URL within ${LIMIT_MS / 1000} s:\n${text}`));
    });
    ended.then((code) => reject(new Error(`${binaryPath} ${args.join(" ")} ended with ${code}:\n${text}`)));
  });
}

/** Runs the binary to its end, for at most two minutes. */
export function runBinary(
  args: readonly string[],
  options: { cwd?: string } = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(binaryPath, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: mortalEnv(),
    signal: AbortSignal.timeout(LIMIT_MS),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  let stdout = "";
  let stderr = "";
  child.stdout.on("data", (chunk) => stdout += chunk);
  child.stderr.on("data", (chunk) => stderr += chunk);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}
