import { spawn, spawnSync } from "node:child_process";
import { stripVTControlCharacters } from "node:util";
import { mortalEnv } from "../lifeline.ts";
import { until } from "../until.ts";
import { binaryPath } from "./binary.ts";

/** A `canopy` process on a terminal of its own, with 100 columns and 30 lines. */
export interface TerminalBinary {
  /**
   * Waits for this behind what the last call has found, and gives all text up to its end, without control sequences.
   * Rejects with all that was written when the program ends before.
   */
  says(pattern: RegExp): Promise<string>;
  /** Presses keys: `\r` is Enter, `\x03` Ctrl-C. */
  type(keys: string): void;
  /** The exit code, once it has ended; gives also what it wrote behind what was found last. */
  ended(): Promise<{ readonly code: number | null; readonly rest: string }>;
  /** Ends it, if it still runs. */
  close(): Promise<void>;
}

/** The reason why there are no terminals here, or false: they come from `script`, a part of util-linux. */
export const noTerminal = spawnSync("script", ["--version"]).status === 0
  ? false
  : "there is no script of util-linux here: install Debian's bsdutils";

/** Starts the binary on a terminal. */
export function openTerminal(args: readonly string[], cwd: string): TerminalBinary {
  const words = [binaryPath, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`);
  const line = `stty cols 100 rows 30; exec ${words.join(" ")}`;
  const child = spawn("script", ["--quiet", "--return", "--flush", "--command", line, "/dev/null"], {
    cwd,
    stdio: ["pipe", "pipe", "inherit"],
    env: { ...mortalEnv(), SHELL: "/bin/sh", TERM: "xterm" },
  });
  let raw = "";
  child.stdout.setEncoding("utf8").on("data", (piece: string) => raw += piece);
  let over = false;
  const closed = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => {
      over = true;
      resolve(code);
    });
  });
  let found = 0;
  // A control sequence of which only the beginning is there is left for later.
  // deno-lint-ignore no-control-regex
  const text = () => stripVTControlCharacters(raw.replace(/\x1b(?:\[[\d;?]*)?$/, ""));
  return {
    says: async (pattern) => {
      const find = () => pattern.exec(text().slice(found));
      const why = await until(String(pattern), () => over || find() !== null).catch(String);
      const match = find();
      if (match === null) throw new Error(`${why ?? `It ended and did not say ${pattern}`}:\n${text()}`);
      const said = text().slice(found, found + match.index + match[0].length);
      found += said.length;
      return said;
    },
    type: (keys) => void child.stdin.write(keys),
    ended: async () => {
      const code = await closed;
      return { code, rest: text().slice(found) };
    },
    close: async () => {
      if (!over) child.kill();
      await closed;
    },
  };
}
