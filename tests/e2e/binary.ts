import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve as resolvePath } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { mortalEnv } from "../lifeline.ts";
import "../loopback.ts";
import { HANG_MS } from "../until.ts";

/** A `canopy` process that listens. */
export interface RunningBinary {
  readonly url: string;
  readonly output: () => string;
  readonly process: ChildProcess;
  /** Waits for this in its output; rejects with the output when the program ends before. */
  says(pattern: RegExp): Promise<void>;
  /** Sends SIGTERM, unless it has ended, and resolves with the exit code. */
  stop(): Promise<number | null>;
}

/** The compiled program under test; `CANOPY_BIN` names another one, seen from where the tests are started. */
export const binaryPath = process.env["CANOPY_BIN"] === undefined
  ? fileURLToPath(new URL("../../dist/canopy", import.meta.url))
  : resolvePath(process.env["CANOPY_BIN"]);

if (!existsSync(binaryPath)) {
  throw new Error(`There is no ${binaryPath}: make it by bun run compile, or name another one in CANOPY_BIN`);
}

/** Starts the binary and waits for the line that names its URL. Rejects with its output when it ends first. */
export function startBinary(args: readonly string[], options: { cwd?: string } = {}): Promise<RunningBinary> {
  const child = spawn(binaryPath, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: mortalEnv(),
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
  let text = "";
  let over = false;
  const looks = new Set<() => void>();
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
        for (const look of looks) look();
        const url = /listening on (http:\/\/[^\s/]+)/i.exec(line)?.[1];
        if (url === undefined) return;
        resolve({
          url,
          output: () => text,
          process: child,
          says: (pattern) =>
            new Promise((found, fail) => {
              const look = () => {
                if (pattern.test(text)) found();
              };
              looks.add(look);
              look();
              ended.then((code) =>
                fail(new Error(`It ended with ${code} and did not say ${pattern}:\n${text}`))
              );
            }),
          stop: () => {
            // Not `child.kill`: under Deno the exit event then names the signal, whatever the exit code was.
            if (!over && child.pid !== undefined) process.kill(child.pid, "SIGTERM");
            return ended;
          },
        });
      });
    }
    child.once("error", reject);
    AbortSignal.timeout(HANG_MS).addEventListener("abort", () => {
      reject(new Error(`${binaryPath} ${args.join(" ")} names no URL within ${HANG_MS / 1000} s:\n${text}`));
    });
    ended.then((code) => reject(new Error(`${binaryPath} ${args.join(" ")} ended with ${code}:\n${text}`)));
  });
}

/** Runs the binary to its end, for at most `HANG_MS`. */
export function runBinary(
  args: readonly string[],
  options: { cwd?: string } = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const child = spawn(binaryPath, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: mortalEnv(),
    signal: AbortSignal.timeout(HANG_MS),
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
