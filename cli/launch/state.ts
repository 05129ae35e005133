import process from "node:process";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { logger } from "../../base/log.ts";
import type { Io } from "../kit/io.ts";
import type { EngineStatus } from "../../launcher/supervise/engine_status.ts";
import { type LaunchState, writeState } from "../../launcher/supervise/launch_state.ts";
import { endGroups, findState, isRunning, leftoverGroups } from "../../launcher/supervise/leftovers.ts";
import type { ProcessTable } from "../../launcher/supervise/process_table.ts";

/**
 * Makes room for a launch: ends what an earlier one of the same name, which was killed, has left running. Throws 409
 * `launch_running` when that one runs.
 */
export async function makeRoom(
  folder: string,
  name: string,
  options: { readonly table: ProcessTable; readonly graceMs: number; readonly io: Io },
): Promise<void> {
  const { table, graceMs, io } = options;
  const state = refuseRunning(folder, name, table);
  if (state === undefined) return;
  const groups = leftoverGroups(state, table);
  if (groups.length === 0) return;
  io.err.write(
    `An earlier launch was killed and has left ${groups.length} process ${
      groups.length === 1 ? "group" : "groups"
    } (${groups.join(", ")}): ending them\n`,
  );
  await endGroups(groups, { table, clock: io.clock, graceMs });
}

/** The state of an earlier launch of that name, which runs no more. Throws 409 `launch_running`. */
export function refuseRunning(folder: string, name: string, table: ProcessTable): LaunchState | undefined {
  const state = findState(folder, table)?.state;
  if (state === undefined || !isRunning(state, table)) return state;
  throw new CanopyError(
    `Launch "${name}" runs already (process ${state.pid}): stop it with canopy stop, or give this one another --name`,
    { code: "launch_running", status: 409 },
  );
}

/** Keeps the state file of a launch up to date. */
export class StateWriter {
  readonly #folder: string;
  #state: LaunchState;
  /** True after a complaint, until it could be written again. */
  #complained = false;

  /** Throws when nothing can be written into the folder. */
  constructor(folder: string, state: LaunchState) {
    this.#folder = folder;
    this.#state = state;
    writeState(folder, state);
  }

  get id(): string {
    return this.#state.id;
  }

  /** A full disk must not end what runs: what cannot be written is told once, and stays for the next change. */
  set(change: Partial<LaunchState>): void {
    this.#state = { ...this.#state, ...change };
    try {
      writeState(this.#folder, this.#state);
      this.#complained = false;
    } catch (error) {
      if (!this.#complained) {
        logger("launcher").warning("The state in {folder} is not up to date: {error}", {
          folder: this.#folder,
          error: messageOf(error),
        });
      }
      this.#complained = true;
    }
  }

  /** Percentages alone are not worth a write. */
  setEngine(status: EngineStatus): void {
    const before = this.#state.engines.find((engine) => engine.name === status.name);
    const { percent: _, ...rest } = status;
    const after = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== undefined));
    const { percent: __, ...known } = before ?? {};
    if (JSON.stringify(known) === JSON.stringify(after)) return;
    const engines = before === undefined
      ? [...this.#state.engines, status]
      : this.#state.engines.map((engine) => engine === before ? status : engine);
    this.set({ engines: engines as LaunchState["engines"] });
  }
}

/** The state of a launch that begins in this process. */
export function newState(source: string, table: ProcessTable, io: Io): LaunchState {
  const startedAtUnixMs = Math.floor(io.clock.unixEpochMs + io.clock.now());
  const startTime = table.startTime(process.pid);
  return {
    id: `${process.pid}-${startedAtUnixMs}`,
    pid: process.pid,
    startTime,
    startedAtUnixMs,
    phase: "starting",
    source,
    engines: [],
  };
}
