import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ArchivedRun } from "../../../router/archive/archived_run.ts";

/** Runs are numbered, and have ended one second after the other. */
export function madeRun(number: number, facts: Partial<ArchivedRun> = {}): ArchivedRun {
  const id = `run_${number}`;
  return {
    id,
    owner: undefined,
    requestId: undefined,
    graph: "moa",
    state: "done",
    endedAtUnixMs: number * 1000,
    summary: JSON.stringify({ id }),
    record: JSON.stringify({
      id,
      events: [{ type: "run_started" }, { type: "run_done", data: { n: number } }],
    }),
    ...facts,
  };
}

/** Calls `use` with a folder of its own. */
export async function inFolder(use: (folder: string) => void | Promise<void>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "canopy-archive-"));
  try {
    await use(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
