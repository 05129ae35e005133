import { loadCheckedConfig } from "../../cfgs/load/load.ts";
import type { Command } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { serveLoaded } from "../kit/router/serve_loaded.ts";
import { configOfFlags } from "../kit/router_flags/config_of_flags.ts";
import { readRouterFlags, variableOf } from "../kit/router_flags/read_flags.ts";
import { ROUTER_FLAGS, ROUTER_SPELLINGS } from "../kit/router_flags/table.ts";
import { definitions, paragraphs, textColumns } from "../kit/terminal.ts";
import { podDiscovery } from "./discover.ts";
import { besideFleet } from "./first_worker.ts";

/** `canopy serve` with the options of SGLang's routers: in front of servers that say themselves which model they have. */
export const serveRouterCommand: Command = {
  name: "serve",
  summary: "Serve in front of running servers, with the options of sglang-router and smg",
  options: Object.fromEntries(
    ROUTER_SPELLINGS.map((name) => [name, { type: "text", help: "As in sglang-router and smg" }]),
  ),
  help,
  run: async (args, io) => {
    if (args.includes("--help") || args.includes("-h")) {
      io.out.write(help(textColumns(io.out)));
      return 0;
    }
    const { value, overrides, pods, kubernetesApi, notes } = configOfFlags(
      readRouterFlags(args, { env: io.env }),
    );
    for (const note of notes) io.err.write(`${note}\n`);
    const loaded = loadCheckedConfig({ value, path: "the command line", env: io.env, overrides });
    const discovery = pods === undefined ? undefined : podDiscovery(pods, kubernetesApi, io);
    return await serveLoaded(loaded, io, {
      beside: besideFleet(loaded.config, io, discovery),
      reload: { source: undefined },
    });
  },
};

/** True when an environment variable stands for one of the options that ask for this command. */
export function asksForRouter(env: Io["env"]): boolean {
  return Object.keys(ROUTER_FLAGS).some((name) => (env[variableOf(name)] ?? "") !== "");
}

function help(columns?: number): string {
  const rows = Object.entries(ROUTER_FLAGS).flatMap(([name, { verdict, there, arity }]) => {
    if (verdict.kind !== "honoured") return [];
    const value = { none: "", one: " VALUE", some: " VALUE …", any: " [VALUE …]" }[arity];
    const standard = there === undefined ? "" : ` (${there})`;
    return [
      [`--${name}${name === "prefill" ? " URL [PORT]" : value}`, `${verdict.says}${standard}`] as const,
    ];
  });
  return `${
    paragraphs(
      "Serve in front of running servers, with the options of sglang-router and smg. The servers say which model they have.",
      columns,
    )
  }

Usage: canopy serve --worker-urls URL … [options]
       canopy serve --pd-disaggregation --prefill URL [PORT] --decode URL [options]
       canopy serve --enable-igw [options]      (workers come by POST /workers)

Options:
${definitions(rows.map(([flag, says]) => [flag, says]), columns)}

${
    paragraphs(
      "Every option can also be set by an environment variable, such as CANOPY_ROUTER_WORKER_URLS. What becomes of all options of both routers: docs/drop-in.md.",
      columns,
    )
  }
`;
}
