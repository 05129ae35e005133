import assert from "node:assert/strict";
import { SystemClock } from "../base/clock.ts";
import "./loopback.ts";

const clock = new SystemClock();
/** Longest wait for a worker to be back, or for a victim to have work. */
const MAX_WAIT_MS = 240_000;
const PERIOD_MS = 1_000;

/** A worker that can be taken away and brought back. */
export interface Victim {
  /** As the router's configuration names it. */
  readonly url: string;
  /** Ends it in the middle of what it does. */
  kill(): void;
  /** Starts it again at the same address; resolves when it answers. */
  restart(): Promise<void>;
}

/** Options of `killStorm`. */
export interface KillStormOptions {
  /** Base URL of a Canopy that serves the virtual model `moa` over the victims and no other workers. */
  readonly canopy: string;
  /** At least three. */
  readonly victims: readonly Victim[];
  readonly kills: number;
  /** Requests at a time. */
  readonly concurrency: number;
  readonly maxTokens: number;
}

/** Figures of a storm. */
export interface KillStorm {
  readonly kills: number;
  readonly seconds: number;
  readonly runs: number;
  /** Answers of agents that went on elsewhere. */
  readonly resumed: number;
  /** Answers of agents that were begun anew. */
  readonly restarted: number;
  /** Requests without an answer, or with another one than before the storm, in words. */
  readonly wrong: readonly string[];
}

/** The questions; odd ones are asked by a client that streams. */
const QUESTIONS = Array.from({ length: 12 }, (_, index) => `Question ${index}: why is the sky blue?`);

/**
 * Asks questions one by one, then again and again while every second one worker after the other is killed and started
 * again, and compares the answers. A worker is killed only while it has work and the others are in service, which on a
 * slow machine can make the seconds longer.
 */
export async function killStorm(options: KillStormOptions): Promise<KillStorm> {
  const { canopy, victims, kills, concurrency } = options;
  await until("all workers are in service", async () => {
    const workers = await workersOf(canopy);
    return workers.length === victims.length && workers.every((worker) => worker.health === "healthy");
  });
  const undisturbed: string[] = [];
  for (const [index] of QUESTIONS.entries()) undisturbed.push(await answerTo(index, options));
  const earlier = await failovers(canopy);
  const wrong: string[] = [];
  let runs = 0;
  let isOver = false;
  const client = async (first: number) => {
    for (let index = first; !isOver; index = (index + concurrency) % QUESTIONS.length) {
      runs++;
      const text = await answerTo(index, options).catch((error) => `${error}`);
      if (text !== undisturbed[index]) wrong.push(`question ${index}: ${text}\nnot: ${undisturbed[index]}`);
    }
  };
  const clients = Promise.all(Array.from({ length: concurrency }, (_, index) => client(index)));
  const startMs = clock.now();
  let back = Promise.resolve();
  try {
    for (let kill = 0; kill < kills; kill++) {
      const dueMs = clock.now() + PERIOD_MS;
      const victim = victims[kill % victims.length]!;
      await back;
      await until("the victim has work, and the others are in service", () => isReady(canopy, victim.url));
      victim.kill();
      back = victim.restart();
      // Whoever waits for it finds out.
      back.catch(() => {});
      await clock.sleep(Math.max(0, dueMs - clock.now()));
    }
    await back;
  } finally {
    isOver = true;
    await clients;
  }
  const seconds = (clock.now() - startMs) / 1_000;
  const { resumed, restarted } = await failovers(canopy);
  return {
    kills,
    seconds,
    runs,
    resumed: resumed - earlier.resumed,
    restarted: restarted - earlier.restarted,
    wrong,
  };
}

/** Asserts that nothing was lost and nothing differed, and that answers did break off. */
export function assertUnharmed(storm: KillStorm): void {
  assert.equal(storm.wrong.length, 0, storm.wrong.slice(0, 3).join("\n\n"));
  assert.ok(storm.resumed > 0, "no answer was resumed");
}

/** The storm in one line. */
export function describeStorm({ kills, seconds, runs, resumed, restarted, wrong }: KillStorm): string {
  return `${kills} kills in ${
    seconds.toFixed(1)
  } s: ${runs} runs, ${wrong.length} of them lost or different, ` +
    `${resumed} answers resumed, ${restarted} begun anew`;
}

/** Answers of agents that broke off since the server's start, by what came of them. */
async function failovers(canopy: string): Promise<{ readonly resumed: number; readonly restarted: number }> {
  const metrics = await (await fetch(`${canopy}/metrics`)).text();
  const samples = [...metrics.matchAll(/^canopy_agent_failovers_total\{(.*)\} (\S+)$/gm)];
  const count = (kind: string) =>
    samples.reduce((sum, [, labels, value]) => labels?.includes(`"${kind}"`) ? sum + Number(value) : sum, 0);
  return { resumed: count("resumed"), restarted: count("restarted") };
}

interface WorkerState {
  readonly url: string;
  readonly health: string;
  readonly in_flight: number;
}

async function isReady(canopy: string, victim: string): Promise<boolean> {
  const workers = await workersOf(canopy);
  return workers.every((worker) =>
    worker.health === "healthy" && (worker.url !== victim || worker.in_flight > 0)
  );
}

async function workersOf(canopy: string): Promise<readonly WorkerState[]> {
  const { workers }: { workers: WorkerState[] } = await (await fetch(`${canopy}/workers`)).json();
  return workers;
}

/** The answer's text. Rejects with what came instead. */
async function answerTo(index: number, { canopy, maxTokens }: KillStormOptions): Promise<string> {
  const stream = index % 2 === 1;
  const response = await fetch(`${canopy}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({
      model: "moa",
      messages: [{ role: "user", content: QUESTIONS[index] }],
      max_tokens: maxTokens,
      temperature: 0,
      stream,
    }),
  });
  const body = await response.text();
  if (response.status !== 200) throw new Error(`status ${response.status}: ${body}`);
  if (!stream) return JSON.parse(body).choices[0].message.content;
  if (!body.endsWith("data: [DONE]\n\n")) throw new Error(`the stream ended with ${body.slice(-300)}`);
  return body.split("\n\n").filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice("data: ".length)).choices[0]?.delta?.content ?? "").join("");
}

async function until(what: string, condition: () => Promise<boolean>): Promise<void> {
  const startMs = clock.now();
  while (!await condition()) {
    assert.ok(clock.now() - startMs < MAX_WAIT_MS, `not within ${MAX_WAIT_MS} ms: ${what}`);
    await clock.sleep(10);
  }
}
