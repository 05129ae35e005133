import type { Config } from "../../cfgs/schema/config.ts";
import type { Launch } from "../../cfgs/schema/launch.ts";
import { Ports } from "../host/ports.ts";
import type { PlanOptions } from "./plan_options.ts";
import { launchOf, type NamedTarget } from "./targets.ts";

/** Ports by the name of the engine. */
export interface PlannedPorts {
  readonly http: ReadonlyMap<string, number>;
  readonly bootstrap: ReadonlyMap<string, number>;
  /** Found in use by others. */
  readonly skipped: readonly number[];
}

/** Address on which engines listen: as the router, on this host only. */
export const ENGINE_HOST = "127.0.0.1";

/** vLLM's side channel of an engine takes a port for each of its ranks, at most this many. */
const SIDE_CHANNEL_PORTS = 8;

/**
 * Gives each engine its port: the one that the configuration names, unless `--base-port` is given, else the next free
 * one. Simulated halves of a model are one process on ports in a row.
 */
export async function assignPorts(
  named: readonly NamedTarget[],
  config: Config,
  options: PlanOptions,
): Promise<PlannedPorts> {
  const launch = launchOf(config);
  const ports = new Ports(ENGINE_HOST, options.probe);
  for (const port of [config.server.port, config.server.metrics?.port ?? 0]) {
    if (port !== 0) ports.reserve(port);
  }
  const http = new Map<string, number>();
  const bootstrap = new Map<string, number>();
  const base = options.basePort ?? launch.base_port;
  const isSimulatedHalf = ({ model, target }: NamedTarget) =>
    model.family === "sim" && target.role !== "whole";
  for (const one of named) {
    if (isSimulatedHalf(one) || options.basePort !== undefined || one.target.port === undefined) continue;
    http.set(one.name, await ports.claim(one.target.port, one.name));
  }
  for (const one of named) {
    if (!isSimulatedHalf(one) && !http.has(one.name)) http.set(one.name, await ports.next(base));
  }
  for (const one of named) {
    const { model, target } = one;
    if (!isSimulatedHalf(one) || http.has(one.name)) continue;
    const halves = named.filter((other) => other.model === model);
    // The simulator starts prefill servers first.
    const ordered = [
      ...halves.filter((other) => other.target.role === "prefill"),
      ...halves.filter((other) => other.target.role === "decode"),
    ];
    const first = await ports.next(base, ordered.length);
    const registry = await ports.next(
      target.bootstrapPort ?? registryBase(model.protocol, launch),
      ordered.length,
    );
    for (const [at, half] of ordered.entries()) {
      http.set(half.name, first + at);
      bootstrap.set(half.name, registry + at);
    }
  }
  for (const { name, model, target } of named) {
    if (target.role === "whole" || bootstrap.has(name)) continue;
    if (model.family === "vllm") {
      bootstrap.set(name, await ports.next(launch.side_channel_port, SIDE_CHANNEL_PORTS));
    } else if (target.role === "prefill") {
      bootstrap.set(name, await ports.next(target.bootstrapPort ?? launch.bootstrap_port));
    }
  }
  return { http, bootstrap, skipped: ports.skipped };
}

function registryBase(protocol: string, launch: Launch): number {
  return protocol === "vllm-pd" ? launch.side_channel_port : launch.bootstrap_port;
}
