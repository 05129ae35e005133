/**
 * 10,000 paced streams at once through one router with one thread and with two, in one run: what was lost or out of
 * order, and the CPU of a chunk and of a request. The router runs under the runtime that runs this file, or is the
 * binary that CANOPY_BIN names; worker and clients are C. Needs a C compiler; Linux.
 *
 *     deno task bench:streams [--streams 10000] [--chunks 20] [--gap-ms 1000] [--workers 1,2] [--seconds 5]
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../base/clock.ts";
import { systemTransport } from "../../../router/transport/system.ts";
import { numberAfter, textAfter } from "../flags.ts";
import { NativeBench } from "./native.ts";
import { RunningRouter } from "./routers.ts";

const MODEL = "m";
/** Open files of the router that are not its streams'. */
const OTHER_FILES = 250;
const asked = numberAfter("--streams", 10_000);
const chunks = numberAfter("--chunks", 20);
const gapUs = numberAfter("--gap-ms", 1_000) * 1_000;
const seconds = numberAfter("--seconds", 5);
const workers = textAfter("--workers", "1,2").split(",").map(Number);
const basePort = numberAfter("--base-port", 18_400);

const say = (text: string) => process.stdout.write(`${text}\n`);
const clock = new SystemClock();
const transport = systemTransport();
const folder = mkdtempSync(join(tmpdir(), "canopy-streams-"));

/** Streams that the system's limit on open files allows: each takes two of the router's. */
function possibleStreams(): number {
  const hard = /^Max open files\s+\d+\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "utf8"))?.[1];
  const most = Math.floor((Number(hard ?? Infinity) - OTHER_FILES) / 2);
  if (most < asked) {
    say(`${most} streams, not ${asked}: a process may have ${hard} files open, and each takes two`);
  }
  return Math.min(asked, most);
}

function commandOf(threads: number, port: number): string[] {
  const own = fileURLToPath(new URL("../../../main.ts", import.meta.url));
  const deno = process.versions["deno"] === undefined ? [] : ["run", "-A", "--no-check"];
  const binary = process.env["CANOPY_BIN"];
  return [
    ...(binary === undefined ? [process.execPath, ...deno, own] : [binary]),
    ...["serve", "--worker-urls", `http://127.0.0.1:${basePort}`, "--workers", `${threads}`],
    ...["--host", "127.0.0.1", "--port", `${port}`, "--prometheus-port", "0"],
    ...["--policy", "round_robin", "--log-level", "warn", "--set", "fleet.model.max_in_flight=100000"],
  ];
}

async function measureThreads(threads: number, streams: number, bench: NativeBench): Promise<void> {
  const port = basePort + threads;
  const place = {
    mode: "regular",
    port,
    prefillPort: 0,
    decodePort: basePort,
    policy: "round_robin",
  } as const;
  const peer = { name: `--workers ${threads}`, command: () => commandOf(threads, port) };
  const router = await RunningRouter.start(peer, place, MODEL, { clock, transport });
  try {
    const before = router.cpuMicros();
    // One round: clients begin again only before its end.
    const paced = ["streams", `${streams}`, "0.001", `${chunks}`, `${gapUs}`, "1"];
    const report = await bench.load(port, MODEL, paced);
    const perChunk = (router.cpuMicros() - before) / report.chunks;
    const { begun, failed, lost, reordered } = report;
    say(
      `${router.name}: ${begun} streams, ${report.chunks} chunks in ${report.seconds.toFixed(1)} s; ` +
        `failed ${failed}, chunks lost ${lost}, out of order ${reordered}; CPU ${
          perChunk.toFixed(1)
        } µs a chunk; ` +
        `chunks p50 ${(report.chunksP50Us / 1000).toFixed(1)} ms, p99 ${
          (report.chunksP99Us / 1000).toFixed(1)
        } ms; ` +
        `memory ${router.memoryMb().toFixed(0)} MB`,
    );
    const busy = router.cpuMicros();
    const whole = await bench.load(port, MODEL, ["closed", "64", `${seconds}`]);
    const perRequest = (router.cpuMicros() - busy) / whole.requests;
    say(
      `${router.name}: ${
        (whole.requests / whole.seconds).toFixed(0)
      } whole answers a second over 64 connections, ` +
        `CPU ${perRequest.toFixed(0)} µs each, failed ${whole.failed}`,
    );
  } finally {
    router.stop();
  }
}

let stop = () => {};
try {
  const streams = possibleStreams();
  const bench = new NativeBench(folder);
  // The first port is that of a prefill server.
  stop = await bench.serve(MODEL, [basePort + 99, basePort]);
  for (const threads of workers) await measureThreads(threads, streams, bench);
} finally {
  stop();
  await transport.close();
  rmSync(folder, { recursive: true });
}
