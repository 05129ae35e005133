import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import process from "node:process";
import type { Clock } from "../../base/clock.ts";
import { systemCodeOf } from "../../base/errors.ts";
import { isJsonObject } from "../../base/json.ts";

/** Time without a byte after which nobody believes any more that another machine's program writes, in ms. */
const FORGOTTEN_MS = 600_000;

/** A file that no other Canopy writes to. */
export interface FileClaim {
  release(): Promise<void>;
}

/**
 * Claims a file, by a mark beside it; undefined where somebody else has it: a process of this machine that lives, this
 * one with its other threads too, or one of another machine under whose hands it has grown within ten minutes.
 */
export async function claimFile(path: string, clock: Clock): Promise<FileClaim | undefined> {
  const mark = `${path}.by`;
  const isOurs = await writeMark(mark) || await isForgotten(path, mark, clock) && await writeMark(mark);
  return isOurs ? { release: async () => await rm(mark, { force: true }) } : undefined;
}

async function writeMark(mark: string): Promise<boolean> {
  try {
    const born = await birthOf(process.pid);
    await writeFile(mark, JSON.stringify({ host: hostname(), pid: process.pid, born }), { flag: "wx" });
    return true;
  } catch (error) {
    if (systemCodeOf(error) === "EEXIST") return false;
    throw error;
  }
}

/** Removes the mark of one that has gone. */
async function isForgotten(path: string, mark: string, clock: Clock): Promise<boolean> {
  const { host, pid, born } = await readMark(mark);
  const isHere = host === hostname() && typeof pid === "number";
  if (await (isHere ? lives(pid, born) : isYoung([path, mark], clock))) return false;
  await rm(mark, { force: true });
  return true;
}

/** Nothing of it where it is being written, or gone by now. */
async function readMark(mark: string): Promise<{ host?: unknown; pid?: unknown; born?: unknown }> {
  try {
    const written: unknown = JSON.parse(await readFile(mark, "utf8"));
    return isJsonObject(written) ? written : {};
  } catch {
    return {};
  }
}

async function lives(pid: number, born: unknown): Promise<boolean> {
  const birth = await birthOf(pid);
  // A container's processes have the same numbers each time that it starts.
  if (birth !== undefined) return birth === born;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return systemCodeOf(error) !== "ESRCH";
  }
}

/** When a process began, in the system's own count; undefined for none, and where the system does not tell. */
async function birthOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  // The second field is a name in brackets that may hold blanks and brackets.
  return text.slice(text.lastIndexOf(")") + 2).split(" ")[19];
}

async function isYoung(paths: readonly string[], clock: Clock): Promise<boolean> {
  const times = await Promise.all(paths.map((path) => stat(path).then(({ mtimeMs }) => mtimeMs, () => 0)));
  return clock.unixEpochMs + clock.now() - Math.max(...times) < FORGOTTEN_MS;
}
