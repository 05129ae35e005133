import { defineCommand } from "../kit/command.ts";
import { LAUNCH_NAME_OPTIONS } from "./options.ts";
import { readState, removeState, stateFolder } from "../../launcher/supervise/launch_state.ts";
import { endGroups, findState, isRunning, leftoverGroups } from "../../launcher/supervise/leftovers.ts";
import { systemProcessTable } from "../../launcher/supervise/process_table.ts";

const POLL_MS = 100;
const GRACE_MS = 20_000;

/** `canopy stop`: ends a launch on this host. */
export const stopCommand = defineCommand({
  name: "stop",
  summary: "End a launch on this host: requests finish, then the engines end",
  maxArguments: 0,
  options: {
    ...LAUNCH_NAME_OPTIONS,
    timeout: {
      type: "number",
      value: "SECONDS",
      min: 0,
      help: "Time until all of it is killed; 90 by default",
    },
  },
  details:
    `Also ends what a launch that was killed has left running. The exit code is 1 when there was nothing to end.

Example:
  canopy stop`,
  run: async (values, _, io) => {
    const name = values.name ?? "default";
    const folder = stateFolder(io.env, { folder: values["state-dir"], name });
    const table = systemProcessTable();
    const state = findState(folder, table)?.state;
    if (state === undefined) {
      io.err.write(`No launch "${name}" runs on this host\n`);
      return 1;
    }
    const running = isRunning(state, table);
    if (running) {
      table.signal(state.pid, "SIGTERM");
      const giveUpAtMs = io.clock.now() + (values.timeout ?? 90) * 1000;
      while (isRunning(state, table) && io.clock.now() < giveUpAtMs) await io.clock.sleep(POLL_MS, io.stop);
      if (isRunning(state, table)) {
        io.err.write(`Process ${state.pid} did not end in time: killing it\n`);
        table.signal(state.pid, "SIGKILL");
      }
    }
    // The engines of the last state: some may have come since the first look.
    const groups = leftoverGroups(readState(folder) ?? state, table);
    await endGroups(groups, { table, clock: io.clock, graceMs: GRACE_MS });
    removeState(folder);
    const found = running || groups.length > 0;
    io.out.write(found ? `Launch "${name}" has ended\n` : `Nothing of launch "${name}" runs\n`);
    return found ? 0 : 1;
  },
});
