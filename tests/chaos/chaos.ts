import process from "node:process";
import { parseArgs } from "node:util";
import { SystemClock } from "../../base/clock.ts";
import { playSeeds } from "./play.ts";

/** The long runs of the chaos suite; see "Chaos" in CONTRIBUTING.md. */
const HELP = `Usage: deno task test:chaos [OPTIONS]

  --seeds N     plays N seeds under the virtual clock (10,000 where nothing else is asked for)
  --from N      the first of them (0)
`;

const { values } = parseArgs({
  options: {
    seeds: { type: "string" },
    from: { type: "string", default: "0" },
    help: { type: "boolean", default: false },
  },
});

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

async function seedsUnderTheClock(from: number, seeds: number): Promise<readonly string[]> {
  const clock = new SystemClock();
  const beganMs = clock.now();
  const cpu = process.cpuUsage();
  const failures = await playSeeds({
    from,
    seeds,
    onSeed: (seed) => {
      const played = seed - from + 1;
      if (played % 500 === 0) say(`${played} seeds in ${Math.round((clock.now() - beganMs) / 1_000)} s`);
    },
  });
  const { user, system } = process.cpuUsage(cpu);
  say(
    `${seeds} seeds from ${from}: ${failures.length} failures; ${
      Math.round((clock.now() - beganMs) / 1_000)
    } s, ` +
      `${Math.round((user + system) / 1e6)} s of CPU`,
  );
  return failures;
}

async function main(): Promise<void> {
  if (values.help) return say(HELP);
  const failures = await seedsUnderTheClock(Number(values.from), Number(values.seeds ?? 10_000));
  for (const failure of failures) say(failure);
  process.exitCode = failures.length === 0 ? 0 : 1;
}

await main();
