/**
 * 100 concurrent 9-3-1 trees and 2,000 concurrent relayed streams over three slow, healthy, simulated workers; then 500
 * streams that are cut. All are processes of their own, the router under the runtime that runs this file:
 *
 *     deno task bench:crowd [TREES] [STREAMS]
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { joined } from "../../../base/bytes.ts";
import { SystemClock } from "../../../base/clock.ts";
import { SocketTransport } from "../../../router/transport/sockets.ts";

const TREES = Number(process.argv[2] ?? 100);
const STREAMS = Number(process.argv[3] ?? 2_000);
const CUT = Math.min(500, STREAMS);
const WORKERS = 3;
const MAIN = fileURLToPath(new URL("../../../main.ts", import.meta.url));
const MESSAGES = [{ role: "user", content: "Why is the sky blue?" }];

const clock = new SystemClock();
const transport = new SocketTransport({ clock, atOnce: { generation: 8_192, control: 256 } });
const children: ChildProcess[] = [];

/** Starts a command of canopy; resolves with the URL that it prints. */
function start(...args: string[]): Promise<string> {
  const run = "Deno" in globalThis ? ["run", "-A", "--no-check", MAIN] : [MAIN];
  const child = spawn(process.execPath, [...run, ...args], { stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  return new Promise((resolve, reject) => {
    let text = "";
    const read = (chunk: unknown) => {
      text = (text + String(chunk)).slice(-10_000);
      const url = /http:\/\/127\.0\.0\.1:\d+/.exec(text)?.[0];
      if (url !== undefined) resolve(url);
    };
    child.stdout.on("data", read);
    child.stderr.on("data", read);
    child.on("exit", (code) => reject(new Error(`canopy ${args[0]} ended with ${code}: ${text}`)));
  });
}

interface Asked {
  readonly status: number;
  readonly text: string;
}

async function ask(url: string, body?: object, signal = new AbortController().signal): Promise<Asked> {
  const headers = { "content-type": "application/json" };
  const sent = body === undefined ? undefined : new TextEncoder().encode(JSON.stringify(body));
  const method = body === undefined ? "GET" : "POST";
  const answer = await transport.send({ method, url, headers, body: sent }, signal);
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body) chunks.push(chunk);
  return { status: answer.status, text: new TextDecoder().decode(joined(chunks)) };
}

/** Requests that the engines have. */
async function atEngines(urls: readonly string[]): Promise<number> {
  const counts = await Promise.all(urls.map(async (url) => {
    const { text } = await ask(`${url}/metrics`);
    return [...text.matchAll(/^vllm:num_requests_(?:running|waiting)\{[^}]*\} (\S+)$/gm)]
      .reduce((sum, [, value]) => sum + Number(value), 0);
  }));
  return counts.reduce((sum, count) => sum + count, 0);
}

const folder = mkdtempSync(join(tmpdir(), "canopy-crowd-"));
const say = (text: string) => process.stdout.write(`${text}\n`);
try {
  const sims = await Promise.all(Array.from({ length: WORKERS }, () => start("sim", "--model", "m")));
  const agents = (count: number) => Array.from({ length: count }, () => ({ model: "m" }));
  writeFileSync(
    join(folder, "canopy.json"),
    JSON.stringify({
      server: { max_running: 10_000, max_queued: 10_000 },
      models: { m: { model: "m", engine: "vllm", workers: sims } },
      graphs: {
        moa: {
          layers: [{ clusters: [agents(3), agents(3), agents(3)].map((members) => ({ agents: members })) }, {
            agents: agents(3),
          }, {
            agents: agents(1),
          }],
          sampling: { max_tokens: 16 },
        },
      },
    }),
  );
  const router = await start("serve", join(folder, "canopy.json"), "--port", "0");
  while ((await ask(`${router}/readiness`)).status !== 200) await clock.sleep(50);
  const chat = `${router}/v1/chat/completions`;

  let watching = true;
  let slowestMs = 0;
  const readiness = new Map<number, number>();
  const watch = (async () => {
    for (; watching; await clock.sleep(100)) {
      const asked = clock.now();
      const { status } = await ask(`${router}/readiness`);
      slowestMs = Math.max(slowestMs, clock.now() - asked);
      readiness.set(status, (readiness.get(status) ?? 0) + 1);
    }
  })();
  const began = clock.now();
  const trees = Array.from({ length: TREES }, () => ask(chat, { model: "moa", messages: MESSAGES }));
  const streams = Array.from(
    { length: STREAMS },
    () => ask(chat, { model: "m", messages: MESSAGES, stream: true, max_tokens: 32 }),
  );
  const lost = (answers: PromiseSettledResult<Asked>[], whole: (asked: Asked) => boolean) =>
    answers.filter((one) => one.status === "rejected" || !whole(one.value));
  const lostTrees = lost(await Promise.allSettled(trees), ({ status }) => status === 200);
  const lostStreams = lost(
    await Promise.allSettled(streams),
    ({ status, text }) => status === 200 && text.endsWith("data: [DONE]\n\n"),
  );
  const seconds = ((clock.now() - began) / 1000).toFixed(1);
  watching = false;
  await watch;
  for (const one of [...lostTrees, ...lostStreams].slice(0, 3)) {
    say(one.status === "rejected" ? String(one.reason) : `${one.value.status} ${one.value.text.slice(-300)}`);
  }
  say(`simulated workers: ${WORKERS}; time ${seconds} s`);
  say(`trees lost: ${lostTrees.length} of ${TREES}; streams lost: ${lostStreams.length} of ${STREAMS}`);
  say(`readiness: ${JSON.stringify(Object.fromEntries(readiness))}, slowest ${slowestMs.toFixed(0)} ms`);

  const leaving = new AbortController();
  const cut = Array.from(
    { length: CUT },
    () =>
      ask(
        chat,
        { model: "m", messages: MESSAGES, stream: true, max_tokens: 4_000, ignore_eos: true },
        leaving.signal,
      ).catch(
        () => {},
      ),
  );
  while (await atEngines(sims) < CUT * 0.9) await clock.sleep(50);
  const leftAt = clock.now();
  leaving.abort(new Error("The client leaves"));
  while (await atEngines(sims) > 0) await clock.sleep(10);
  say(`aborts: ${CUT} streams cut, no engine has any after ${(clock.now() - leftAt).toFixed(0)} ms`);
  await Promise.all(cut);
} finally {
  for (const child of children) child.kill("SIGKILL");
  rmSync(folder, { recursive: true });
}
process.exit(0);
