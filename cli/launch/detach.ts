import { spawn } from "node:child_process";
import { closeSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Io } from "../kit/io.ts";
import { phaseText } from "./progress.ts";
import { selfCommand } from "../../launcher/commands/self_command.ts";
import type { EngineStatus } from "../../launcher/supervise/engine_status.ts";
import { type LaunchState, readState } from "../../launcher/supervise/launch_state.ts";

const POLL_MS = 200;
const SHOWN_LINES = 15;

/** Runs the same launch in a process of its own and waits until it serves; gives the exit code. */
export async function detachLaunch(
  { args, folder, name, io }: {
    readonly args: readonly string[];
    readonly folder: string;
    readonly name: string;
    readonly io: Io;
  },
): Promise<number> {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const logFile = join(folder, "canopy.log");
  const log = openSync(logFile, "a", 0o600);
  const [program, ...rest] = selfCommand(["launch", ...args.filter((arg) => arg !== "--detach")]);
  const child = spawn(program, rest, { detached: true, stdio: ["ignore", log, log], env: { ...io.env } });
  closeSync(log);
  let ended = false;
  child.once("exit", () => ended = true);
  child.once("error", () => ended = true);
  child.unref();
  const shown = new Map<string, string>();
  while (true) {
    const state = readState(folder);
    const own = state?.pid === child.pid ? state : undefined;
    for (const engine of own?.engines ?? []) {
      const text = phaseText({ ...engine, percent: undefined, phase: engine.phase as EngineStatus["phase"] });
      if (shown.get(engine.name) !== text) io.out.write(`${engine.name}: ${text}\n`);
      shown.set(engine.name, text);
    }
    if (own?.phase === "serving") {
      io.out.write(`Canopy is listening on ${own.url ?? ""} (process ${own.pid})\n`);
      const given = name === "default" ? "" : ` --name ${name}`;
      io.out.write(
        `Look at it with "canopy status${given}", end it with "canopy stop${given}"; its log is ${logFile}\n`,
      );
      return 0;
    }
    if (ended || own?.phase === "failed") {
      io.err.write(`canopy launch: ${reasonOf(own, logFile)}\n`);
      return 1;
    }
    try {
      await io.clock.sleep(POLL_MS, io.stop);
    } catch {
      io.err.write("The launch goes on without this command: canopy stop ends it\n");
      return 1;
    }
  }
}

function reasonOf(state: LaunchState | undefined, logFile: string): string {
  if (state?.problem !== undefined) return state.problem;
  const lines = readFileSync(logFile, "utf8").trimEnd().split("\n").slice(-SHOWN_LINES);
  return `it ended before it served; the end of ${logFile}:\n${lines.join("\n")}`;
}
