/**
 * The suite again and again, on both runtimes, on a machine that is busy with other things:
 *
 *     deno task test:stress [--runs 20] [--runtime deno|bun|both] [--only PATH] [--load NAME] [--seed N]
 *                           [--together]
 *
 * Each run has a load, a seed for its properties, a folder for temporary files and an environment of its own. It
 * prints a line per run, the tests that failed with how to have them again, and ends with 1 when one did. Together,
 * both runtimes' runs of one number go on at once, beside the same busy loops: half as long, and one load more.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import {
  createWriteStream,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { SystemClock } from "../base/clock.ts";
import { table } from "../cli/kit/terminal.ts";
import { mortalEnv } from "./lifeline.ts";

type Runtime = "deno" | "bun";

interface Load {
  /** True where the suite has one core; with another run beside it, each has its own. */
  readonly oneCore?: boolean;
  /** What the suite is started by. */
  readonly wrapped?: string;
  /** What the busy loops beside it are started by; absent: there are none. */
  readonly beside?: string;
}

/** What a run of the suite has to live with; the first three take turns. */
const LOADS: Readonly<Record<string, Load>> = {
  "two-loops": { beside: "" },
  "two-niced-loops": { beside: "nice -n 10 " },
  "one-core": { oneCore: true },
  "one-core-and-loops": { oneCore: true, beside: "" },
  "niced-beside-loops": { wrapped: "nice -n 5 ", beside: "" },
  "none": {},
};
const USUAL_LOADS = ["two-loops", "two-niced-loops", "one-core"];
/** The first and the last core that this process may use. */
const CORES = ["s/[-,].*//", "s/.*[-,]//"].map((end) => `"$(taskset -pc $$ | sed "s/.*: //; ${end}")"`);
const LOOPS = 2;
/** Longest run of the suite: one that hangs fails, and its output says in which test. */
const LIMIT_MS = 2 * 3600_000;
/** No test may notice where on earth it runs. */
const TIME_ZONES = ["Asia/Kathmandu", "Pacific/Honolulu", "UTC"];
const LOCALES = ["tr_TR.UTF-8", "C", "de_DE.UTF-8"];
const HOME = "home";
const BROKEN_MODELS = ["4B", "8B", "32B", "0.6B"].map((size) => `Qwen/Qwen3-${size}`);
const PINNED = { deno: "deno@2.9.6", bun: "bun@1.4.5" };

const root = fileURLToPath(new URL("../", import.meta.url));
const clock = new SystemClock();
const print = (line: string) => process.stdout.write(`${line}\n`);

interface Plan {
  readonly number: number;
  readonly runtime: Runtime;
  readonly load: string;
  readonly seed: number;
  readonly only: readonly string[];
  readonly folder: string;
  /** Which of the runs that go on at once it is, from 0. */
  readonly place: number;
}

interface Outcome {
  readonly plan: Plan;
  readonly passed: number;
  readonly failed: readonly string[];
  readonly seconds: number;
  /** What the run left in its folder for temporary files. */
  readonly left: readonly string[];
}

/** The pinned runtime's own program, so that no run waits for npx. */
function programOf(runtime: Runtime): string {
  const print = runtime === "deno" ? ["eval", "console.log(Deno.execPath())"] : ["-p", "process.execPath"];
  const asked = spawnSync("npx", ["-y", PINNED[runtime], ...print], { encoding: "utf8" });
  const path = asked.stdout?.trim().split("\n").at(-1) ?? "";
  if (asked.status === 0 && path !== "") return path;
  throw new Error(`npx cannot run ${PINNED[runtime]}: ${asked.stderr || asked.error}`);
}

/** The arguments of the runtime: those of `task test`, or of these paths alone, with a report. */
function argumentsOf({ runtime, only }: Plan, report: string): string[] {
  if (runtime === "deno") {
    const paths = only.length > 0 ? only : ["--ignore=tests/engines,tests/e2e,tests/browser", "tests"];
    return ["test", "-A", "--no-check", "--parallel", `--junit-path=${report}`, ...paths];
  }
  const without = ["e2e", "engines", "browser"].map((folder) => `--path-ignore-patterns=tests/${folder}/**`);
  const paths = only.length > 0 ? only.map((path) => `./${path}`) : [...without, "./tests"];
  return [
    "test",
    "--parallel",
    "--timeout",
    "600000",
    "--reporter=junit",
    `--reporter-outfile=${report}`,
    ...paths,
  ];
}

