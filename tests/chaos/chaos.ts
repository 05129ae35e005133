import process from "node:process";
import { parseArgs } from "node:util";
import { SystemClock } from "../../base/clock.ts";
import { describeFuzz, fuzzRouter } from "./client_fuzz.ts";
import { playSeeds } from "./play.ts";
import { describeStorm, stormOf } from "./storm.ts";
import { fuzzWorkers } from "./worker_fuzz.ts";

/** The long runs of the chaos suite; see "Chaos" in CONTRIBUTING.md. */
const HELP = `Usage: deno task test:chaos [OPTIONS]

  --seeds N      plays N seeds under the virtual clock (10,000 where nothing else is asked for)
  --from N       the first of them (0)
  --real         breaks real processes behind a real router
  --minutes N    for so long (10)
  --workers N    threads of the router (1); with more they die, too, and its configuration is not read again
  --requests N   sends N raw requests, most of them malformed, to a router
  --responses N  lets workers answer with N mutated responses
  --seed TEXT    of these three (1)
`;

const { values } = parseArgs({
  options: {
    seeds: { type: "string" },
    from: { type: "string", default: "0" },
    real: { type: "boolean", default: false },
    minutes: { type: "string", default: "10" },
    workers: { type: "string", default: "1" },
    requests: { type: "string" },
    responses: { type: "string" },
    seed: { type: "string", default: "1" },
    help: { type: "boolean", default: false },
  },
});

const clock = new SystemClock();

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Runs one of the suites and says how it went; false when something did. */
async function ran(name: string, suite: () => Promise<{ wrong: readonly string[]; figures?: string }>) {
  const beganMs = clock.now();
  const { user, system } = process.cpuUsage();
  const { wrong, figures } = await suite();
  const cpu = process.cpuUsage();
  const seconds = Math.round((clock.now() - beganMs) / 1_000);
  const cpuSeconds = Math.round((cpu.user + cpu.system - user - system) / 1e6);
  for (const one of wrong) say(one);
  say(`${name}: ${wrong.length} failures in ${seconds} s, ${cpuSeconds} s of CPU here`);
  if (figures !== undefined) say(figures);
  return wrong.length === 0;
}

/** Says now and then how far it is. */
function progress(every: number): (count: number) => void {
  let said = 0;
  return (count) => {
    if (count < said + every) return;
    said = count;
    say(`… ${count}`);
  };
}

async function main(): Promise<boolean> {
  const { seeds, requests, responses, real, seed } = values;
  const results: boolean[] = [];
  if (responses !== undefined) {
    const fuzz = { responses: Number(responses), seed, onCase: progress(100_000) };
    results.push(
      await ran(`${responses} mutated responses`, async () => ({ wrong: await fuzzWorkers(fuzz) })),
    );
  }
  if (requests !== undefined) {
    const fuzz = { requests: Number(requests), seed, onCase: progress(10_000) };
    results.push(
      await ran(`${requests} raw requests`, async () => {
        const report = await fuzzRouter(fuzz);
        return { wrong: report.wrong, figures: describeFuzz(report) };
      }),
    );
  }
  if (real) {
    const storm = { minutes: Number(values.minutes), seed, routerWorkers: Number(values.workers), say };
    results.push(
      await ran(`${values.minutes} minutes over real processes`, async () => {
        const report = await stormOf(storm);
        return { wrong: report.wrong, figures: describeStorm(report) };
      }),
    );
  }
  if (seeds !== undefined || results.length === 0) {
    const from = Number(values.from);
    const played = progress(500);
    const options = {
      from,
      seeds: Number(seeds ?? 10_000),
      onSeed: (seed: number) => played(seed - from + 1),
    };
    results.push(await ran(`${options.seeds} seeds`, async () => ({ wrong: await playSeeds(options) })));
  }
  return results.every((good) => good);
}

if (values.help) say(HELP);
else process.exitCode = await main() ? 0 : 1;
