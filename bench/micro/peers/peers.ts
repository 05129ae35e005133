/**
 * Cost of a router beside others of its kind: each in front of the same worker, which sends a chunk every 10 ms to
 * each stream, under the same load, in turns. Needs `tests/engines/setup_peers.sh` and a built `dist/canopy`; Linux.
 *
 *     deno task bench:peers [--rounds 3] [--requests 200] [--concurrency 32] [--tokens 100]
 */
import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { runLoad } from "../../load/load.ts";
import { numberAfter } from "../flags.ts";
import { median } from "../measure.ts";
import { type PeerRouter, peerRouters, RunningRouter } from "./routers.ts";
import { systemTransport } from "../../../router/transport/system.ts";

const rounds = numberAfter("--rounds", 3);
const requests = numberAfter("--requests", 200);
const concurrency = numberAfter("--concurrency", 32);
const tokens = numberAfter("--tokens", 100);
const basePort = numberAfter("--base-port", 18_300);

interface Round {
  readonly cpuPerChunkMicros: number;
  readonly ttftP50Ms: number;
  readonly ttftP99Ms: number;
  readonly e2eP50Ms: number;
}

const clock = new SystemClock();
const transport = systemTransport();
const folder = mkdtempSync(join(tmpdir(), "canopy-peers-"));
const enginesDir = process.env["CANOPY_ENGINES_DIR"] ?? join(homedir(), ".cache", "canopy-engines");
const canopy = process.env["CANOPY_BIN"] ?? fileURLToPath(new URL("../../../dist/canopy", import.meta.url));
const engineUrl = `http://127.0.0.1:${basePort}`;
const program = fileURLToPath(new URL("./engine.ts", import.meta.url));
const engineArgs = process.versions["bun"] === undefined ? ["run", "-A", program] : [program];
const engine = spawn(process.execPath, [...engineArgs, `${basePort}`, "m", "10"], {
  stdio: ["ignore", "pipe", "inherit"],
});
const running: RunningRouter[] = [];
try {
  await new Promise((resolve) => engine.stdout?.once("data", resolve));
  const targets = new Map<string, { url: string; cpuMicros: () => number }>([
    ["no router", { url: engineUrl, cpuMicros: () => 0 }],
  ]);
  for (const [index, router] of peerRouters(canopy, join(enginesDir, "peers")).entries()) {
    targets.set(router.name, await start(router, basePort + 1 + index));
  }
  const figures = new Map<string, Round[]>([...targets.keys()].map((name) => [name, []]));
  for (let round = 0; round <= rounds; round++) {
    for (const [name, target] of targets) {
      const before = target.cpuMicros();
      const load = await runLoad({
        transport,
        clock,
        url: target.url,
        apiKey: undefined,
        model: "m",
        requests,
        warmUp: 0,
        concurrency,
        ratePerSecond: undefined,
        inputTokens: 20,
        outputTokens: tokens,
        ignoreEos: false,
        timeoutMs: 60_000,
        random: new Random(`${round}`),
        signal: new AbortController().signal,
      });
      if (load.failed > 0) throw new Error(`${name}: ${[...load.errors.keys()].join("; ")}`);
      // The first round warms compilers and connections up.
      if (round === 0) continue;
      figures.get(name)!.push({
        cpuPerChunkMicros: (target.cpuMicros() - before) / (requests * (tokens + 3)),
        ttftP50Ms: load.ttft.quantile(0.50),
        ttftP99Ms: load.ttft.quantile(0.99),
        e2eP50Ms: load.e2e.quantile(0.50),
      });
    }
  }
  const row = (...cells: string[]) =>
    process.stdout.write(
      `${cells.map((cell, index) => index === 0 ? cell.padEnd(24) : cell.padStart(20)).join("")}\n`,
    );
  process.stdout.write(
    `${concurrency} streams at once, a chunk of ${tokens} every 10 ms each; ${requests} requests a round; medians of ${rounds} rounds\n\n`,
  );
  row("", "CPU µs per chunk", "to canopy's", "TTFT p50/p99, ms", "end to end p50, ms");
  const of = (name: string, figure: (round: Round) => number) => median(figures.get(name)!.map(figure));
  const own = of("canopy", ({ cpuPerChunkMicros }) => cpuPerChunkMicros);
  for (const name of targets.keys()) {
    const cpu = of(name, ({ cpuPerChunkMicros }) => cpuPerChunkMicros);
    row(
      name,
      name === "no router" ? "" : cpu.toFixed(1),
      name === "no router" ? "" : `${(cpu / own).toFixed(2)}×`,
      `${of(name, ({ ttftP50Ms }) => ttftP50Ms).toFixed(1)} / ${
        of(name, ({ ttftP99Ms }) => ttftP99Ms).toFixed(1)
      }`,
      of(name, ({ e2eP50Ms }) => e2eP50Ms).toFixed(0),
    );
  }
} finally {
  for (const one of running) one.stop();
  engine.kill("SIGKILL");
  await transport.close();
  rmSync(folder, { recursive: true });
}

async function start(router: PeerRouter, port: number): Promise<RunningRouter> {
  const one = await RunningRouter.start(router, { port, engineUrl, folder }, {
    clock,
    transport,
    env: process.env,
  });
  running.push(one);
  return one;
}