/** The environment of a run: its own seed and folders, a far time zone, and nothing that helps it from this machine. */
function environmentOf({ seed, number }: Plan, temporary: string): NodeJS.ProcessEnv {
  const env = { ...mortalEnv() };
  for (const name of Object.keys(env)) {
    if (/^(CANOPY_(?!BIN$|TEST_RUN$)|HF_|HUGGING|OPENAI_|LC_)|proxy$/i.test(name)) delete env[name];
  }
  const home = poisonedHome(temporary);
  return {
    ...env,
    CANOPY_SEED: String(seed),
    TMPDIR: temporary,
    HOME: home,
    DENO_DIR: process.env["DENO_DIR"] ?? join(homedir(), ".cache", "deno"),
    HF_HOME: join(home, ".cache", "huggingface"),
    // Nobody listens there: only a client that is asked to may go by it.
    HTTP_PROXY: "http://127.0.0.1:9",
    http_proxy: "http://127.0.0.1:9",
    TZ: TIME_ZONES[number % TIME_ZONES.length] ?? "UTC",
    LANG: LOCALES[number % LOCALES.length] ?? "C",
    NO_COLOR: "1",
  };
}

/** A home folder whose cache of the Hub holds the usual models, all of them broken: no test may look there. */
function poisonedHome(temporary: string): string {
  const home = join(temporary, HOME);
  for (const model of BROKEN_MODELS) {
    const folder = join(home, ".cache/huggingface/hub", `models--${model.replace("/", "--")}`);
    mkdirSync(join(folder, "refs"), { recursive: true });
    writeFileSync(join(folder, "refs/main"), "broken");
    mkdirSync(join(folder, "snapshots/broken"), { recursive: true });
    for (const name of ["config.json", "tokenizer.json", "tokenizer_config.json", "model.onnx"]) {
      writeFileSync(join(folder, "snapshots/broken", name), "{");
    }
  }
  return home;
}

function startLoops({ beside }: Load): ChildProcess[] {
  if (beside === undefined) return [];
  return Array.from(
    { length: LOOPS },
    () =>
      spawn("sh", ["-c", `exec ${beside}sh -c 'while :; do :; done'`], { stdio: "ignore", env: mortalEnv() }),
  );
}

/** Names of the tests in a JUnit report, the failed ones apart, each with its file. */
function readReport(path: string): { passed: number; failed: string[] } {
  const text = existsSync(path) ? readFileSync(path, "utf8") : "";
  const failed: string[] = [];
  let passed = 0;
  for (const [, head = "", body = ""] of text.matchAll(/<testcase ([^>]*?)(?:\/>|>([^]*?)<\/testcase>)/g)) {
    if (!/<(failure|error)\b/.test(body)) {
      passed++;
      continue;
    }
    const of = (name: string) => plain(new RegExp(`\\b${name}="([^"]*)"`).exec(head)?.[1] ?? "");
    failed.push(`${of("file") || of("classname")}: ${of("name")}`);
  }
  return { passed, failed };
}

function plain(xml: string): string {
  const signs: Readonly<Record<string, string>> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return xml.replace(/&(\w+);/g, (entity, name) => signs[name] ?? entity);
}

/** Runs the suites of these plans at once, beside one load's loops. */
async function runRound(plans: readonly Plan[]): Promise<Outcome[]> {
  const loops = startLoops(LOADS[plans[0]?.load ?? ""] ?? {});
  try {
    return await Promise.all(plans.map(async (plan) => {
      const outcome = await runOnce(plan, programs.get(plan.runtime) ?? "");
      tell(outcome);
      return outcome;
    }));
  } finally {
    for (const loop of loops) loop.kill("SIGKILL");
  }
}

