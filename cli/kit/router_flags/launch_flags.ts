import type { Override } from "../../../cfgs/load/overrides.ts";
import { formatPath } from "../../../cfgs/schema/config_path.ts";
import { UsageError } from "../args.ts";
import { configOfFlags } from "./config_of_flags.ts";
import { isFlag, readRouterFlags } from "./read_flags.ts";
import { routerFlag } from "./table.ts";

/** The flags of SGLang's launch_server that are for its router begin so. */
const PREFIX = "router-";
/** Flags that name workers: there, the servers are started by the same command. */
const WORKERS = ["worker-urls", "prefill", "decode", "service-discovery", "discovery-provider", "enable-igw"];
/** Flags that say of workers what the configuration says of those that are started by the same command. */
const STARTED = [
  "worker-startup-timeout-secs",
  "backend",
  "pd-disaggregation",
  "mini-lb",
  "vllm-pd-disaggregation",
  "service-discovery-port",
  "service-discovery-namespace",
  "kubernetes-api",
  "disable-tokenizer-autoload",
  "disable-load-monitoring",
];

/** A command line in two parts. */
export interface SplitArgs {
  /** `--router-…` with their values. */
  readonly router: readonly string[];
  readonly rest: readonly string[];
}

/** Takes a router's flags out of a command line. */
export function splitRouterArgs(args: readonly string[]): SplitArgs {
  const router: string[] = [];
  const rest: string[] = [];
  for (let at = 0; at < args.length;) {
    const text = args[at++]!;
    const [, name = "", inline] = /^--router-([^=]*)(=)?/.exec(text) ?? [];
    (name === "" ? rest : router).push(text);
    if (name === "" || inline !== undefined) continue;
    const arity = routerFlag(name)?.flag.arity ?? "none";
    const end = arity === "none" ? at : arity === "one" ? at + 1 : Infinity;
    while (at < Math.min(end, args.length) && !isFlag(args[at]!)) router.push(args[at++]!);
  }
  return { router, rest };
}

/**
 * Values that a router's flags put over a configuration with these models. Throws `UsageError`; `notes` are lines
 * about what is not in effect.
 */
export function routerOverrides(
  args: readonly string[],
  models: readonly string[],
): { readonly overrides: readonly Override[]; readonly notes: readonly string[] } {
  const flags = readRouterFlags(args, { env: {}, prefix: PREFIX });
  const strange = WORKERS.find((name) => flags.given.has(name));
  if (strange !== undefined) {
    throw new UsageError(
      `Option --${PREFIX}${strange}: the servers are those that are started here; leave it out`,
    );
  }
  const { value, overrides, notes } = configOfFlags(flags, { onlyGiven: true });
  const origin = `--${PREFIX}…`;
  const server = leavesOf(value["server"], ["server"]);
  const model = leavesOf(value["fleet"], []).flatMap(({ path: [first, ...rest], leaf }) =>
    first === "model" ? models.map((name) => ({ path: ["models", name, ...rest], leaf })) : []
  );
  const made = [...server, ...model].map(({ path, leaf }) => ({
    path: formatPath(path),
    value: leaf,
    origin,
  }));
  const idle = STARTED.filter((name) => flags.given.has(name)).map((name) =>
    `Option --${PREFIX}${name}: the servers are those that are started here, as the configuration says`
  );
  return { overrides: [...made, ...overrides], notes: [...notes, ...idle] };
}

function leavesOf(value: unknown, path: readonly string[]): { path: readonly string[]; leaf: unknown }[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return value === undefined ? [] : [{ path, leaf: value }];
  }
  return Object.entries(value).flatMap(([key, item]) => leavesOf(item, [...path, key]));
}
