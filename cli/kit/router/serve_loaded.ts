import { CanopyError } from "../../../base/errors.ts";
import { isLoopback } from "../../../base/hosts.ts";
import { startLog } from "../../../base/log.ts";
import type { LoadedConfig } from "../../../cfgs/load/load.ts";
import { configProblemText } from "../../../cfgs/load/problems.ts";
import type { Config, FleetConfig } from "../../../cfgs/schema/config.ts";
import { apiKeysOf } from "../../../cfgs/schema/limits.ts";
import { type Io, untilStopped } from "../io.ts";
import { ConfigReload, type ReloadSource } from "./config_reload.ts";
import { openFilesWarning } from "./open_files.ts";
import { reachableUrl, startRouter } from "./local_router.ts";
import { reportsWarning } from "./reports_warning.ts";
import { colorsOf, definitions } from "../terminal.ts";
import { version } from "../version.ts";
import type { WorkerStatus } from "../../../router/pool/worker.ts";
import type { Router } from "../../../router/router.ts";

/** Work that goes on while a router serves, such as discovery. */
export interface Beside {
  /** Called when it listens; the signal aborts when it is to end. A promise that rejects ends the serving. */
  (router: Router, url: string, signal: AbortSignal): void | Promise<void>;
}

/** Options of `serveLoaded`. */
export interface ServeOptions {
  readonly beside?: Beside | undefined;
  /** Where the configuration is read again from, undefined inside where there is nothing to read; absent: SIGHUP ends. */
  readonly reload?: { readonly source: ReloadSource | undefined } | undefined;
}

/** Serves a configuration until the program is asked to stop; gives the exit code. */
export async function serveLoaded(
  loaded: LoadedConfig,
  io: Io,
  { beside, reload }: ServeOptions = {},
): Promise<number> {
  for (const warning of loaded.warnings) io.err.write(`${configProblemText(warning)}\n`);
  for (const warning of [openFilesWarning(loaded.config), reportsWarning(loaded.config)]) {
    if (warning !== undefined) io.err.write(`${warning}\n`);
  }
  const { server } = loaded.config;
  startLog({ level: server.log_level, format: server.log_format, folder: server.log_dir });
  const { router, url } = await startRouter(loaded.config, io, server);
  router.origins.read(loaded.provenance);
  const life = new AbortController();
  try {
    const failed = failureOf(beside?.(router, url, life.signal), life.signal);
    if (loaded.config.fleet !== undefined) {
      await router.ready();
      tellRefusals(router, loaded.config.fleet, io);
    }
    if (reload !== undefined) {
      const { config } = loaded;
      void new ConfigReload({ source: reload.source, config, router, io }).run(life.signal);
    }
    io.out.write(announcement(loaded.config, router, url, io));
    if (!isLoopback(server.host) && apiKeysOf(server).length === 0) {
      io.err.write(`Anybody who reaches ${server.host} can use this server: set server.api_keys\n`);
    }
    await Promise.race([serveUntilStopped(router, io), failed]);
    return 0;
  } finally {
    life.abort(new Error("The router is shutting down"));
    await router.close();
  }
}

/** Names the servers that refused our key. Throws when they are all that were named. */
function tellRefusals({ services: { fleet } }: Router, { workers }: FleetConfig, io: Io): void {
  const refused = fleet?.pending.filter((worker) => worker.refused) ?? [];
  const problems = refused.map(({ problem = "" }) => problem);
  if (refused.length > 0 && refused.length === workers.length) {
    throw new CanopyError(problems.join("; "), { code: "worker_unauthorized", status: 502 });
  }
  for (const problem of problems) io.err.write(`${problem}\n`);
  for (const url of fleet?.keyed ?? []) {
    io.err.write(
      `${url} wants a key (status 401): it gets those of clients, and the router has none for it\n`,
    );
  }
}

/** Rejects with the error of work that goes on, and never settles otherwise. */
function failureOf(work: void | Promise<void>, signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    work?.catch((error) => {
      if (!signal.aborted) reject(error);
    });
  });
}

/** Waits for the signal to stop, then lets what is running finish. */
export async function serveUntilStopped(router: Router, io: Io): Promise<void> {
  await untilStopped(io);
  io.out.write("Draining: no new requests, the running ones finish. Once more to end at once.\n");
  await router.drain();
}

function workersText(workers: readonly WorkerStatus[]): string {
  const decodes = workers.filter(({ role }) => role === "decode").length;
  if (decodes > 0) {
    return `${workers.length - decodes} prefill and ${decodes} decode ${
      decodes === 1 ? "server" : "servers"
    }`;
  }
  return workers.length === 1 ? "1 worker" : `${workers.length} workers`;
}

/** Text for the terminal: the models, the address and an example request. */
export function announcement(config: Config, router: Router, url: string, io: Io): string {
  const { graphs } = router.services.moa;
  const rows = [...graphs.values()].map((graph): [string, string] => {
    const models = [...new Set(graph.agents.map((agent) => agent.model))].join(", ");
    return [
      graph.name,
      `graph of ${graph.agents.length} ${graph.agents.length === 1 ? "agent" : "agents"}: ${models}`,
    ];
  });
  for (const { name, config: model, pool } of router.services.models.values()) {
    const many = model.engine === "onnx" ? "in this process" : workersText(pool.workers());
    if (model.served) {
      rows.push([name, `${model.engine}, ${many}${model.model === name ? "" : `: ${model.model}`}`]);
    }
  }
  const key = apiKeysOf(config.server).length === 0 ? "" : ` -H 'authorization: Bearer KEY'`;
  if (rows.length === 0 && config.fleet !== undefined) {
    return `Canopy ${version} is listening on ${url}\nNo worker is here yet: POST ${
      reachableUrl(url)
    }/workers {"url": …} adds one\n`;
  }
  const example = {
    model: rows[0]?.[0] ?? "MODEL",
    messages: [{ role: "user", content: "Why is the sky blue?" }],
  };
  const colors = colorsOf(io.out, io.env);
  return `${colors.bold(`Canopy ${version} is listening on ${url}`)}
${rows.length === 0 ? "" : `${definitions(rows)}\n`}Try:
  curl ${reachableUrl(url)}/v1/chat/completions -H 'content-type: application/json'${key} -d '${
    JSON.stringify(example)
  }'
`;
}