async function runOnce(plan: Plan, program: string): Promise<Outcome> {
  const name = `${plan.number}-${plan.runtime}-${plan.load}`;
  const [report, log, temporary] = ["xml", "log", "tmp"].map((end) => join(plan.folder, `${name}.${end}`));
  if (report === undefined || log === undefined || temporary === undefined) throw new Error("no folder");
  mkdirSync(temporary);
  const { oneCore, wrapped = "" } = LOADS[plan.load] ?? {};
  const by = oneCore === true ? `taskset -c ${CORES[plan.place]} ` : wrapped;
  const startMs = clock.now();
  const command = [program, ...argumentsOf(plan, report)];
  const child = spawn("sh", ["-c", `exec ${by}"$@"`, "sh", ...command], {
    cwd: root,
    env: environmentOf(plan, temporary),
    stdio: ["ignore", "pipe", "pipe"],
  });
  const output = createWriteStream(log);
  child.stdout.pipe(output, { end: false });
  child.stderr.pipe(output, { end: false });
  const over = new AbortController();
  void clock.sleep(LIMIT_MS, over.signal).then(() => child.kill("SIGKILL"), () => {});
  const ending = await new Promise<string>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => resolve(code === 0 ? "" : `ended with ${signal ?? code}`));
  });
  over.abort();
  output.end();
  const { passed, failed } = readReport(report);
  if (ending !== "" && failed.length === 0) failed.push(`the run ${ending}`);
  // Bun's own cache of what it has compiled.
  const left = readdirSync(temporary).filter((one) => one !== HOME && !/^\.?bun-/.test(one));
  rmSync(temporary, { recursive: true, force: true });
  return { plan, passed, failed, seconds: (clock.now() - startMs) / 1000, left };
}

/** The runs, in rounds of those that go on at once. */
function roundsOf(args: readonly string[]): Plan[][] {
  const { values } = parseArgs({
    args: [...args],
    options: {
      runs: { type: "string", default: "20" },
      runtime: { type: "string", default: "both" },
      only: { type: "string", multiple: true, default: [] },
      load: { type: "string", multiple: true, default: USUAL_LOADS },
      seed: { type: "string", default: String(Math.floor(Math.random() * 1e9)) },
      together: { type: "boolean", default: false },
    },
  });
  const { only, load: loads } = values;
  const number = (text: string, name: string) => {
    if (/^\d{1,9}$/.test(text)) return Number(text);
    throw new Error(`--${name} must be a number: current value is "${text}"`);
  };
  const runtimes = (["deno", "bun"] as const).filter((one) => [one, "both"].includes(values.runtime));
  if (runtimes.length === 0) {
    throw new Error(`--runtime must be deno, bun or both: current value is "${values.runtime}"`);
  }
  for (const name of loads) {
    if (LOADS[name] === undefined) {
      throw new Error(`--load must be one of ${Object.keys(LOADS).join(", ")}: current value is "${name}"`);
    }
  }
  for (const path of only) if (!existsSync(join(root, path))) throw new Error(`--only: there is no ${path}`);
  const firstSeed = number(values.seed, "seed");
  const folder = join(tmpdir(), `canopy-stress-${firstSeed}-${process.pid}`);
  mkdirSync(folder);
  return Array.from({ length: number(values.runs, "runs") }, (_, index) => index).flatMap((index) => {
    const round = runtimes.map((runtime, at) => ({
      number: index + 1,
      runtime,
      load: loads[index % loads.length] ?? "none",
      seed: firstSeed + index,
      only,
      folder,
      place: values.together ? at : 0,
    }));
    return values.together ? [round] : round.map((plan) => [plan]);
  });
}

function rowOf({ plan, passed, failed, seconds, left }: Outcome): string[] {
  const { number, runtime, load, seed } = plan;
  const counts = [seed, passed, failed.length].map(String);
  return [String(number), runtime, load, ...counts, `${seconds.toFixed(0)} s`, left.join(" ")];
}

function tell({ plan, passed, failed, seconds }: Outcome): void {
  const what = `run ${plan.number} of ${plans.at(-1)?.number} on ${plan.runtime}, ${plan.load}`;
  print(`${what}: ${passed} passed, ${failed.length} failed in ${seconds.toFixed(0)} s`);
  for (const name of failed) print(`  ${name}\n    CANOPY_SEED=${plan.seed}`);
}

const rounds = roundsOf(process.argv.slice(2));
const plans = rounds.flat();
const programs = new Map(
  [...new Set(plans.map(({ runtime }) => runtime))].map((one) => [one, programOf(one)]),
);
const outcomes: Outcome[] = [];
for (const round of rounds) outcomes.push(...await runRound(round));
const head = ["RUN", "RUNTIME", "LOAD", "SEED", "PASSED", "FAILED", "TIME", "LEFT IN TMPDIR"];
const right = "right" as const;
print("");
for (const line of table(head, outcomes.map(rowOf), ["left", "left", "left", right, right, right, right])) {
  print(line);
}
const red = outcomes.filter(({ failed }) => failed.length > 0);
print(`\n${outcomes.length - red.length} of ${outcomes.length} runs are green; outputs: ${plans[0]?.folder}`);
process.exit(red.length > 0 ? 1 : 0);
