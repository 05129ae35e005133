import type { Config } from "../schema/config.ts";
import { formatPath } from "../schema/config_path.ts";

/** A new configuration as a router that runs can take it over. */
export interface LiveChange {
  /** The new one, with the settings of `later` as they are. */
  readonly config: Config;
  /** Paths of changed settings that can be in effect at once, such as `models.small` and `server.api_keys`. */
  readonly now: readonly string[];
  /** Paths of changed settings that take effect at the next start. */
  readonly later: readonly string[];
}

/** Settings of the server that are read at the start alone. */
const AT_START = ["host", "port", "workers", "metrics", "log_dir", "tracing", "records"] as const;

/** Looks what a router that runs with one configuration can take over of another one. */
export function liveChange(before: Config, after: Config): LiveChange {
  const later: string[] = [];
  const held = <T>(path: string, old: T, next: T): T => {
    if (isEqual(old, next)) return next;
    later.push(path);
    return old;
  };
  const server = { ...after.server };
  for (const key of AT_START) {
    Object.assign(server, { [key]: held(`server.${key}`, before.server[key], after.server[key]) });
  }
  if (server.limits !== undefined) {
    const store = held("server.limits.store", before.server.limits?.store, server.limits.store);
    server.limits = { ...server.limits, store };
  }
  const turnsTls = (before.server.tls === undefined) !== (after.server.tls === undefined);
  if (turnsTls) server.tls = held("server.tls", before.server.tls, after.server.tls);
  const turnsFleet = (before.fleet === undefined) !== (after.fleet === undefined);
  const config: Config = {
    ...after,
    server,
    models: withEmbedded(before.models, after.models, held),
    fleet: turnsFleet ? held("fleet", before.fleet, after.fleet) : after.fleet,
    scorer: held("scorer", before.scorer, after.scorer),
    launch: held("launch", before.launch, after.launch),
  };
  return { config, now: changedPaths(before, config), later };
}

/** Models in this process are loaded at the start: those there are stay as they are. */
function withEmbedded(
  before: Config["models"],
  after: Config["models"],
  held: <T>(path: string, old: T, next: T) => T,
): Config["models"] {
  const models: Config["models"] = {};
  for (const name of new Set([...Object.keys(before), ...Object.keys(after)])) {
    const [old, next] = [before[name], after[name]];
    const isEmbedded = old?.engine === "onnx" || next?.engine === "onnx";
    const model = isEmbedded ? held(formatPath(["models", name]), old, next) : next;
    if (model !== undefined) models[name] = model;
  }
  return models;
}

function changedPaths(before: Config, after: Config): string[] {
  return [
    ...changedKeys("server", before.server, after.server),
    ...changedKeys("models", before.models, after.models),
    ...(isEqual(before.fleet, after.fleet) ? [] : ["fleet"]),
    ...changedKeys("prompts", before.prompts, after.prompts),
    ...changedKeys("graphs", before.graphs, after.graphs),
  ];
}

function changedKeys(
  section: string,
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])]
    .filter((key) => !isEqual(before[key], after[key]))
    .map((key) => formatPath([section, key]));
}

function isEqual(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}
