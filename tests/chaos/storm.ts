import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SystemClock } from "../../base/clock.ts";
import { Random } from "../../base/random.ts";
import "../loopback.ts";
import { takePorts } from "../ports.ts";
import { type BlowKind } from "./blows.ts";
import { type KnownWorker, Oracle } from "./oracle.ts";
import { type Program, residentMb, startProgram } from "./program.ts";
import type { LeakyLink } from "./leaky_link.ts";
import { HALVES, RealWorker } from "./real_worker.ts";
import { type ChaosRequest, readAnswer } from "./requests.ts";

const clock = new SystemClock();

/** Blows that processes and networks can have. */
const BLOWS = [
  "kill",
  "upgrade",
  "impostor",
  "pause",
  "reset",
  "half_open",
  "slow",
  "drain",
  "leave",
] as const satisfies readonly BlowKind[];
const VERSIONS = ["0.5.18", "0.5.23", "0.5.12"];
const RETRIES = 5;
/** The router's checks, on a machine that is busy with others. */
const NOTICE_MS = 12_000;
const LIMITS = { connect_timeout_ms: 2_000, first_token_timeout_ms: 20_000, idle_timeout_ms: 15_000 };
const CLIENTS = 6;
const MAX_GROWTH_MB = 64;
const MAX_SOCKETS_LEFT = 24;

const content = "Why is the sky blue?";
const REQUESTS: readonly ChaosRequest[] = [
  {
    path: "/v1/chat/completions",
    kind: "relay",
    models: ["m"],
    body: { model: "m", max_tokens: 80, messages: [{ role: "user", content }] },
  },
  {
    path: "/generate",
    kind: "relay",
    models: ["p"],
    body: { model: "p", text: "Two and two are", sampling_params: { max_new_tokens: 80 } },
  },
  {
    path: "/v1/chat/completions",
    kind: "relay",
    models: ["p"],
    body: { model: "p", max_tokens: 80, messages: [{ role: "user", content }] },
  },
  {
    path: "/v1/chat/completions",
    kind: "tree",
    models: ["m", "p"],
    body: { model: "moa", temperature: 0, messages: [{ role: "user", content }] },
  },
];

/** Options of `stormOf`. */
export interface StormOptions {
  readonly minutes: number;
  readonly seed: string;
  /** Event loops of the router; more than one where it has threads. */
  readonly routerWorkers: number;
  readonly say: (line: string) => void;
}

/** Figures of a storm, and what went wrong. */
export interface StormReport {
  readonly wrong: readonly string[];
  readonly requests: number;
  readonly whole: number;
  /** Failed requests by their status; a stream that broke is 200. */
  readonly failed: ReadonlyMap<number, number>;
  readonly left: number;
  readonly blows: ReadonlyMap<string, number>;
  readonly memoryMb: readonly [number | undefined, number | undefined];
}

/** Breaks real processes and their networks behind a router's process, while clients ask. */
export async function stormOf(options: StormOptions): Promise<StormReport> {
  const ports = await takePorts();
  const folder = mkdtempSync(join(tmpdir(), "canopy-storm-"));
  const storm = new Storm(options);
  try {
    await storm.start(ports.base, folder);
    await storm.rage();
    return await storm.end();
  } finally {
    await storm.stop();
    rmSync(folder, { recursive: true, force: true });
    await ports.release();
  }
}

/** The storm in one line. */
export function describeStorm({ requests, whole, failed, left, blows, memoryMb }: StormReport): string {
  const counted = (counts: ReadonlyMap<string | number, number>) =>
    [...counts].map(([name, count]) => `${name}: ${count}`).join(", ");
  return `${requests} requests: ${whole} whole, ${left} left by their clients, failed {${
    counted(failed)
  }}; ` +
    `blows {${counted(blows)}}; router's memory ${memoryMb.join(" -> ")} MB`;
}

/** A server behind its link: its number is the oracle's. */
interface Target extends KnownWorker {
  readonly worker: RealWorker;
  readonly server: number;
}

/** A blow on servers of one process. */
interface RealBlow {
  readonly kind: (typeof BLOWS)[number];
  readonly worker: RealWorker;
  readonly links: readonly LeakyLink[];
  readonly lasts: () => Promise<void>;
}

