import { type ChildProcess, spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import process from "node:process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { mortalEnv } from "../lifeline.ts";
import "../loopback.ts";

/** A `canopy` process that listens. */
export interface Program {
  readonly url: string;
  readonly pid: number;
  /** Resolves when it has ended, however. */
  readonly ended: Promise<void>;
  output(): string;
  /** Sends a signal, unless it has ended. */
  signal(name: "SIGTERM" | "SIGHUP" | "SIGKILL" | "SIGSTOP" | "SIGCONT" | "SIGUSR2"): void;
  /** Asks it to end, and waits. */
  stop(): Promise<void>;
}

/** The program as `CANOPY_BIN` names it, or from its source under the runtime of the tests: always so when it is `breakable`. */
function commandOf(args: readonly string[], breakable: boolean): [string, readonly string[]] {
  const binary = process.env["CANOPY_BIN"];
  // It is started elsewhere.
  if (binary !== undefined && !breakable) return [resolve(binary), args];
  const main = fileURLToPath(new URL(breakable ? "breakable_router.ts" : "../../main.ts", import.meta.url));
  return "Deno" in globalThis
    ? [process.execPath, ["run", "-A", "--no-check", main, ...args]]
    : [process.execPath, [main, ...args]];
}

/**
 * Starts the program; resolves with the line that names its URL, rejects with its output when it ends first. One of a
 * `breakable` program's serving threads dies by SIGUSR2.
 */
export function startProgram(args: readonly string[], cwd?: string, breakable = false): Promise<Program> {
  const [command, all] = commandOf(args, breakable);
  const child: ChildProcess = spawn(command, [...all], {
    stdio: ["ignore", "pipe", "pipe"],
    env: mortalEnv(),
    ...(cwd === undefined ? {} : { cwd }),
  });
  let text = "";
  let over = false;
  const ended = new Promise<void>((resolve) =>
    child.once("exit", () => {
      over = true;
      resolve();
    })
  );
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    ended.then(() => reject(new Error(`canopy ${args.join(" ")} ended:\n${text}`)));
    for (const stream of [child.stdout, child.stderr]) {
      if (stream === null) continue;
      createInterface({ input: stream }).on("line", (line) => {
        // Of a long run the last words do.
        text = (text + line + "\n").slice(-100_000);
        const url = /listening on (http:\/\/[^\s/]+)/i.exec(line)?.[1];
        if (url === undefined) return;
        const signal: Program["signal"] = (name) => {
          if (!over && child.pid !== undefined) process.kill(child.pid, name);
        };
        resolve({
          url,
          pid: child.pid!,
          ended,
          output: () => text,
          signal,
          stop: async () => {
            signal("SIGTERM");
            await ended;
          },
        });
      });
    }
  });
}

/** Memory of a process in MB; undefined where the system does not tell. */
export function residentMb(pid: number): number | undefined {
  try {
    const kb = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1];
    return kb === undefined ? undefined : Math.round(Number(kb) / 1024);
  } catch {
    return undefined;
  }
}
