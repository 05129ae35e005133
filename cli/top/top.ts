import { CanopyError } from "../../base/errors.ts";
import { TransportError } from "../../base/transport.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { serverOf, URL_OPTION } from "../kit/server_place.ts";
import { type Colors, colorsOf, LiveRegion, oneLine, table } from "../kit/terminal.ts";
import { type ServerSnapshot, takeSnapshot, type TopWorker } from "./snapshot.ts";

const DEFAULT_SECONDS = 1;

/** `canopy top`: workers and runs of a server, drawn over and over. */
export const topCommand = defineCommand({
  name: "top",
  summary: "Watch the workers and runs of a server",
  maxArguments: 0,
  options: {
    ...URL_OPTION,
    every: {
      type: "number",
      value: "SECONDS",
      fraction: true,
      min: 0.1,
      help: `Time between two looks; ${DEFAULT_SECONDS} by default`,
    },
    once: { type: "flag", help: "Print it once, and end; without a terminal it is always so" },
  },
  details: `Ctrl-C ends it.

Examples:
  canopy top
  canopy top --once --url http://gpu1:8000`,
  run: async (values, _, io) => {
    const server = serverOf(values.url, io);
    const colors = colorsOf(io.out, io.env);
    const region = new LiveRegion(io.out);
    const everyMs = 1000 * (values.every ?? DEFAULT_SECONDS);
    let lines: readonly string[] = [];
    let before: Look | undefined;
    while (true) {
      try {
        const look = { snapshot: await takeSnapshot(server, io), atMs: io.clock.now() };
        lines = drawTop({ url: server.url, look, before }, io, colors);
        before = look;
        if (values.once || !region.live) {
          io.out.write(`${lines.join("\n")}\n`);
          return 0;
        }
        region.draw(lines);
      } catch (error) {
        // Ctrl-C is its usual end, also in the middle of a look.
        if (io.stop.aborted && lines.length > 0) return 0;
        // One that has answered is waited for: it may just be started anew.
        const isGone = CanopyError.is(error) || error instanceof TransportError;
        if (lines.length === 0 || !isGone) throw error;
        before = undefined;
        region.draw([...lines, "", colors.red(error.message)]);
      }
      try {
        await io.clock.sleep(everyMs, io.stop);
      } catch {
        return 0;
      }
    }
  },
});

/** A look at a server. */
interface Look {
  readonly snapshot: ServerSnapshot;
  readonly atMs: number;
}

/** A look at a server, and the one before it; undefined where there is none to compare with. */
interface TopView {
  readonly url: string;
  readonly look: Look;
  readonly before: Look | undefined;
}

function drawTop({ url, look, before }: TopView, io: Io, colors: Colors): string[] {
  const { snapshot, atMs } = look;
  const { workers, runs, inFlight, queued } = snapshot;
  const served = new Map(before?.snapshot.workers.map((worker) => [worker.id, worker.served]));
  const seconds = before === undefined ? 0 : (atMs - before.atMs) / 1000;
  const ill = workers.filter((worker) => !isWell(worker));
  const parts = [
    url,
    ...(inFlight === undefined ? [] : [`${inFlight} requests in flight, ${queued ?? 0} queued`]),
    ...(runs === undefined ? [] : [`${runs.length} runs go on`]),
    `${workers.length - ill.length} of ${workers.length} workers are well`,
  ];
  const right = "right" as const;
  const rows = workers.map((worker) => {
    const earlier = served.get(worker.id);
    // Fewer than before: the server has begun to count anew.
    const isKnown = earlier !== undefined && earlier <= worker.served && seconds > 0;
    const rate = isKnown ? ((worker.served - earlier) / seconds).toFixed(1) : "";
    const { id, model, engine, worker_type: type } = worker;
    const role = type === "regular" ? engine : `${engine} ${type}`;
    return [id, model, role, stateOf(worker), worker.in_flight, worker.served, rate, worker.failures].map(
      String,
    );
  });
  const head = ["worker", "model", "engine", "state", "in flight", "served", "a second", "failures"];
  return [
    colors.bold(parts.join(" · ")),
    "",
    ...table(head, rows, ["left", "left", "left", "left", right, right, right, right]),
    ...ill.flatMap(({ id, last_error: error }) =>
      typeof error === "string" ? [colors.red(`${id}: ${oneLine(error)}`)] : []
    ),
    ...runLines(snapshot, io),
  ];
}

function runLines({ runs = [] }: ServerSnapshot, io: Io): string[] {
  if (runs.length === 0) return [];
  const nowSeconds = (io.clock.unixEpochMs + io.clock.now()) / 1000;
  const right = "right" as const;
  const rows = runs.map(({ id, graph, created, usage }) => [
    id,
    graph,
    `${Math.max(0, Math.floor(nowSeconds - created))} s`,
    String(usage.calls),
    String(usage.completion_tokens),
  ]);
  return [
    "",
    ...table(["run", "graph", "age", "calls", "tokens"], rows, ["left", "left", right, right, right]),
  ];
}

function isWell({ health, breaker }: TopWorker): boolean {
  return health === "healthy" && breaker === "closed";
}

function stateOf({ health, breaker }: TopWorker): string {
  return breaker === "closed" ? health : `${health}, breaker ${breaker.replace("_", " ")}`;
}
