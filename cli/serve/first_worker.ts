import { CanopyError } from "../../base/errors.ts";
import type { Config, FleetConfig } from "../../cfgs/schema/config.ts";
import type { Io } from "../kit/io.ts";
import type { Beside } from "../kit/router/serve_loaded.ts";
import type { Router } from "../../router/router.ts";

/** Discovery together with the wait for a fleet's first server; as it was where there is no fleet. */
export function besideFleet({ fleet }: Config, io: Io, discovery: Beside | undefined): Beside | undefined {
  if (fleet === undefined) return discovery;
  return (router, url, signal) => {
    void discovery?.(router, url, signal);
    return firstWorker(router, fleet, io, signal);
  };
}

/** Says which of the named servers are waited for. Throws when none has named a model in its time. */
async function firstWorker(
  { ready, services: { fleet } }: Router,
  config: FleetConfig,
  io: Io,
  signal: AbortSignal,
): Promise<void> {
  await ready();
  if (fleet === undefined || config.workers.length === 0) return;
  const urls = () => fleet.pending.map(({ access }) => access.url).join(", ");
  if (fleet.pending.length > 0) io.out.write(`Waiting for servers to name their model: ${urls()}\n`);
  await io.clock.sleep(config.startup_timeout_ms, signal);
  if (fleet.pending.length < config.workers.length) return;
  throw new CanopyError(
    `No server named its model within ${config.startup_timeout_ms / 1_000} s: ${urls()}; see that they run`,
    { code: "worker_unreachable", status: 502 },
  );
}