class Storm {
  readonly #options: StormOptions;
  readonly #random: Random;
  readonly #targets: Target[] = [];
  readonly #workers: RealWorker[] = [];
  /** Workers on which a blow falls now. */
  readonly #struck = new Set<RealWorker>();
  readonly #rooms = new Set<string>();
  readonly #texts: string[] = [];
  readonly #wrong: string[] = [];
  readonly #failed = new Map<number, number>();
  readonly #blows = new Map<string, number>();
  #oracle = new Oracle([], {
    retries: 0,
    noticeMs: 0,
    firstTokenMs: 0,
    decodesAlone: false,
    anyName: new Set(),
  });
  #router: Program | undefined;
  #file = "";
  /** Workers that the router's file leaves out. */
  #absent: ReadonlySet<RealWorker> = new Set();
  #requests = 0;
  #whole = 0;
  #left = 0;
  #isOver = false;
  #memoryMb: number | undefined;

  constructor(options: StormOptions) {
    this.#options = options;
    this.#random = new Random(options.seed);
  }

  async start(base: number, folder: string): Promise<void> {
    const whole = [0, 1, 2].map((index) => this.#startWorker(base + index, false));
    await Promise.all([...whole, this.#startWorker(base + 10, true)]);
    this.#targets.sort((a, b) => a.model.localeCompare(b.model));
    this.#oracle = new Oracle(this.#targets, {
      retries: RETRIES,
      noticeMs: NOTICE_MS,
      firstTokenMs: LIMITS.first_token_timeout_ms,
      decodesAlone: false,
      anyName: new Set(["m", "p"]),
      countsAttempts: false,
    });
    this.#file = join(folder, "canopy.json");
    this.#configure(new Set());
    const { routerWorkers } = this.#options;
    const threads = routerWorkers > 1 ? ["--workers", String(routerWorkers)] : [];
    const args = ["serve", "canopy.json", "--port", "0", ...threads];
    this.#router = await startProgram(args, folder, routerWorkers > 1);
    for (const request of REQUESTS) {
      const response = await this.#send(request, false, "calm");
      const body = await response.text();
      if (response.status !== 200) throw new Error(`before the storm: ${response.status} ${body}`);
      this.#texts.push(readAnswer(request, false, 200, body).text);
    }
  }

  async #startWorker(port: number, paired: boolean): Promise<void> {
    const worker = await RealWorker.start({
      port,
      paired,
      onBytes: (server, bytes) => {
        if (server >= HALVES) this.#noteRooms(bytes);
      },
    });
    this.#workers.push(worker);
    for (const server of worker.links.keys()) {
      const role = !paired ? undefined : server < HALVES ? "prefill" : "decode";
      this.#targets.push({ worker, server, model: paired ? "p" : "m", role });
    }
  }

  #config(): unknown {
    const model = {
      model: "org/m",
      retries: RETRIES,
      ...LIMITS,
      health: { interval_ms: 1_000, timeout_ms: 4_000, failures: 2 },
    };
    const whole = this.#workers.filter((worker) => worker.links.length === 1 && !this.#absent.has(worker));
    const paired = this.#workers.find(({ links }) => links.length > 1)!;
    const agent = (name: string) => ({ model: name });
    return {
      models: {
        m: { ...model, engine: "sglang", workers: whole.map(({ links }) => links[0]!.url) },
        p: {
          ...model,
          engine: "sglang-pd",
          workers: Array.from({ length: HALVES }, (_, index) => ({
            prefill: paired.links[index]!.url,
            bootstrap_port: paired.bootstrapPort + index,
            decode: paired.links[HALVES + index]!.url,
          })),
        },
      },
      graphs: {
        moa: {
          layers: [{ agents: [agent("m"), agent("p")], min_responses: 2 }, { agents: [agent("m")] }],
          sampling: { max_tokens: 60, temperature: 0 },
        },
      },
    };
  }

  /** Each room is for one request, whatever the decode server. */
  #noteRooms(bytes: string): void {
    for (const [, room = ""] of bytes.matchAll(/"bootstrap_room": ?(\d+)/g)) {
      if (this.#rooms.has(room)) this.#wrong.push(`room ${room} was used twice`);
      this.#rooms.add(room);
    }
  }

  async rage(): Promise<void> {
    const { minutes, say } = this.#options;
    const untilMs = clock.now() + minutes * 60_000;
    const clients = Array.from({ length: CLIENTS }, (_, index) => this.#client(index));
    const blows: Promise<void>[] = [];
    let saidMs = clock.now();
    while (clock.now() < untilMs && this.#wrong.length < 10) {
      await clock.sleep(500 + this.#random.int(2_500));
      const free = this.#workers.filter((worker) => !this.#struck.has(worker));
      if (free.length > 0) {
        blows.push(this.#strike(this.#random.int(12) === 0 ? free : [this.#random.pick(free)]));
      }
      if (this.#options.routerWorkers > 1 && this.#random.int(8) === 0) this.#endThread();
      if (this.#memoryMb === undefined && clock.now() > untilMs - minutes * 45_000) {
        this.#memoryMb = residentMb(this.#router!.pid);
      }
      if (clock.now() < saidMs + 60_000) continue;
      saidMs = clock.now();
      say(`… ${this.#requests} requests, ${this.#whole} whole, ${this.#wrong.length} wrong`);
    }
    this.#isOver = true;
    await Promise.all([...clients, ...blows]);
  }

  /** Ends one of the router's threads; another one takes its place. */
  #endThread(): void {
    this.#blows.set("thread", (this.#blows.get("thread") ?? 0) + 1);
    this.#oracle.threadEndsMs.push(clock.now());
    this.#router!.signal("SIGUSR2");
  }

  /** A blow on some processes at once: one of them, or all that are well; of pairs, on some servers or on all. */
  async #strike(workers: readonly RealWorker[]): Promise<void> {
    const kind = this.#random.pick(BLOWS);
    const lastsMs = 200 + this.#random.int(6_000);
    const first = this.#random.int(2 * HALVES);
    const count = 1 + this.#random.int(2 * HALVES);
    this.#blows.set(kind, (this.#blows.get(kind) ?? 0) + 1);
    await Promise.all(workers.map(async (worker) => {
      this.#struck.add(worker);
      const struck = worker.links.filter((_, index) => index >= first && index < first + count);
      const links = struck.length === 0 || workers.length > 1 ? worker.links : struck;
      const spells = [...this.#targets.entries()]
        .filter(([, target]) => target.worker === worker && links.includes(worker.links[target.server]!))
        .map(([index]) => this.#oracle.begin(kind, index, clock.now()));
      try {
        await this.#strikeOne({ kind, worker, links, lasts: () => clock.sleep(lastsMs) });
      } catch (error) {
        this.#wrong.push(`the storm itself failed: ${error}`);
      }
      for (const spell of spells) spell.toMs = clock.now();
      this.#struck.delete(worker);
    }));
  }

  async #strikeOne({ kind, worker, links, lasts }: RealBlow): Promise<void> {
    switch (kind) {
      case "kill":
      case "upgrade":
      case "impostor":
      case "pause":
        // One server of several in a process cannot be ended alone: it is unplugged.
        if (links.length === worker.links.length) {
          return await this.#strikeProcess({ kind, worker, links, lasts });
        }
        for (const link of links) await link.refuse();
        await lasts();
        for (const link of links) await link.listen();
        return;
      case "reset":
        for (const link of links) link.reset();
        return;
      case "half_open":
        for (const link of links) link.cut();
        await lasts();
        for (const link of links) link.mend();
        return;
      case "slow":
        for (const link of links) link.delayMs = 300;
        await lasts();
        for (const link of links) link.delayMs = 0;
        return;
      case "drain":
        for (const link of links) await this.#setDraining(link.url, true);
        await lasts();
        for (const link of links) await this.#setDraining(link.url, false);
        return;
      case "leave":
        // Pairs stay in the file: a model without any would be none.
        if (worker.links.length > 1 || this.#options.routerWorkers > 1) return;
        this.#configure(new Set([...this.#absent, worker]));
        await lasts();
        this.#configure(new Set([...this.#absent].filter((other) => other !== worker)));
    }
  }

  /** Gives the running router its file anew, without these workers. */
  #configure(absent: ReadonlySet<RealWorker>): void {
    this.#absent = absent;
    writeFileSync(this.#file, JSON.stringify(this.#config()));
    this.#router?.signal("SIGHUP");
  }

  async #strikeProcess({ kind, worker, lasts }: RealBlow): Promise<void> {
    if (kind === "pause") {
      worker.pause();
      await lasts();
      return worker.resume();
    }
    await worker.kill();
    await lasts();
    if (kind === "impostor") {
      await worker.restart("0.5.23", "org/another");
      await lasts();
      await worker.kill();
    }
    await worker.restart(kind === "upgrade" ? this.#random.pick(VERSIONS) : "0.5.23", "org/m");
  }

  async #setDraining(url: string, draining: boolean): Promise<void> {
    const send = async () => {
      const response = await fetch(`${this.#router!.url}/workers/${encodeURIComponent(url)}`, {
        method: "PUT",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ draining }),
      });
      await response.text();
    };
    // A thread that ends may have taken it.
    await send().catch(send);
  }

  async #client(index: number): Promise<void> {
    const random = this.#random.stream(`client ${index}`);
    while (!this.#isOver && this.#wrong.length < 10) await this.#ask(random);
  }

  #send({ path, body }: ChaosRequest, stream: boolean, id: string, signal?: AbortSignal): Promise<Response> {
    return fetch(`${this.#router!.url}${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-request-id": id },
      body: JSON.stringify({ ...body, stream }),
      ...(signal === undefined ? {} : { signal }),
    });
  }

  async #ask(random: Random): Promise<void> {
    const which = random.int(REQUESTS.length);
    const request = REQUESTS[which]!;
    const stream = random.int(2) === 0;
    const id = `s${this.#requests++}`;
    const leaver = new AbortController();
    const over = new AbortController();
    if (random.int(8) === 0) {
      clock.sleep(random.int(1_500), over.signal).then(() => leaver.abort(new Error("Gone")), () => {});
    }
    const slowMs = random.int(8) === 0 ? random.int(100) : 0;
    const startMs = clock.now();
    let status: number | undefined;
    let body = "";
    try {
      const response = await this.#send(request, stream, id, leaver.signal);
      status = response.status;
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? []) {
        body += decoder.decode(chunk, { stream: true });
        if (slowMs > 0) await clock.sleep(slowMs);
      }
    } catch {
      // What came by then tells.
    }
    over.abort();
    const left = leaver.signal.aborted;
    try {
      const answer = readAnswer(request, stream, status ?? 0, body);
      if (left) this.#left++;
      else if (answer.whole) this.#whole++;
      else {
        this.#failed.set(status ?? 0, (this.#failed.get(status ?? 0) ?? 0) + 1);
        // Where no place is left at all, nobody asks in a loop.
        await clock.sleep(200);
      }
      const { kind, models } = request;
      const seen = { ...answer, id, kind, models, stream, startMs, endMs: clock.now(), left, status };
      const wrong = this.#oracle.judge(seen, this.#texts[which]!);
      if (wrong !== undefined) this.#wrong.push(wrong);
    } catch (error) {
      this.#wrong.push(`${request.path} ${id}: ${error}`);
    }
  }

  /** All is well again: so is every answer, and nothing is left. */
  async end(): Promise<StormReport> {
    const router = this.#router!;
    await clock.sleep(NOTICE_MS);
    for (const [which, request] of REQUESTS.entries()) {
      const response = await this.#send(request, false, "after");
      const body = await response.text();
      const text = readAnswer(request, false, response.status, body).text;
      if (text !== this.#texts[which]) this.#wrong.push(`after the storm: ${response.status} ${body}`);
    }
    await clock.sleep(5_000);
    const { workers }: { workers: { url: string; in_flight: number }[] } =
      await (await fetch(`${router.url}/workers`)).json();
    for (const { url, in_flight } of workers) {
      if (in_flight > 0) this.#wrong.push(`${in_flight} requests are still counted at ${url}`);
    }
    const sockets = readdirSync(`/proc/${router.pid}/fd`).length;
    const allowed = 40 + MAX_SOCKETS_LEFT;
    if (sockets > allowed) this.#wrong.push(`the router has ${sockets} files open`);
    const memoryMb = residentMb(router.pid);
    if (memoryMb !== undefined && this.#memoryMb !== undefined && memoryMb > this.#memoryMb + MAX_GROWTH_MB) {
      this.#wrong.push(`the router has grown from ${this.#memoryMb} to ${memoryMb} MB`);
    }
    if (this.#wrong.length > 0) this.#wrong.push(`the router said:\n${router.output().slice(-8_000)}`);
    return {
      wrong: this.#wrong,
      requests: this.#requests,
      whole: this.#whole,
      failed: this.#failed,
      left: this.#left,
      blows: this.#blows,
      memoryMb: [this.#memoryMb, memoryMb],
    };
  }

  async stop(): Promise<void> {
    await this.#router?.stop();
    await Promise.all(this.#workers.map((worker) => worker.kill()));
  }
}
