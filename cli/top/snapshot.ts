import { z } from "zod";
import type { Json } from "../../base/json.ts";
import { getJson, getText, type Server } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";

const workersSchema = z.looseObject({
  workers: z.array(z.looseObject({
    id: z.string(),
    url: z.string(),
    model: z.string(),
    engine: z.string(),
    worker_type: z.string(),
    health: z.string(),
    breaker: z.string(),
    in_flight: z.number(),
    served: z.number(),
    failures: z.number(),
    last_error: z.string().nullish(),
  })),
});

const runsSchema = z.looseObject({
  data: z.array(z.looseObject({
    id: z.string(),
    graph: z.string(),
    state: z.string(),
    created: z.number(),
    usage: z.looseObject({ calls: z.number(), completion_tokens: z.number() }),
  })),
});

/** A worker as `GET /workers` tells. */
export type TopWorker = z.infer<typeof workersSchema>["workers"][number];
/** A run as `GET /v1/runs` tells. */
export type TopRun = z.infer<typeof runsSchema>["data"][number];

/** A server at one moment. */
export interface ServerSnapshot {
  readonly workers: readonly TopWorker[];
  /** Those that go on; undefined where they may not be seen. */
  readonly runs: readonly TopRun[] | undefined;
  /** Requests, by `GET /metrics`; undefined where that is on another port. */
  readonly inFlight: number | undefined;
  readonly queued: number | undefined;
}

/** Runs that are looked at. */
const MAX_RUNS = 100;

/** Asks a server for what it does now. Throws `CanopyError` where it does not answer or refuses. */
export async function takeSnapshot(server: Server, io: Io): Promise<ServerSnapshot> {
  const { transport, stop } = io;
  const optional = <T>(asked: Promise<T>) => asked.catch(() => undefined);
  const [workers, runs, metrics] = await Promise.all([
    getJson(transport, server, "/workers", stop),
    optional(getJson(transport, server, `/v1/runs?limit=${MAX_RUNS}`, stop)),
    optional(getText(transport, server, "/metrics", stop)),
  ]);
  return {
    workers: workersSchema.parse(workers).workers,
    runs: runs === undefined ? undefined : liveRuns(runs),
    inFlight: gauge(metrics, "canopy_requests_in_flight"),
    queued: gauge(metrics, "canopy_requests_queued"),
  };
}

function liveRuns(body: Json): TopRun[] | undefined {
  const runs = runsSchema.safeParse(body);
  return runs.success ? runs.data.data.filter(({ state }) => state === "running") : undefined;
}

/** The sum of a series' values in Prometheus' text form. */
function gauge(metrics: string | undefined, name: string): number | undefined {
  const found = [...(metrics ?? "").matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, "gm"))];
  return found.length === 0 ? undefined : found.reduce((sum, [, value]) => sum + Number(value), 0);
}
