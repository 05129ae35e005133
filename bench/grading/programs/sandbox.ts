import { spawn } from "node:child_process";
import { accessSync, constants, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import process from "node:process";
import { type Clock, deadlineSignal } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import { forkFilter } from "./fork_filter.ts";
import runProgram from "./run_program.py" with { type: "text" };

/** Output that a program may have at most, in bytes. */
const MOST_OUTPUT = 1 << 28;
/** Size of the only folder that can be written to. */
const FOLDER_BYTES = 1 << 26;
const PROBE_SECONDS = 30;

/** Options of `openSandbox`. */
export interface SandboxOptions {
  /** `PATH` says where bwrap and python3 are. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  /** Name of the machine in Node; that of this one by default. */
  readonly machine?: string | undefined;
}

/** Runs programs of models in bubblewrap, one at a time: without network, home, or anything that lasts. */
export interface Sandbox {
  /** Lines that `run_program.py` writes, those that came where it was ended after `seconds`. Rejects where bwrap fails. */
  run(request: Readonly<Record<string, unknown>>, seconds: number): Promise<string[]>;
}

/** A sandbox, or the reason why there is none here. */
export async function openSandbox(options: SandboxOptions): Promise<Sandbox | string> {
  const { env, clock, machine = process.arch } = options;
  const [bwrap, python] = ["bwrap", "python3"].map((name) => programAt(name, env["PATH"] ?? ""));
  if (bwrap === undefined) {
    return "programs run only in bubblewrap, and there is no bwrap here: install bubblewrap";
  }
  if (python === undefined) return "there is no python3 here, in which programs are written";
  try {
    const say = "import os, sys; print(os.path.realpath(sys.executable)); print(sys.base_prefix)";
    const [executable, prefix] =
      (await output([python, "-I", "-c", say], "", PROBE_SECONDS, clock, env)).lines;
    if (executable === undefined || prefix === undefined) return `${python} does not run`;
    const command = (code: string) => sandboxCommand({ bwrap, python: executable, prefix, machine, code });
    const { lines, error } = await filtered(command("print(6 * 7)"), {
      machine,
      input: "",
      seconds: PROBE_SECONDS,
    }, clock);
    if (lines[0] !== "42") return `bwrap makes no sandbox here: ${error.split("\n")[0] || "it says nothing"}`;
    let last: Promise<unknown> = Promise.resolve();
    return {
      run: (request, seconds) => {
        const run = last.then(async () => {
          const input = JSON.stringify({ ...request, seconds: Math.ceil(seconds) + 1 });
          return (await filtered(command(runProgram), { machine, input, seconds }, clock)).lines;
        });
        last = run.catch(() => {});
        return run;
      },
    };
  } catch (cause) {
    return `bwrap makes no sandbox here: ${messageOf(cause)}`;
  }
}

/** The command that runs Python code in a sandbox; the filter of system calls is read from descriptor 9. */
export function sandboxCommand(
  { bwrap, python, prefix, machine, code }: {
    readonly bwrap: string;
    readonly python: string;
    /** Folder of Python's installation. */
    readonly prefix: string;
    readonly machine: string;
    readonly code: string;
  },
): string[] {
  return [
    bwrap,
    // Own processes, network, users and host name; all ends with Canopy.
    "--unshare-all",
    "--die-with-parent",
    "--new-session",
    ...["--cap-drop", "ALL"],
    "--clearenv",
    // All that can be seen can only be read: Python, and no home.
    ...["--ro-bind", "/usr", "/usr"],
    ...["/lib", "/lib64", "/etc/ld.so.cache"].flatMap((path) => ["--ro-bind-try", path, path]),
    ...`${prefix}/`.startsWith("/usr/") ? [] : ["--ro-bind", prefix, prefix],
    ...["--proc", "/proc"],
    ...["--dev", "/dev"],
    ...["--size", String(FOLDER_BYTES), "--tmpfs", "/tmp"],
    ...["--remount-ro", "/"],
    ...["--chdir", "/tmp"],
    ...["--setenv", "PATH", "/usr/bin"],
    ...["--setenv", "OMP_NUM_THREADS", "1"],
    ...forkFilter(machine) === undefined ? [] : ["--seccomp", "9"],
    ...[python, "-I", "-c", code],
  ];
}

/** Runs a command with the filter of system calls as descriptor 9. */
async function filtered(
  command: readonly string[],
  { machine, input, seconds }: { readonly machine: string; readonly input: string; readonly seconds: number },
  clock: Clock,
) {
  const filter = forkFilter(machine);
  if (filter === undefined) return await output(command, input, seconds, clock);
  const folder = mkdtempSync(join(tmpdir(), "canopy-filter-"));
  try {
    const file = join(folder, "filter");
    writeFileSync(file, filter);
    return await output(
      ["/bin/sh", "-c", 'exec 9<"$0"; exec "$@"', file, ...command],
      input,
      seconds,
      clock,
    );
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** What a program writes until it ends, or is ended. */
async function output(
  [program, ...args]: readonly string[],
  input: string,
  seconds: number,
  clock: Clock,
  env: SandboxOptions["env"] = { PATH: "/usr/bin:/bin" },
): Promise<{ readonly lines: string[]; readonly error: string }> {
  const deadline = deadlineSignal(clock, 1000 * seconds, new Error(`no end within ${seconds} s`));
  const child = spawn(program!, args, { stdio: "pipe", env });
  const end = () => void child.kill("SIGKILL");
  deadline.signal.addEventListener("abort", end);
  let [text, error] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
    if (text.length > MOST_OUTPUT) end();
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    if (error.length < 10_000) error += chunk;
  });
  // One that ends before it reads is seen by what it does not write.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  try {
    await new Promise<void>((resolve, reject) => {
      child.once("error", reject);
      child.once("close", () => resolve());
    });
  } finally {
    deadline.release();
  }
  return { lines: text.split("\n").filter((line) => line !== ""), error };
}

function programAt(name: string, path: string): string | undefined {
  return path.split(delimiter).filter((folder) => folder !== "").map((folder) => join(folder, name)).find(
    (file) => {
      try {
        accessSync(file, constants.X_OK);
        return true;
      } catch {
        return false;
      }
    },
  );
}
