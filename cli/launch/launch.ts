import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { freemem } from "node:os";
import { dirname, join, resolve } from "node:path";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { startLog } from "../../base/log.ts";
import { loadCheckedConfig, loadConfig, type LoadedConfig } from "../../cfgs/load/load.ts";
import type { Config } from "../../cfgs/schema/config.ts";
import { presetNames } from "../../cfgs/presets/presets.ts";
import { UsageError } from "../kit/args.ts";
import { type Command, defineCommand, type OptionValues } from "../kit/command.ts";
import { configFileOf, OVERRIDE_OPTIONS, overridesOf } from "../kit/config_file.ts";
import { exitCodeOf, type Io } from "../kit/io.ts";
import { PLAN_OPTIONS, planFromOptions } from "../kit/plan_options.ts";
import { portProblem } from "../kit/ports.ts";
import type { ReloadSource } from "../kit/router/config_reload.ts";
import { serveLoaded } from "../kit/router/serve_loaded.ts";
import { routerOverrides, splitRouterArgs } from "../kit/router_flags/launch_flags.ts";
import { detachLaunch } from "./detach.ts";
import { LAUNCH_NAME_OPTIONS, PATIENCE_OPTIONS } from "./options.ts";
import { LaunchProgress } from "./progress.ts";
import { makeRoom, newState, refuseRunning, StateWriter } from "./state.ts";
import { selfCommand } from "../../launcher/commands/self_command.ts";
import {
  type LaunchPlan,
  modelPortsOf,
  type PlannedEngine,
  withPlannedWorkers,
} from "../../launcher/plan/launch_plan.ts";
import { planText } from "../../launcher/plan/plan_text.ts";
import { onRunningPlan } from "../../launcher/plan/running_plan.ts";
import { problemSentence } from "../../launcher/supervise/engine_status.ts";
import { urlOf } from "../../launcher/supervise/engine_supervisor.ts";
import { removeState, stateFolder } from "../../launcher/supervise/launch_state.ts";
import { checkPairs } from "../../launcher/supervise/pair_check.ts";
import { systemProcessTable } from "../../launcher/supervise/process_table.ts";
import { SystemProcesses } from "../../launcher/supervise/processes.ts";
import { DEFAULT_RULES, type SuperviseRules } from "../../launcher/supervise/supervise_rules.ts";
import { Supervisor } from "../../launcher/supervise/supervisor.ts";
import type { Router } from "../../router/router.ts";
import { workerHeaders } from "../../router/worker/worker_access.ts";

const options = {
  ...PLAN_OPTIONS,
  detach: { type: "flag", help: "Return when the models are served; canopy stop ends it" },
  ...LAUNCH_NAME_OPTIONS,
  ...PATIENCE_OPTIONS,
  ...OVERRIDE_OPTIONS,
  "base-port": {
    ...OVERRIDE_OPTIONS["base-port"],
    help: "Give engines free ports from here on; 30000 by default",
  },
} as const;

/** `canopy launch`: from a configuration to engines on this host's GPUs with the router in front. */
export const launchCommand: Command = {
  ...withArguments([]),
  run: (args, io) => {
    const { router, rest } = splitRouterArgs(args);
    return withArguments(args, router).run(rest, io);
  },
};

/** `router`: the options for the router in the words of SGLang's launch_server. */
function withArguments(args: readonly string[], router: readonly string[] = []): Command {
  return defineCommand({
    name: "launch",
    summary: "Start the engines of a configuration on this host's GPUs, serve, and keep all running",
    arguments: "[FILE]",
    maxArguments: 1,
    options,
    details: `FILE is a Canopy configuration, MoA-vllm's configs.json, or a preset: ${presetNames.join(", ")}.
What would be started is shown by canopy plan with the same options. An engine that crashes is started again; SIGTERM
or Ctrl-C lets the running requests finish and ends the engines, too; SIGHUP, or a change of FILE, takes over graphs,
limits and keys while the engines go on. The options of SGLang's launch_server for its router are taken as they are
there, such as --router-policy round_robin or --router-max-concurrent-requests 64.

Examples:
  canopy launch moa-9-3-1
  canopy launch moa-9-3-1 --engine sim          (a rehearsal: simulated engines, no GPU needed)
  canopy launch canopy.jsonc --detach; canopy status; canopy stop`,
    run: async (values, [file], io) => {
      if (values.gpus !== undefined && values.engine !== "sim") {
        throw new UsageError(
          "Option --gpus describes GPUs that need not be here: add --engine sim to rehearse, or use canopy plan",
        );
      }
      const name = values.name ?? "default";
      const folder = stateFolder(io.env, { folder: values["state-dir"], name });
      const source = {
        path: configFileOf(file, io),
        env: io.env,
        overrides: overridesOf(values),
        basePort: values["base-port"],
      };
      const models = Object.keys(loadConfig(source).config.models);
      const { overrides, notes } = routerOverrides(router, models);
      for (const note of notes) io.err.write(`${note}\n`);
      const read = () => loadCheckedConfig({ ...source, overrides: [...source.overrides, ...overrides] });
      const loaded = read();
      if (values.detach) return await detachLaunch({ args, folder, name, io });
      return await launch({ loaded, read, values, folder, name, io });
    },
  });
}

/** Options of a launch. */
interface Launching {
  readonly loaded: LoadedConfig;
  /** Reads the configuration again. Throws `ConfigError`. */
  readonly read: () => LoadedConfig;
  readonly values: OptionValues<typeof options>;
  readonly folder: string;
  readonly name: string;
  readonly io: Io;
}

