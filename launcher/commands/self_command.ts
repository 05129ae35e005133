import { basename } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";

/**
 * The command that runs this same program again with other arguments: the compiled binary itself, or the runtime
 * with the program's main file.
 */
export function selfCommand(args: readonly string[]): readonly [string, ...string[]] {
  const runtime = /^(deno|bun|node)(?:\.exe)?$/.exec(basename(process.execPath))?.[1];
  if (runtime === undefined) return [process.execPath, ...args];
  const main = fileURLToPath(new URL("../../main.ts", import.meta.url));
  const run = runtime === "deno" ? ["run", "-A", "--no-check"] : [];
  return [process.execPath, ...run, main, ...args];
}
