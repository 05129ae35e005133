import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import { type Command, defineCommand } from "../kit/command.ts";
import { configFileOf, OVERRIDE_OPTIONS, overridesOf } from "../kit/config_file.ts";
import { serveLoaded } from "../kit/router/serve_loaded.ts";
import { discoverOptions, discoveryOf } from "./discover.ts";
import { servePdCommand } from "./serve_pd.ts";

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

Without a file, in front of SGLang prefill and decode servers, it takes the place of SGLang's own routers:
  canopy serve --pd-disaggregation --prefill URL [PORT] --decode URL   (more: --pd-disaggregation --help)

Examples:
  canopy serve canopy.jsonc --port 9000
  canopy serve configs.json --base-port 8010 --port 9000
  canopy serve canopy.jsonc --discover kubernetes
  canopy serve canopy.jsonc --discover dns --dns 4b=engines-4b.default.svc:30000
  canopy serve moa-9-3-1 --set models.4b.workers=http://gpu1:30000,http://gpu2:30000`,
  run: async (values, [file], io) => {
    const loaded = loadCheckedConfig({
      path: configFileOf(file, io),
      env: io.env,
      overrides: overridesOf(values),
      basePort: values["base-port"],
    });
    const discovery = discoveryOf(values, loaded.config, io);
    if (discovery === undefined) return await serveLoaded(loaded, io);
    // Models without workers are what it is for.
    const warnings = loaded.warnings.filter(({ path }) => !path.endsWith(".workers"));
    return await serveLoaded({ ...loaded, warnings }, io, discovery);
  },
});

/** `canopy serve`: the router. */
export const serveCommand: Command = {
  ...configured,
  run: (args, io) =>
    args.includes("--pd-disaggregation") ? servePdCommand.run(args, io) : configured.run(args, io),
};
