import { writeSync } from "node:fs";
import process from "node:process";
import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { RunArchive } from "../../../router/archive/run_archive.ts";
import { madeRun } from "./made_runs.ts";

// Records runs in the file that it is given, one after the other without end, and tells the id of each that is on disk.

const [path = ""] = process.argv.slice(2);
const bounds = { maxAgeMs: 1e13, maxBytes: 1024 * 1024 * 1024 };
const archive = await RunArchive.open({ path, bounds, clock: new SystemClock() });
// Noise, so that it stays as long when it is compressed.
const record = JSON.stringify({ text: new Random("noise").hex(200_000), events: [] });
for (let number = 1;; number++) {
  const run = madeRun(number, { record });
  if (await archive.add(run.id, () => Promise.resolve(run))) writeSync(1, `${run.id}\n`);
}
