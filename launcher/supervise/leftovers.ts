import type { Clock } from "../../base/clock.ts";
import type { LaunchState } from "./launch_state.ts";
import { groupRuns, type ProcessTable } from "./process_table.ts";

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
