import type { Clock } from "../../base/clock.ts";
import { resolve } from "node:path";
import { type LaunchState, readState } from "./launch_state.ts";
import { FOLDER_VARIABLE, groupRuns, LAUNCH_VARIABLE, type ProcessTable } from "./process_table.ts";

/** State of a launch. */
export interface FoundState {
  readonly state: LaunchState;
  /** True when its file was lost or broken: all that is known is what processes bear the launch's mark. */
  readonly lost: boolean;
}

/** State of the last launch in this folder: from its file, else from the marks of its processes; undefined for none. */
export function findState(folder: string, table: ProcessTable): FoundState | undefined {
  const state = readState(folder);
  if (state !== undefined) return { state, lost: false };
  const marked = table.list().flatMap((entry) => {
    if (table.variable(entry.pid, FOLDER_VARIABLE) !== resolve(folder)) return [];
    const [id, pid, startedAt] = /^(\d+)-(\d+)$/.exec(table.variable(entry.pid, LAUNCH_VARIABLE) ?? "") ?? [];
    if (id === undefined) return [];
    // The launch runs as long as its engines have not been handed to the system's first process.
    const startTime = entry.parent === Number(pid) ? table.startTime(entry.parent) : undefined;
    return [{ id, pid: Number(pid), startTime, startedAtUnixMs: Number(startedAt) }];
  });
  const found = marked.find(({ startTime }) => startTime !== undefined) ?? marked[0];
  if (found === undefined) return undefined;
  return { state: { ...found, phase: "serving", source: "a launch", engines: [] }, lost: true };
}

/** Process groups that an earlier launch has left behind, by number. */
export function leftoverGroups(state: LaunchState, table: ProcessTable): number[] {
  const processes = table.list();
  const groups = new Set<number>();
  for (const { pid, startTime } of state.engines) {
    if (pid === undefined) continue;
    const leader = processes.find((entry) => entry.pid === pid);
    const members = processes.filter((entry) => entry.group === pid);
    // Numbers are used again, but not while a process group still bears them.
    const ours = leader === undefined
      ? members.some(({ pid }) => table.bearsMark(pid, state.id) || table.bearsEngineTitle(pid))
      : leader.startTime === startTime && leader.group === pid;
    if (ours) groups.add(pid);
  }
  // A launch that was killed between the start of an engine and its entry here.
  for (const { pid, group } of processes) {
    if (!groups.has(group) && group !== state.pid && table.bearsMark(pid, state.id)) groups.add(group);
  }
  return [...groups].sort((a, b) => a - b);
}

/** Ends process groups: asks first, kills what is left after the grace time. Resolves when none runs. */
export async function endGroups(
  groups: readonly number[],
  options: { readonly table: ProcessTable; readonly clock: Clock; readonly graceMs: number },
): Promise<void> {
  const { table, clock, graceMs } = options;
  const left = () => groups.filter((group) => groupRuns(table, group));
  for (const group of left()) table.signal(-group, "SIGTERM");
  const giveUpAtMs = clock.now() + graceMs;
  while (left().length > 0 && clock.now() < giveUpAtMs) await clock.sleep(50);
  for (const group of left()) table.signal(-group, "SIGKILL");
  for (let waits = 0; left().length > 0 && waits < 100; waits++) await clock.sleep(50);
}

/** True while the Canopy that wrote this state runs. */
export function isRunning(state: LaunchState, table: ProcessTable): boolean {
  const startTime = table.startTime(state.pid);
  return startTime !== undefined && startTime === state.startTime;
}
