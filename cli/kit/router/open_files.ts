import { readFileSync } from "node:fs";
import type { Config } from "../../../cfgs/schema/config.ts";

/** File descriptors that are not for streams: listeners, logs, checks, libraries. */
const OTHERS = 256;
/** Bounds from here on stand for "no limit". */
const NO_LIMIT = 1_000_000;

/**
 * The warning that fewer files may be open than `max_running` streams need, two each: one to the client and one to the
 * worker. Undefined when there are enough, and where the system does not tell.
 */
export function openFilesWarning({ server: { max_running: running } }: Config): string | undefined {
  const limit = openFiles();
  const needed = 2 * running + OTHERS;
  if (limit === undefined || running >= NO_LIMIT || needed <= limit) return undefined;
  return `${running} requests at once (server.max_running) need ${needed} open files, and the limit is ${limit}: ` +
    `raise it (ulimit -n ${needed}), or set server.max_running to ${Math.floor((limit - OTHERS) / 2)}`;
}

/** Files that this process may have open; undefined where that is not known. */
function openFiles(): number | undefined {
  try {
    const soft = /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
    return soft === undefined ? undefined : Number(soft);
  } catch {
    return undefined;
  }
}
