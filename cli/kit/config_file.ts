import { existsSync } from "node:fs";
import { join, relative } from "node:path";
import type { LoadedConfig } from "../../cfgs/load/load.ts";
import type { Override } from "../../cfgs/load/overrides.ts";
import { UsageError } from "./args.ts";
import type { OptionValues } from "./command.ts";
import type { Io } from "./io.ts";

/** Files that are looked for when none is named, in this order; the last is MoA-vllm's. */
export const DEFAULT_CONFIG_FILES = [
  "canopy.jsonc",
  "canopy.json",
  "canopy.yaml",
  "canopy.yml",
  "configs.json",
] as const;

/** The configuration file in the working folder, as the process can open it; undefined when there is none. */
export function findConfigFile(io: Io): string | undefined {
  const name = DEFAULT_CONFIG_FILES.find((name) => existsSync(join(io.cwd, name)));
  return name === undefined ? undefined : relative("", join(io.cwd, name));
}

/** The file that was named, or the one in the working folder. Throws `UsageError` when there is none. */
export function configFileOf(given: string | undefined, io: Io): string {
  const path = given ?? findConfigFile(io);
  if (path === undefined) {
    throw new UsageError(
      `No configuration: name a FILE or a preset, put one of ${
        DEFAULT_CONFIG_FILES.join(", ")
      } into this folder, ` +
        'or let "canopy init" write one for the servers that run here',
    );
  }
  return path;
}

/** Options of all commands that read a configuration. */
export const OVERRIDE_OPTIONS = {
  host: { type: "text", value: "HOST", help: "Address to listen on (server.host)" },
  port: {
    type: "number",
    value: "PORT",
    min: 0,
    max: 65535,
    help: "Port to listen on (server.port); 0: any",
  },
  workers: {
    type: "text",
    value: "N",
    help: "Threads that serve (server.workers), 1 by default; auto: one for each core",
  },
  set: {
    type: "list",
    value: "PATH=VALUE",
    help: "Any value of the configuration, such as server.max_queued=10",
  },
  "no-page": { type: "flag", help: "No page for browsers at / (server.page)" },
  reports: {
    type: "text",
    value: "DIR",
    help: "Folder of bench reports that the page lists (server.reports)",
  },
  records: {
    type: "text",
    value: "FILE",
    help: "Record finished runs in this SQLite file (server.records.file)",
  },
  "no-records": { type: "flag", help: "Keep nothing of finished runs, nor in memory (server.records.keep)" },
  "base-port": {
    type: "number",
    value: "PORT",
    min: 1,
    max: 65535,
    help: "MoA-vllm: port of the first model in configs.json; the others follow",
  },
} as const;

/** Throws `UsageError` for a `--base-port` where engines have their addresses in the file. */
export function refuseIdleBasePort(
  values: Pick<OptionValues<typeof OVERRIDE_OPTIONS>, "base-port">,
  { format, source }: Pick<LoadedConfig, "format" | "source">,
): void {
  if (values["base-port"] === undefined || format !== "canopy") return;
  throw new UsageError(
    `Option --base-port is for MoA-vllm's configs.json: in ${source} the workers of each model have their ports`,
  );
}

/** Values of `--set`. Throws `UsageError` for one without `=`. */
export function setOverrides(texts: readonly string[]): Override[] {
  return texts.map((text): Override => {
    const at = text.indexOf("=");
    if (at < 1) {
      throw new UsageError(`Option --set must look like server.port=9000: current value is "${text}"`);
    }
    return { path: text.slice(0, at), value: text.slice(at + 1), origin: `--set ${text.slice(0, at)}` };
  });
}

/** Values that flags put over the file. Throws `UsageError` for a `--set` without `=`, and for flags that exclude each other. */
export function overridesOf(values: OptionValues<typeof OVERRIDE_OPTIONS>): Override[] {
  const overrides = setOverrides(values.set);
  if (values.host !== undefined) {
    overrides.push({ path: "server.host", value: values.host, origin: "--host" });
  }
  if (values.port !== undefined) {
    overrides.push({ path: "server.port", value: values.port, origin: "--port" });
  }
  if (values.workers !== undefined) {
    overrides.push({ path: "server.workers", value: values.workers, origin: "--workers" });
  }
  if (values.reports !== undefined) {
    overrides.push({ path: "server.reports", value: values.reports, origin: "--reports" });
  }
  if (values.records !== undefined) {
    if (values["no-records"]) throw new UsageError("--records and --no-records exclude each other");
    overrides.push({ path: "server.records.file", value: values.records, origin: "--records" });
  }
  if (values["no-records"]) {
    overrides.push({ path: "server.records.keep", value: "false", origin: "--no-records" });
  }
  if (values["no-page"]) overrides.push({ path: "server.page", value: "false", origin: "--no-page" });
  return overrides;
}
