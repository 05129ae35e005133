import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import process from "node:process";

/** One running process. */
export interface ProcessEntry {
  readonly pid: number;
  /** Number of its process group. */
  readonly group: number;
  /** The process that started it, or the system's first one when that has ended. */
  readonly parent: number;
  /** Start time within this boot: tells processes of the same number apart. */
  readonly startTime: string;
}

/** Set in the environment of all that a launch starts. */
export const LAUNCH_VARIABLE = "CANOPY_LAUNCH";
/** Set beside it: the folder of the launch's state. */
export const FOLDER_VARIABLE = "CANOPY_LAUNCH_FOLDER";

const ENGINE_TITLE = /^(?:VLLM|sglang)::/i;

/** The processes of this host, zombies left out: nothing of them is left but their number. */
export interface ProcessTable {
  list(): ProcessEntry[];
  /** Undefined when there is no such process. */
  startTime(pid: number): string | undefined;
  /** A variable of the environment that the process was started with; undefined when it has none, or is not ours to look at. */
  variable(pid: number, name: string): string | undefined;
  /** True when the environment that the process was started with names this launch. */
  bearsMark(pid: number, launchId: string): boolean;
  /** True for an engine's helper that has given itself a title, and with it has overwritten its environment. */
  bearsEngineTitle(pid: number): boolean;
  /** Sends a signal to a process (to a group: a negative number); nothing happens when it is gone. */
  signal(pid: number, name: "SIGTERM" | "SIGKILL"): void;
}

/** The table of the system: from /proc where it exists, else from `ps`. */
export function systemProcessTable(): ProcessTable {
  return existsSync("/proc/self/stat") ? new ProcTable() : new PsTable();
}

/** True while any process of the group runs. */
export function groupRuns(table: ProcessTable, group: number): boolean {
  return table.list().some((entry) => entry.group === group);
}

function signal(pid: number, name: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code !== "ESRCH" && code !== "EPERM") throw error;
  }
}

class ProcTable implements ProcessTable {
  readonly #boot = readText("/proc/sys/kernel/random/boot_id")?.trim() ?? "";

  list(): ProcessEntry[] {
    return readdirSync("/proc").flatMap((name) => {
      if (!/^\d+$/.test(name)) return [];
      const entry = this.#entry(Number(name));
      return entry === undefined ? [] : [entry];
    });
  }

  startTime(pid: number): string | undefined {
    return this.#entry(pid)?.startTime;
  }

  variable(pid: number, name: string): string | undefined {
    const environment = readText(`/proc/${pid}/environ`) ?? "";
    return environment.split("\0").find((entry) => entry.startsWith(`${name}=`))?.slice(name.length + 1);
  }

  bearsMark(pid: number, launchId: string): boolean {
    return this.variable(pid, LAUNCH_VARIABLE) === launchId;
  }

  bearsEngineTitle(pid: number): boolean {
    return ENGINE_TITLE.test(readText(`/proc/${pid}/cmdline`) ?? "");
  }

  signal(pid: number, name: "SIGTERM" | "SIGKILL"): void {
    signal(pid, name);
  }

  #entry(pid: number): ProcessEntry | undefined {
    const text = readText(`/proc/${pid}/stat`);
    if (text === undefined) return undefined;
    // The second field is a name in brackets that may hold blanks and brackets.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const [state, parent, group] = fields;
    if (state === "Z" || state === "X") return undefined;
    return {
      pid,
      parent: Number(parent),
      group: Number(group),
      startTime: `${this.#boot}/${fields[19] ?? ""}`,
    };
  }
}

class PsTable implements ProcessTable {
  list(): ProcessEntry[] {
    return ps(["-A"]);
  }

  startTime(pid: number): string | undefined {
    return ps(["-p", String(pid)])[0]?.startTime;
  }

  variable(pid: number, name: string): string | undefined {
    // Variables stand behind the command, parted by blanks: a value with a blank ends where the next one begins.
    const text = output(["-E", "-ww", "-o", "command=", "-p", String(pid)]).trimEnd();
    return new RegExp(` ${name}=(.*?)(?: [A-Za-z_]\\w*=|$)`, "s").exec(text)?.[1];
  }

  bearsMark(pid: number, launchId: string): boolean {
    return this.variable(pid, LAUNCH_VARIABLE) === launchId;
  }

  bearsEngineTitle(pid: number): boolean {
    return ENGINE_TITLE.test(output(["-ww", "-o", "command=", "-p", String(pid)]));
  }

  signal(pid: number, name: "SIGTERM" | "SIGKILL"): void {
    signal(pid, name);
  }
}

function ps(selection: readonly string[]): ProcessEntry[] {
  return output([...selection, "-o", "pid=,ppid=,pgid=,stat=,lstart="]).split("\n").flatMap((line) => {
    const [, pid, parent, group, state = "", startTime = ""] =
      /^\s*(\d+)\s+(\d+)\s+(\d+)\s+(\S+)\s+(.*\S)\s*$/.exec(line) ?? [];
    return pid === undefined || state.startsWith("Z")
      ? []
      : [{ pid: Number(pid), parent: Number(parent), group: Number(group), startTime }];
  });
}

function output(args: readonly string[]): string {
  try {
    return execFileSync("ps", [...args], { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
  } catch {
    return ""; // so `ps` says that there is no such process
  }
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return undefined;
  }
}
