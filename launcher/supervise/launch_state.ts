import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { CanopyError } from "../../base/errors.ts";

const engineSchema = z.object({
  name: z.string(),
  phase: z.string(),
  percent: z.number().optional(),
  pid: z.int().positive().optional(),
  startTime: z.string().optional(),
  restarts: z.int(),
  problem: z.string().optional(),
  url: z.string(),
  logFile: z.string(),
});

const stateSchema = z.object({
  /** Mark in the environment of all its processes. */
  id: z.string().min(1),
  /** Process of Canopy itself. */
  pid: z.int().positive(),
  startTime: z.string().optional(),
  startedAtUnixMs: z.number(),
  phase: z.enum(["starting", "serving", "stopping", "failed"]),
  /** Reason of its failure. */
  problem: z.string().optional(),
  /** The configuration's name. */
  source: z.string(),
  /** Address of the router, once it serves. */
  url: z.string().optional(),
  engines: z.array(engineSchema),
});

/** State of a launch on disk, for `canopy status`, `canopy stop` and the next launch. */
export type LaunchState = z.infer<typeof stateSchema>;

/** Folder in which launches of this name keep their state and their logs. */
export function stateFolder(
  env: Readonly<Record<string, string | undefined>>,
  options: { readonly folder: string | undefined; readonly name: string },
): string {
  if (!/^[\w.-]{1,64}$/.test(options.name) || /^\.+$/.test(options.name)) {
    throw new CanopyError(
      `A launch's name may have letters, digits, dots, dashes and underscores: current value is "${options.name}"`,
      { code: "invalid_name", status: 400 },
    );
  }
  const base = options.folder ?? env.CANOPY_STATE_DIR ??
    join(env.XDG_STATE_HOME ?? join(homedir(), ".local", "state"), "canopy");
  return join(base, options.name);
}

/** State of the last launch in this folder; undefined when there is none that can be read. */
export function readState(folder: string): LaunchState | undefined {
  try {
    return stateSchema.parse(JSON.parse(readFileSync(join(folder, "state.json"), "utf8")));
  } catch {
    return undefined;
  }
}

/** Writes the state so that readers see either the old one or the new one. */
export function writeState(folder: string, state: LaunchState): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const path = join(folder, "state.json");
  writeFileSync(`${path}.new`, `${JSON.stringify(state, null, 2)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

export function removeState(folder: string): void {
  rmSync(join(folder, "state.json"), { force: true });
}
