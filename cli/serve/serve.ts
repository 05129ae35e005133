import { dirname, join } from "node:path";
import { nearest } from "../../base/nearest.ts";
import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import { UsageError } from "../kit/args.ts";
import { type Command, defineCommand } from "../kit/command.ts";
import {
  configFileOf,
  findConfigFile,
  OVERRIDE_OPTIONS,
  overridesOf,
  refuseIdleBasePort,
} from "../kit/config_file.ts";
import { initFolder } from "../kit/init/init_folder.ts";
import type { Io } from "../kit/io.ts";
import { serveLoaded } from "../kit/router/serve_loaded.ts";
import { isFlag } from "../kit/router_flags/read_flags.ts";
import { ROUTER_SPELLINGS, routerFlag } from "../kit/router_flags/table.ts";
import { discoverOptions, discoveryOf } from "./discover.ts";
import { besideFleet } from "./first_worker.ts";
import { asksForRouter, serveRouterCommand } from "./serve_router.ts";

const configured = defineCommand({
  name: "serve",
  summary: "Serve the graphs and models of a configuration",
  arguments: "[FILE]",
  maxArguments: 1,
  options: { ...OVERRIDE_OPTIONS, ...discoverOptions },
  details:
    `FILE is a Canopy configuration (JSONC or YAML), MoA-vllm's configs.json, or the name of a preset; without
it the configuration in this folder is used. SIGTERM or Ctrl-C lets the running requests finish, a second one
ends at once. Every value can also be set by an environment variable, such as CANOPY_SERVER_PORT.

Without a file, in front of running servers, it takes the place of SGLang's own routers, with their options:
  canopy serve --worker-urls URL …                                     (more: --worker-urls --help)
  canopy serve --pd-disaggregation --prefill URL [PORT] --decode URL

Examples:
  canopy serve canopy.jsonc --port 9000
  canopy serve configs.json --base-port 8010 --port 9000
  canopy serve canopy.jsonc --discover kubernetes
  canopy serve canopy.jsonc --discover dns --dns 4b=engines-4b.default.svc:30000
  canopy serve moa-9-3-1 --set models.4b.workers=http://gpu1:30000,http://gpu2:30000`,
  run: async (values, [file], io) => {
    const path = await fileOrNew(file, io);
    const overrides = overridesOf(values);
    const discovers = (["discover", "dns", "dns-prefill", "dns-decode"] as const)
      .some((name) => values[name].length > 0);
    const read = () => {
      const loaded = loadCheckedConfig({ path, env: io.env, overrides, basePort: values["base-port"] });
      // Models without workers are what discovery is for.
      const warnings = loaded.warnings.filter((warning) => !discovers || !warning.path.endsWith(".workers"));
      return { ...loaded, warnings };
    };
    const loaded = read();
    refuseIdleBasePort(values, loaded);
    const discovery = discoveryOf(values, loaded.config, io);
    return await serveLoaded(loaded, io, {
      beside: besideFleet(loaded.config, io, discovery),
      reload: { source: { read, files: [path, join(dirname(path), "model2port.json")] } },
    });
  },
});

/** The file that was named or is in this folder; where there is none and somebody can answer, one is offered. */
async function fileOrNew(given: string | undefined, io: Io): Promise<string> {
  if (given === undefined && findConfigFile(io) === undefined && io.canAsk) {
    const answer = await io.ask(
      "No configuration in this folder. Write one for the servers that run here? [Y/n] ",
    );
    if (answer !== undefined && /^(y(es)?)?$/i.test(answer.trim())) {
      await initFolder({ from: [] }, io);
      io.out.write("\n");
    }
  }
  return configFileOf(given, io);
}

/** `canopy serve`: the router. */
export const serveCommand: Command = {
  ...configured,
  options: { ...serveRouterCommand.options, ...configured.options },
  run: (args, io) => takesRouterFlags(args, io) ? serveRouterCommand.run(args, io) : configured.run(args, io),
};

/** True for the command line of a router in front of servers, rather than of a configuration. */
function takesRouterFlags(args: readonly string[], io: Io): boolean {
  const names = args.flatMap((arg) => /^--([^=]+)/.exec(arg)?.[1] ?? []);
  const ours = { ...OVERRIDE_OPTIONS, ...discoverOptions };
  const strange = names.filter((name) => !Object.hasOwn(ours, name) && name !== "help");
  const unknown = strange.find((name) => routerFlag(name) === undefined);
  if (unknown !== undefined) {
    const near = nearest(unknown, [...Object.keys(ours), ...ROUTER_SPELLINGS]);
    throw new UsageError(
      `Unknown option --${unknown}` + (near === undefined ? "" : `: did you mean --${near}?`),
    );
  }
  if (strange.length > 0) return true;
  const positional = args.some((arg, at) => !isFlag(arg) && !isFlag(args[at - 1] ?? ""));
  return !positional && names.every((name) => routerFlag(name) !== undefined) && asksForRouter(io.env);
}
