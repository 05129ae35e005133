import { resolve } from "node:path";
import { messageOf } from "../../../base/errors.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import { RunArchive } from "../../../router/archive/run_archive.ts";
import type { Io } from "../io.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/**
 * Opens the file in which finished runs are recorded, and says where it is; undefined where there is none. One that
 * cannot be used is told, and done without: runs are served all the same.
 */
export async function openArchive(
  { server: { records } }: Config,
  io: Pick<Io, "cwd" | "clock" | "err">,
): Promise<RunArchive | undefined> {
  const { keep, file, texts, max_age_days: days, max_bytes: bytes } = records;
  if (!keep || file === undefined) return undefined;
  const path = resolve(io.cwd, file);
  try {
    const bounds = { maxAgeMs: days * DAY_MS, maxBytes: bytes };
    const archive = await RunArchive.open({ path, bounds, clock: io.clock });
    const mib = Math.round(bytes / 1024 / 1024);
    io.err.write(
      `Runs are recorded in ${path} for ${days} days, up to ${mib} MiB, ${
        texts ? "with" : "without"
      } prompts and answers\n`,
    );
    return archive;
  } catch (error) {
    io.err.write(
      `${messageOf(error)}. Runs are kept in memory alone: mend or move the file, or name another one ` +
        "(server.records.file), and start again\n",
    );
    return undefined;
  }
}
