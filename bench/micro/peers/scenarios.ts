import type { Clock } from "../../../base/clock.ts";
import type { ClientReport, NativeBench } from "./native.ts";
import type { RunningRouter } from "./routers.ts";

/** One measurement of one router; what a load does not tell is absent. */
export interface Figures {
  readonly cpuMicros: number;
  readonly perSecond?: number;
  readonly p50Us?: number;
  readonly p99Us?: number;
  readonly memoryMb?: number;
}

/** A load, and what is read from it. */
export interface Scenario {
  readonly name: string;
  readonly title: string;
  /** Unit of which one costs `cpuMicros`. */
  readonly unit: "request" | "chunk" | "stream and second";
  /** True where memory is read while all streams are open. */
  readonly isHeld?: boolean;
  readonly words: (seconds: number) => readonly string[];
  readonly read: (report: ClientReport, cpuMicros: number) => Figures;
}

const CONNECTIONS = 64;
const PACED_CHUNKS = 200;
const BULK_CHUNKS = 256;
const GAP_US = 20_000;
const CALM_PER_SECOND = 400;
/** Streams that are open while memory is read. */
const HELD = 1_000;

const ofRequests = (
  { requests, seconds, requestsP50Us, requestsP99Us }: ClientReport,
  cpuMicros: number,
) => ({
  cpuMicros: cpuMicros / requests,
  perSecond: requests / seconds,
  p50Us: requestsP50Us,
  p99Us: requestsP99Us,
});
const ofChunks = ({ chunks, seconds, chunksP50Us, chunksP99Us }: ClientReport, cpuMicros: number) => ({
  cpuMicros: cpuMicros / chunks,
  perSecond: chunks / seconds,
  p50Us: chunksP50Us,
  p99Us: chunksP99Us,
});

/** Loads of the bench, in the order of its table. */
export const SCENARIOS: readonly Scenario[] = [
  {
    name: "whole",
    title: `whole answers of 1 kB, ${CONNECTIONS} connections, as fast as they go`,
    unit: "request",
    words: (seconds) => ["closed", `${CONNECTIONS}`, `${seconds}`],
    read: ofRequests,
  },
  {
    name: "calm",
    title: `whole answers of 1 kB, ${CALM_PER_SECOND} requests a second`,
    unit: "request",
    words: (seconds) => ["rate", `${CONNECTIONS}`, `${seconds}`, `${CALM_PER_SECOND}`],
    read: ofRequests,
  },
  ...(["in step", "spread"] as const).map((pace): Scenario => ({
    name: pace === "spread" ? "spread" : "paced",
    title: `${CONNECTIONS} streams, a chunk of 210 bytes every 20 ms each, ${pace}`,
    unit: "chunk",
    words: (seconds) => [
      ...["streams", `${CONNECTIONS}`, `${seconds}`, `${PACED_CHUNKS}`, `${GAP_US}`],
      pace === "spread" ? "1" : "0",
    ],
    read: ofChunks,
  })),
  {
    name: "bulk",
    title: `${CONNECTIONS} streams of ${BULK_CHUNKS} chunks, as fast as they go`,
    unit: "chunk",
    words: (seconds) => ["streams", `${CONNECTIONS}`, `${seconds}`, `${BULK_CHUNKS}`, "0", "0"],
    read: ofChunks,
  },
  {
    name: "open",
    title: `${HELD} open streams, a chunk a second each`,
    unit: "stream and second",
    isHeld: true,
    words: (seconds) => ["hold", `${HELD}`, `${seconds + 4}`],
    read: ({ seconds }, cpuMicros) => ({ cpuMicros: cpuMicros / HELD / seconds }),
  },
];

/** Runs one load on one router and then, to be measured, once more. Throws when a request failed. */
export async function measure(
  { scenario, router, bench, clock, model, seconds }: {
    readonly scenario: Scenario;
    readonly router: RunningRouter;
    readonly bench: NativeBench;
    readonly clock: Clock;
    readonly model: string;
    readonly seconds: number;
  },
): Promise<Figures> {
  // A router that serves is under its load: compilers forget code that nothing has run for some seconds, such as while
  // the others had their turns. Streams that were just left would be in the memory of those that are held.
  if (!scenario.isHeld) await bench.load(router.port, model, scenario.words(seconds));
  let memoryMb: Promise<number> | undefined;
  const onOpen = () => memoryMb = clock.sleep(1_500).then(() => router.memoryMb());
  const before = router.cpuMicros();
  const report = await bench.load(router.port, model, scenario.words(seconds), onOpen);
  if (report.failed > 0) {
    throw new Error(`${router.name}, ${scenario.name}: ${report.failed} of ${report.begun} requests failed`);
  }
  const cpuMicros = router.cpuMicros() - before;
  const figures = scenario.read(report, cpuMicros);
  return memoryMb === undefined ? figures : { ...figures, memoryMb: await memoryMb };
}