/** Minutes of loading would be for nothing. Throws `address_in_use`. */
async function checkPorts({ host, port, metrics }: Config["server"]): Promise<void> {
  for (const place of [{ host, port }, ...(metrics?.required === true ? [metrics] : [])]) {
    const taken = place.port === 0 ? undefined : await portProblem(place.host, place.port);
    if (taken !== undefined) throw new CanopyError(taken, { code: "address_in_use", status: 500 });
  }
}

async function launch(launching: Launching): Promise<number> {
  const { loaded, values, folder, name, io } = launching;
  const { config: { server } } = loaded;
  startLog({ level: server.log_level, format: server.log_format, folder: server.log_dir });
  const table = systemProcessTable();
  const rules = rulesOf(values);
  await makeRoom(folder, name, { table, graceMs: rules.graceMs, io });
  await checkPorts(server);
  const plan = await planFromOptions({ loaded, values, canopy: selfCommand([]), severalHosts: false, io });
  io.out.write(`${planText(plan)}\n`);
  if (loaded.format !== "canopy") writeModelPorts(loaded, plan, io);

  // Another one of that name may have begun while this one looked at the GPUs.
  refuseRunning(folder, name, table);
  const state = new StateWriter(folder, newState(loaded.source, table, io));
  const processes = new SystemProcesses({
    launchId: state.id,
    folder: resolve(folder),
    env: io.env,
    table,
  });
  const progress = new LaunchProgress(io);
  const supervisor = new Supervisor({
    plan,
    processes,
    clock: io.clock,
    transport: io.transport,
    headersOf: (engine) => headersFor(engine, loaded.config),
    env: io.env,
    rules,
    logFolder: join(folder, "logs"),
    freeHostBytes: freemem,
    portProblem,
    onChange: (status) => {
      progress.show(status);
      state.setEngine(status);
    },
  });
  let problem: string | undefined;
  try {
    await supervisor.start(io.stop);
    const config = withPlannedWorkers(loaded.config, plan);
    const random = io.random.stream("pairs");
    await checkPairs(plannedModels(plan), { ...io, config, random }, io.stop);
    progress.end();
    const beside = (router: Router, url: string) => {
      state.set({ phase: "serving", url });
      supervisor.tell({
        up: (engine) => setDown(router, engine, undefined),
        down: (engine, reason) => setDown(router, engine, reason),
      });
    };
    return await serveLoaded({ ...loaded, config }, io, {
      beside,
      reload: { source: rereading(launching, plan) },
    });
  } catch (error) {
    problem = messageOf(error);
    if (!io.stop.aborted) throw error;
    io.err.write("Stopped before the models were served\n");
    return exitCodeOf(io.stop.reason);
  } finally {
    progress.end();
    state.set({ phase: "stopping" });
    await supervisor.stop();
    processes.close();
    if (problem === undefined || io.stop.aborted) removeState(folder);
    else state.set({ phase: "failed", problem });
  }
}

/** What the router sends with each request to an engine: its model's key, too. */
function headersFor(engine: PlannedEngine, { models }: Config): Record<string, string> {
  const model = models[engine.modelKey];
  return model === undefined ? {} : workerHeaders(model, { url: urlOf(engine) });
}

/** The configuration for engines that run, as often as it is read again. */
function rereading({ loaded, read, values }: Launching, plan: LaunchPlan): ReloadSource {
  // Where MoA-vllm's programs find the engines, its configuration finds them, too.
  const planned = loaded.format === "canopy" ? loaded.config : read().config;
  const running = { plan, planned, family: values.engine };
  return {
    read: () => {
      const again = read();
      return { ...again, ...onRunningPlan(again.config, running) };
    },
    files: [loaded.source],
  };
}

function rulesOf(values: Launching["values"]): SuperviseRules {
  return {
    ...DEFAULT_RULES,
    readyTimeoutMs: msOf(values["ready-timeout"]) ?? DEFAULT_RULES.readyTimeoutMs,
    graceMs: msOf(values.grace) ?? DEFAULT_RULES.graceMs,
  };
}

function msOf(seconds: number | undefined): number | undefined {
  return seconds === undefined ? undefined : seconds * 1000;
}

/** MoA-vllm's own programs look for the engines' ports in a file beside its configuration. */
function writeModelPorts({ config, source }: LoadedConfig, plan: LaunchPlan, io: Io): void {
  if (!existsSync(source)) return; // a preset
  const path = join(dirname(source), "model2port.json");
  const text = `${JSON.stringify(modelPortsOf(config, plan), null, 2)}\n`;
  try {
    if (existsSync(path) && readFileSync(path, "utf8") !== text) {
      renameSync(path, `${path}.old`);
      io.err.write(`${path} said other ports: what was there is kept in ${path}.old\n`);
    }
    writeFileSync(path, text);
    io.out.write(`Ports of the engines are in ${path}\n`);
  } catch (error) {
    io.err.write(`Cannot write ${path}, which MoA-vllm's programs read: ${messageOf(error)}\n`);
  }
}

function plannedModels(plan: LaunchPlan): string[] {
  return [...new Set(plan.engines.map((engine) => engine.modelKey))];
}

/** Tells the pools at once that an engine has ended, with the reason, or that it is there again. */
function setDown(router: Router, engine: PlannedEngine, reason: string | undefined): void {
  for (const model of router.services.models.values()) {
    for (const worker of model.pool.workers()) {
      if (new URL(worker.url).host !== new URL(urlOf(engine)).host) continue;
      model.membership.setDown(
        worker.id,
        reason === undefined ? undefined : problemSentence({ name: engine.name, problem: reason }),
      );
    }
  }
}
