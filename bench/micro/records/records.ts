/**
 * Runs of 13 agents written into a file of records and listed again, page by page, over the router's routes: how fast,
 * and the event loop's longest pause meanwhile.
 *
 *     deno task bench:records [--runs 100000] [--texts]
 */
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { RunArchive } from "../../../router/archive/run_archive.ts";
import { archivedRun } from "../../../router/http/runs/archived_run.ts";
import type { AgentRecord, RunRecord } from "../../../router/moa/record/run_record.ts";
import { createRouter, type Router } from "../../../router/router.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { numberAfter } from "../flags.ts";
import { longestPause } from "../loop_pause/pause.ts";

const RUNS = numberAfter("--runs", 100_000);
const TEXTS = process.argv.includes("--texts");
const AGENTS = 13;
/** Runs that end before the first of them is on disk: all that a busy router serves at once. */
const AT_ONCE = 256;
const PAGE = 1_000;
/** One run of so many has failed. */
const FAILED_EVERY = 50;

const clock = new SystemClock();
const random = new Random("records");
const words = random.hex(4_000);

function usageOf(agent: string) {
  const counts = {
    calls: 1,
    promptTokens: 900,
    completionTokens: 400,
    cachedTokens: 512,
    reasoningTokens: 0,
  };
  return { agent, model: "small", wastedTokens: 0, ...counts };
}

function agentRecord(index: number): AgentRecord {
  const id = `l1.c1.a${index + 1}`;
  return {
    id,
    model: "small",
    state: "done",
    reads: [],
    worker: "small.w1",
    prompt: { kind: "text", text: words },
    text: words.slice(0, 1_600),
    reasoning: "",
    finishReason: "stop",
    error: undefined,
    startedAtMs: 1.25,
    firstTokenAtMs: 100.5,
    endedAtMs: 4_000.75,
    resumes: 0,
    restarts: 0,
    usage: usageOf(id),
  };
}

const agents = Array.from({ length: AGENTS }, (_, index) => agentRecord(index));
const parts = agents.map(({ id }) => usageOf(id));
const usage = { ...usageOf("all"), agents: parts, parts };
const events = agents.flatMap(({ id: agent }) =>
  ["agent_queued", "agent_placed", "agent_first_token", "warm_sent", "warm_done", "agent_done"].map((
    type,
  ) => ({
    atMs: 1234.567,
    type,
    agent,
    data: { worker: "small.w1", request: "run_0123456789abcdef/1", tokens: 400 },
  }))
);

function runRecord(number: number): RunRecord {
  return {
    id: `run_${number}`,
    graph: "moa",
    state: number % FAILED_EVERY === 0 ? "failed" : "done",
    startedAtUnixMs: clock.unixEpochMs + clock.now(),
    durationMs: 4_100,
    error: undefined,
    usage,
    agents,
    drawSeed: "1",
    exits: [],
    rootSkipped: false,
    events,
  };
}

/** Writes the runs from number `from` on, until there are `to`. */
async function write(archive: RunArchive, from: number, to: number): Promise<number> {
  let next = from;
  const one = async () => {
    while (next < to) {
      const record = runRecord(next++);
      const written = await archive.add(record.id, () => archivedRun(record, { texts: TEXTS, clock }));
      if (!written) throw new Error(`${record.id} could not be written`);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, one));
  return to - from;
}

/** Asks for page after page, each from behind the last run of the one before; reading them is the clients' work. */
async function list(router: Router, every: number, query: string): Promise<number> {
  let count = 0;
  while (count * every < RUNS) {
    const after = count === 0 ? "" : `&after=run_${(Math.ceil(RUNS / every) - count) * every}`;
    const answer = await router.app.request(`/v1/runs?limit=${PAGE}${query}${after}`);
    const bytes = new Uint8Array(await answer.arrayBuffer());
    count += Math.min(PAGE, Math.ceil(RUNS / every) - count);
    const more = new TextDecoder().decode(bytes.subarray(-6, -1)) === ":true";
    if (more !== (count * every < RUNS)) throw new Error(`The list ends elsewhere than after ${count} runs`);
  }
  return count;
}

async function measured(what: string, work: () => Promise<number>): Promise<void> {
  const startMs = clock.now();
  let count = 0;
  const { wallMs, cpuMs } = await longestPause(clock, async () => count = await work());
  const tookMs = clock.now() - startMs;
  const cpu = cpuMs === undefined ? "" : `, ${cpuMs.toFixed(1)} ms of CPU`;
  process.stdout.write(
    `${what}: ${count} runs in ${(tookMs / 1000).toFixed(1)} s (${Math.round(count / tookMs * 1000)}/s); ` +
      `longest pause ${wallMs.toFixed(1)} ms by the clock${cpu}\n`,
  );
}

const folder = mkdtempSync(join(tmpdir(), "canopy-records-"));
try {
  const path = join(folder, "runs.sqlite");
  const archive = await RunArchive.open({ path, clock, bounds: { maxAgeMs: 1e13, maxBytes: 2 ** 40 } });
  await measured("idle", async () => {
    await clock.sleep(1_000);
    return 0;
  });
  // With the first ones the runtime compiles what all of them run.
  const first = Math.min(AT_ONCE, RUNS);
  await measured("written, the first ones", () => write(archive, 0, first));
  await measured("written, the others", () => write(archive, first, RUNS));
  const router = createRouter({
    config: configSchema.parse({}),
    clock,
    random,
    transport: new MemoryTransport(() => () => Promise.reject(new Error("There are no workers"))),
    archive,
  });
  // The first request of all makes the table of routes.
  await (await router.app.request("/v1/runs?limit=1")).text();
  await measured("listed", () => list(router, 1, ""));
  await measured("failed ones listed", () => list(router, FAILED_EVERY, "&state=failed"));
  await router.close();
  await archive.close();
  process.stdout.write(`${(statSync(path).size / 1024 / 1024).toFixed(0)} MiB on disk\n`);
} finally {
  rmSync(folder, { recursive: true });
}
