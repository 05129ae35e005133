import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { table, tableColumns } from "../kit/terminal.ts";
import { LAUNCH_NAME_OPTIONS } from "./options.ts";
import { phaseText } from "./progress.ts";
import { type EngineStatus, problemSentence } from "../../launcher/supervise/engine_status.ts";
import { type LaunchState, stateFolder } from "../../launcher/supervise/launch_state.ts";
import { findState, isRunning, leftoverGroups } from "../../launcher/supervise/leftovers.ts";
import { systemProcessTable } from "../../launcher/supervise/process_table.ts";

/** `canopy status`: what a launch on this host is doing. */
export const statusCommand = defineCommand({
  name: "status",
  summary: "Say what a launch on this host is doing",
  maxArguments: 0,
  options: { ...LAUNCH_NAME_OPTIONS, json: { type: "flag", help: "Print the state as JSON" } },
  details: `The exit code is 0 when the models are served, else 1.

Example:
  canopy status --json`,
  run: (values, _, io) => {
    const name = values.name ?? "default";
    const folder = stateFolder(io.env, { folder: values["state-dir"], name });
    const processes = systemProcessTable();
    const { state, lost = false } = findState(folder, processes) ?? {};
    const running = state !== undefined && isRunning(state, processes);
    const leftovers = state === undefined || running ? [] : leftoverGroups(state, processes);
    if (values.json) {
      io.out.write(`${JSON.stringify({ name, running, leftovers, lost, ...state }, null, 2)}\n`);
    } else if (lost && running) {
      io.out.write(
        `Launch "${name}" runs as process ${state.pid}, but its state in ${folder} is lost or broken: ` +
          "canopy stop ends it\n",
      );
    } else io.out.write(statusText(name, state, running, leftovers, io));
    return Promise.resolve(running && !lost && state.phase === "serving" ? 0 : 1);
  },
});

function statusText(
  name: string,
  state: LaunchState | undefined,
  running: boolean,
  leftovers: readonly number[],
  io: Io,
): string {
  if (state === undefined) return `No launch "${name}" runs on this host\n`;
  if (!running) {
    if (leftovers.length > 0) {
      return `Launch "${name}" was killed and has left process groups ${
        leftovers.join(", ")
      }: end them with canopy stop, or launch again\n`;
    }
    return state.problem === undefined
      ? `Launch "${name}" was killed; nothing of it runs\n`
      : `Launch "${name}" failed: ${state.problem}\n`;
  }
  const minutes = Math.floor((io.clock.unixEpochMs + io.clock.now() - state.startedAtUnixMs) / 60_000);
  const head =
    `${state.source}: ${state.phase}${
      state.url === undefined ? "" : ` on ${state.url}`
    }, process ${state.pid}, ` +
    `for ${minutes} ${minutes === 1 ? "minute" : "minutes"}\n`;
  const rows = state.engines.map((engine) => [
    engine.name,
    phaseText({ phase: engine.phase as EngineStatus["phase"], percent: engine.percent }),
    engine.pid === undefined ? "-" : String(engine.pid),
    engine.url,
    String(engine.restarts),
    problemSentence({ name: engine.name, problem: engine.problem }),
  ]);
  const columns = tableColumns(io.out);
  const lines = table(["ENGINE", "STATE", "PROCESS", "URL", "RESTARTS", "LAST PROBLEM"], rows, [], columns);
  return head + lines.map((line) => `${line}\n`).join("");
}
