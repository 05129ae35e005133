/**
 * Cost of a router beside others of its kind, and beside the least that a router in JavaScript can do: all in front of
 * the same workers, under the same loads, in turns. Needs `tests/engines/setup_peers.sh`, a built `dist/canopy` and a C
 * compiler; Linux.
 *
 *     deno task bench:peers [--rounds 3] [--seconds 4] [--modes pd,regular] [--only sglang,canopy] [--loads whole,bulk]
 */
import { mkdtempSync, rmSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../base/clock.ts";
import { systemTransport } from "../../../router/transport/system.ts";
import { numberAfter, textAfter } from "../flags.ts";
import { median } from "../measure.ts";
import { NativeBench } from "./native.ts";
import { BASELINE, type Mode, peerRouters, RunningRouter } from "./routers.ts";
import { type Figures, measure, type Scenario, SCENARIOS } from "./scenarios.ts";

const MODEL = "m";
const rounds = numberAfter("--rounds", 3);
const seconds = numberAfter("--seconds", 4);
const basePort = numberAfter("--base-port", 18_300);
const policy = textAfter("--policy", "round_robin");
const modes = textAfter("--modes", "pd,regular").split(",") as Mode[];
const only = textAfter("--only", "").split(",").filter((name) => name !== "");
const loads = textAfter("--loads", "").split(",").filter((name) => name !== "");
const enginesDir = process.env["CANOPY_ENGINES_DIR"] ?? join(homedir(), ".cache", "canopy-engines");
const canopy = process.env["CANOPY_BIN"] ?? fileURLToPath(new URL("../../../dist/canopy", import.meta.url));

const clock = new SystemClock();
const transport = systemTransport();
const folder = mkdtempSync(join(tmpdir(), "canopy-peers-"));
const write = (text: string) => process.stdout.write(text);
const running = new Map<string, RunningRouter>();
let stopWorker = () => {};

async function measureMode(mode: Mode, bench: NativeBench): Promise<void> {
  const routers = [...peerRouters(canopy, join(enginesDir, "peers"))]
    .filter(([name]) => only.length === 0 || only.includes(name));
  for (const [index, [, router]] of routers.entries()) {
    const place = {
      mode,
      policy,
      port: basePort + 10 + index,
      prefillPort: basePort,
      decodePort: basePort + 1,
    };
    running.set(router.name, await RunningRouter.start(router, place, MODEL, { clock, transport }));
  }
  const scenarios = SCENARIOS.filter(({ name }) => loads.length === 0 || loads.includes(name));
  const all = new Map(scenarios.map((scenario) => [scenario, new Map<string, Figures[]>()]));
  for (let round = 0; round < rounds; round++) {
    for (const [scenario, figures] of all) {
      for (const [name, router] of running) {
        const one = await measure({ scenario, router, bench, clock, model: MODEL, seconds });
        figures.set(name, [...figures.get(name) ?? [], one]);
      }
    }
  }
  write(`\n${mode === "pd" ? "Pairs: two requests to workers for each of a client's" : "Whole servers"}\n`);
  for (const [scenario, figures] of all) writeTable(scenario, figures);
  stopRouters();
}

function stopRouters(): void {
  for (const router of running.values()) router.stop();
  running.clear();
}

function writeTable({ title, unit }: Scenario, figures: ReadonlyMap<string, readonly Figures[]>): void {
  const columns: [string, keyof Figures, number][] = [
    [`CPU µs a ${unit}`, "cpuMicros", 1],
    ["a second", "perSecond", 0],
    ["p50 µs", "p50Us", 0],
    ["p99 µs", "p99Us", 0],
    ["MB", "memoryMb", 0],
  ];
  const first = figures.values().next().value?.[0];
  const shown = columns.filter(([, key]) => first?.[key] !== undefined);
  const of = (name: string, key: keyof Figures) =>
    median(figures.get(name)?.map((one) => one[key] ?? NaN) ?? []);
  write(`\n${title}\n${"".padEnd(22)}`);
  for (const [head] of shown) write(head.padStart(Math.max(18, head.length + 2)));
  write("\n");
  for (const name of figures.keys()) {
    write(name.padEnd(22));
    for (const [head, key, digits] of shown) {
      const value = of(name, key);
      const ratio = value / of(BASELINE, key);
      const cell = `${value.toFixed(digits)}${Number.isNaN(ratio) ? "" : `  ${ratio.toFixed(2)}×`}`;
      write(cell.padStart(Math.max(18, head.length + 2)));
    }
    write("\n");
  }
}

try {
  const bench = new NativeBench(folder);
  stopWorker = await bench.serve(MODEL, [basePort, basePort + 1]);
  write(`Medians of ${rounds} rounds of ${seconds} s, in turns, each behind as much of the same load; `);
  write(`ratios to ${BASELINE}; policy ${policy}\n`);
  for (const mode of modes) await measureMode(mode, bench);
} finally {
  stopRouters();
  stopWorker();
  await transport.close();
  rmSync(folder, { recursive: true });
}
