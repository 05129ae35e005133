import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import process from "node:process";
import type { Clock } from "../../base/clock.ts";
import { systemCodeOf } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";

/** Time without a byte after which nobody believes any more that another machine's program writes, in ms. */
const FORGOTTEN_MS = 600_000;

/** Paths that this process holds. */
const held = new Set<string>();

/** A file that no other Canopy writes to. */
export interface FileClaim {
  release(): Promise<void>;
}

/**
 * Claims a file for this process, by a file beside it; undefined where somebody else has it: a process of this machine
 * that lives, or one of another machine under whose hands it has grown within ten minutes.
 */
export async function claimFile(path: string, clock: Clock): Promise<FileClaim | undefined> {
  const mark = `${path}.by`;
  if (held.has(path)) return undefined;
  held.add(path);
  if (await writeMark(mark) || await isForgotten(path, mark, clock) && await writeMark(mark)) {
    return {
      release: async () => {
        await rm(mark, { force: true });
        held.delete(path);
      },
    };
  }
  held.delete(path);
  return undefined;
}

async function writeMark(mark: string): Promise<boolean> {
  try {
    await writeFile(mark, JSON.stringify({ host: hostname(), pid: process.pid }), { flag: "wx" });
    return true;
  } catch (error) {
    if (systemCodeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** Removes the mark of one that has gone. */
async function isForgotten(path: string, mark: string, clock: Clock): Promise<boolean> {
  const { host, pid } = await readMark(mark);
  const isHere = host === hostname() && typeof pid === "number";
  // Containers start with the same number each time: one of this process that it does not hold is an earlier one's.
  if (isHere ? pid !== process.pid && lives(pid) : await isYoung([path, mark], clock)) return false;
  await rm(mark, { force: true });
  return true;
}

/** Nothing of it where it is being written, or gone by now. */
async function readMark(mark: string): Promise<{ host?: unknown; pid?: unknown }> {
  try {
    const written: unknown = JSON.parse(await readFile(mark, "utf8"));
    return isJsonObject(written) ? written : {};
  } catch {
    return {};
  }
}

function lives(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCodeOf(error) !== "ESRCH";
  }
}

async function isYoung(paths: readonly string[], clock: Clock): Promise<boolean> {
  const times = await Promise.all(paths.map((path) => stat(path).then(({ mtimeMs }) => mtimeMs, () => 0)));
  return clock.unixEpochMs + clock.now() - Math.max(...times) < FORGOTTEN_MS;
}
