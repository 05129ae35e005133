import assert from "node:assert/strict";
import { Random } from "../../base/random.ts";
import { TransportError } from "../../base/transport.ts";
import type { Router } from "../../router/router.ts";
import type { MemoryHandler } from "../../router/transport/memory.ts";
import type { Fault } from "../../simulator/engine/faults.ts";
import { BUILTIN_TOKENIZER } from "../../simulator/text/tokenizer.ts";
import { engineTotals, makeWorld, type World } from "../simulation/world.ts";
import { type Blow, isCounted, randomBlows } from "./blows.ts";
import { Oracle, type Seen, type SeenAttempt, type Spell } from "./oracle.ts";
import { Place } from "./place.ts";
import { CATALOGUE, CHAOS_GRAPHS, type ChaosRequest, type ReadAnswer, readAnswer } from "./requests.ts";

const FAMILIES = ["whole", "sglang-pd", "vllm-pd"] as const;
type Family = (typeof FAMILIES)[number];

const LIMITS = { connect_timeout_ms: 1_000, first_token_timeout_ms: 8_000, idle_timeout_ms: 3_000 };
const HEALTH = { interval_ms: 1_000, timeout_ms: 1_500, failures: 2 };
/** A check that hangs, a pause, and a good one, which takes SGLang a second. */
const NOTICE_MS = 5_000;
const BLOWS_UNTIL_MS = 2_500;
const LONGEST_BLOW_MS = 6_000;
const OTHER_VERSIONS = { sglang: ["0.5.10.post1", "0.5.12", "0.5.18", "0.5.23"], vllm: ["0.32.0"] } as const;
const GENERATIONS = /\/(generate|completions)$/;
const STRIKES: Readonly<Record<string, Fault["kind"]>> = {
  status_500: "status_500",
  status_503: "status_503",
  refuse: "refuse",
  hang: "hang",
  truncate: "truncate",
  bootstrap_lost: "kv_failure",
  slow_transfer: "slow_transfer",
};

/** Plays one seed: a world, blows at random moments, and clients; throws when something is not as it must be. */
async function playChaos(seed: string): Promise<void> {
  const random = new Random(seed).stream("chaos");
  const family = random.pick(FAMILIES);
  await new Stage(seed, random, family).play();
}

function worldOf(family: Family, options: {
  seed: string;
  replicas: number;
  retries: number;
  versions: readonly string[];
  random?: Random;
  intercept?: (request: { readonly url: string }) => MemoryHandler | undefined;
}): World {
  const { seed, replicas, retries, versions, random, intercept } = options;
  const engine = family === "whole" ? undefined : family;
  const hedging = random?.stream("hedging");
  return makeWorld({
    seed,
    replicas,
    // Prompts go out as ids, so that agents' answers can go on elsewhere.
    tokenizerPath: BUILTIN_TOKENIZER,
    graphs: CHAOS_GRAPHS,
    model: {
      ...LIMITS,
      health: HEALTH,
      retries,
      ...(hedging?.int(3) === 0 ? { hedge_idle_pair_ms: 20 + hedging.int(500) } : {}),
      ...(random === undefined ? {} : { pair_window: 1 + random.int(8), max_in_flight: 1 + random.int(16) }),
    },
    ...(intercept === undefined ? {} : { intercept }),
    ...(engine === undefined ? {} : {
      pairs: {
        engine,
        ...(engine === "sglang-pd" ? { versions } : {}),
        options: { bootstrapTimeoutMs: 4_000, waitingTimeoutMs: 4_000 },
      },
    }),
  });
}

/** Texts of undisturbed answers, by family and place in the catalogue. */
const calmTexts = new Map<Family, Promise<readonly string[]>>();

function expectedTexts(family: Family): Promise<readonly string[]> {
  let texts = calmTexts.get(family);
  if (texts === undefined) calmTexts.set(family, texts = askCalmly(family));
  return texts;
}

async function askCalmly(family: Family): Promise<readonly string[]> {
  const world = worldOf(family, { seed: "calm", replicas: 1, retries: 0, versions: [] });
  return await world.clock.run(async () => {
    const router = world.router();
    await router.ready();
    const texts: string[] = [];
    for (const request of CATALOGUE) {
      if (!isServed(request, family)) {
        texts.push("");
        continue;
      }
      const response = await send(router, request, { stream: false, id: "calm" });
      const body = await response.text();
      assert.equal(response.status, 200, body);
      texts.push(readAnswer(request, false, 200, body).text);
    }
    await router.close();
    return texts;
  });
}

/** vLLM has no `/generate`. */
function isServed({ path }: ChaosRequest, family: Family): boolean {
  return path !== "/generate" || family !== "vllm-pd";
}

function send(
  router: Router,
  { path, body }: ChaosRequest,
  { stream, id, signal }: { stream: boolean; id: string; signal?: AbortSignal },
): Promise<Response> {
  return Promise.resolve(router.app.request(path, {
    method: "POST",
    headers: { "content-type": "application/json", "x-request-id": id },
    body: JSON.stringify({ ...body, stream }),
    ...(signal === undefined ? {} : { signal }),
  }));
}

/** One seed's world while it is played. */
class Stage {
  readonly #random: Random;
  readonly #family: Family;
  readonly #retries: number;
  readonly #world: World;
  readonly #places: readonly Place[];
  readonly #oracle: Oracle;
  /** Strikes that wait for a generation, by worker. */
  readonly #strikes = new Map<number, Spell[]>();
  readonly #blows: Promise<void>[] = [];
  readonly #wrong: string[] = [];

  constructor(seed: string, random: Random, family: Family) {
    this.#random = random;
    this.#family = family;
    this.#retries = random.int(4);
    const replicas = 1 + random.int(3);
    const byHost = new Map<string, number>();
    this.#world = worldOf(family, {
      seed,
      replicas,
      retries: this.#retries,
      random,
      versions: Array.from({ length: replicas }, () => random.pick(OTHER_VERSIONS.sglang)),
      intercept: ({ url }) => {
        const index = byHost.get(new URL(url).hostname);
        return index === undefined ? undefined : (request, signal) => this.#handle(index, request, signal);
      },
    });
    const { workers, clock } = this.#world;
    for (const [index, { url }] of workers.entries()) byHost.set(new URL(url).hostname, index);
    this.#places = workers.map((worker) => new Place(worker, clock));
    this.#oracle = new Oracle(workers, {
      retries: this.#retries,
      noticeMs: NOTICE_MS,
      firstTokenMs: LIMITS.first_token_timeout_ms,
      decodesAlone: family === "vllm-pd",
      anyName: new Set({ "whole": ["8b", "32b"], "sglang-pd": ["4b", "8b", "32b"], "vllm-pd": [] }[family]),
    });
  }

  async play(): Promise<void> {
    const { clock, transport } = this.#world;
    const texts = await expectedTexts(this.#family);
    await clock.run(async () => {
      const router = this.#world.router();
      await router.ready();
      this.#beginBlows(router);
      const clients = 3 + this.#random.int(5);
      await Promise.all(Array.from({ length: clients }, (_, index) => this.#client(router, index, texts)));
      await Promise.all(this.#blows);
      await this.#checkRecovery(router, texts);
      await this.#checkIdle(router);
      await router.close();
      assert.equal(transport.inFlight, 0, "an exchange is still open");
    }, { limitMs: 600_000 });
    // A simulated server that is made slow stays at it for longer than anybody listens.
    await clock.advance(clock.now() + 400_000);
    assert.equal(clock.pendingTimers, 0, "a timer is left");
    assert.equal(this.#world.fabric.stats.roomsReused, 0, "a room was used twice");
    assert.deepEqual(this.#wrong, []);
  }

  async #handle(index: number, ...[request, signal]: Parameters<MemoryHandler>) {
    const place = this.#places[index]!;
    const { pathname } = new URL(request.url);
    const generates = request.method === "POST" && GENERATIONS.test(pathname);
    if (!generates && pathname !== "/tokenize") return await place.handle(request, signal);
    const step = generates ? "generate" : "tokenize";
    const attempt: SeenAttempt = { worker: index, step, atMs: this.#world.clock.now(), unsent: false };
    this.#oracle.noteAttempt(request.headers["x-request-id"] ?? "", attempt);
    if (generates) this.#useStrike(index);
    try {
      return await place.handle(request, signal);
    } catch (error) {
      attempt.unsent = error instanceof TransportError && error.code === "connect_failed";
      throw error;
    }
  }

  /** The worker takes a generation: so much of its next strike is over. */
  #useStrike(index: number): void {
    const waiting = this.#strikes.get(index);
    const spell = waiting?.shift();
    if (spell === undefined || waiting!.includes(spell)) return;
    const hangsMs = spell.kind === "hang" ? LIMITS.first_token_timeout_ms : 0;
    spell.toMs = this.#world.clock.now() + hangsMs;
  }

  #beginBlows(router: Router): void {
    const { workers } = this.#world;
    const decodes = [...workers.entries()].filter(([, { role }]) => role === "decode");
    const pairs = [...workers.entries()].filter(([, { role }]) => role === "prefill")
      .map(([index], i) => [index, decodes[i]![0]] as const);
    const blows = randomBlows(this.#random, {
      workers: workers.length,
      pairs,
      bootstrap: this.#family === "sglang-pd",
    }, { blows: this.#random.int(7), untilMs: BLOWS_UNTIL_MS, longestMs: LONGEST_BLOW_MS });
    for (const blow of blows) this.#blows.push(this.#strike(router, blow));
  }

  async #strike(router: Router, blow: Blow): Promise<void> {
    await this.#world.clock.sleep(blow.atMs);
    await Promise.all(blow.workers.map((index) => this.#strikeOne(router, blow, index)));
  }

  async #strikeOne(router: Router, blow: Blow, index: number): Promise<void> {
    const { clock } = this.#world;
    const place = this.#places[index]!;
    const spell = this.#oracle.begin(blow.kind, index, clock.now(), blow.count);
    const struck = STRIKES[blow.kind];
    if (struck !== undefined && isCounted(blow.kind)) {
      place.worker.simulator.inject({ kind: struck, count: blow.count, value: blow.value });
      const waiting = this.#strikes.get(index) ?? [];
      this.#strikes.set(index, waiting);
      if (struck !== "kv_failure" && struck !== "slow_transfer") {
        for (let n = 0; n < blow.count; n++) waiting.push(spell);
      }
      return;
    }
    await this.#strikeFor(router, blow, place, index);
    spell.toMs = clock.now();
  }

  /** A blow that lasts for a time. */
  async #strikeFor(router: Router, blow: Blow, place: Place, index: number): Promise<void> {
    const lasts = () => this.#world.clock.sleep(blow.lastsMs);
    switch (blow.kind) {
      case "reset":
        return place.reset();
      case "kill":
      case "upgrade":
      case "impostor":
        return await this.#replace(blow, place, lasts);
      case "pause":
        place.pause();
        await lasts();
        return place.resume();
      case "half_open":
        place.cut();
        await lasts();
        return place.mend();
      case "slow":
        place.delayMs = 20 * blow.value;
        await lasts();
        place.delayMs = 0;
        return;
      default:
        return await this.#change(router, blow, index, lasts);
    }
  }

  async #replace({ kind, value }: Blow, place: Place, lasts: () => Promise<void>): Promise<void> {
    const { role } = place.worker;
    place.kill();
    await lasts();
    if (kind === "impostor") {
      place.restart({ model: "org/another-model" });
      await lasts();
      place.kill();
    }
    const versions = this.#family === "sglang-pd" ? OTHER_VERSIONS.sglang : [];
    const version = kind === "upgrade" && role !== undefined ? versions[value % versions.length] : undefined;
    place.restart({ version });
  }

  /** What an operator does to a worker that is well. */
  async #change(router: Router, { kind }: Blow, index: number, lasts: () => Promise<void>): Promise<void> {
    const { url } = this.#world.workers[index]!;
    const worker = `/workers/${encodeURIComponent(url)}`;
    const asked = async (path: string, method: string, body?: unknown) => {
      const response = await router.app.request(path, {
        method,
        headers: { "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return [response.status, await response.text()] as const;
    };
    if (kind === "drain") {
      await asked(worker, "PUT", { draining: true });
      await lasts();
      await asked(worker, "PUT", { draining: false });
      return;
    }
    const [status] = await asked(worker, "DELETE");
    // Another blow of the kind has it already.
    if (status !== 202) return;
    await lasts();
    const { model, role } = this.#world.workers[index]!;
    const [, text] = await asked("/workers", "POST", {
      url,
      model,
      worker_type: role ?? "regular",
      ...(role === "prefill" ? { bootstrap_port: 8998 } : {}),
    });
    assert.match(text, /accepted/);
  }

  /** One request of a client that may be slow, or lose interest. */
  async #client(router: Router, index: number, texts: readonly string[]): Promise<void> {
    const { clock } = this.#world;
    const random = this.#random.stream(`client ${index}`);
    await clock.sleep(random.int(BLOWS_UNTIL_MS));
    const leaver = new AbortController();
    const over = new AbortController();
    if (random.int(4) === 0) {
      clock.sleep(random.int(2_000), over.signal).then(() => leaver.abort(new Error("Gone")), () => {});
    }
    const served = CATALOGUE.keys().filter((which) => isServed(CATALOGUE[which]!, this.#family));
    const which = random.pick([...served]);
    const slowMs = random.int(4) === 0 ? random.int(300) : 0;
    await this.#ask(router, { id: `c${index}`, which, texts, random, slowMs, leaver });
    over.abort();
  }

  async #ask(router: Router, { id, which, texts, random, slowMs, leaver }: {
    id: string;
    which: number;
    texts: readonly string[];
    random: Random;
    slowMs: number;
    leaver: AbortController;
  }): Promise<void> {
    const { clock } = this.#world;
    const request = CATALOGUE[which]!;
    const stream = random.int(2) === 0;
    const startMs = clock.now();
    let status: number | undefined;
    let body = "";
    try {
      const response = await send(router, request, { stream, id, signal: leaver.signal });
      status = response.status;
      const decoder = new TextDecoder();
      for await (const chunk of response.body ?? []) {
        body += decoder.decode(chunk, { stream: true });
        if (slowMs > 0) await clock.sleep(slowMs);
        if (leaver.signal.aborted) break;
      }
    } catch (error) {
      // A body that is no stream breaks off as a connection does; a head always comes.
      if (status === undefined && !leaver.signal.aborted) throw error;
    }
    let answer: ReadAnswer;
    try {
      answer = readAnswer(request, stream, status ?? 0, body);
    } catch (error) {
      this.#wrong.push(`${request.path} ${id}: ${error}`);
      return;
    }
    const seen: Seen = {
      ...answer,
      id,
      kind: request.kind,
      models: request.models,
      stream,
      startMs,
      endMs: clock.now(),
      left: leaver.signal.aborted,
      status,
    };
    const wrong = this.#oracle.judge(seen, texts[which]!);
    if (wrong !== undefined) this.#wrong.push(wrong);
  }

  /** Everything is well again, and after a while so is every answer. */
  async #checkRecovery(router: Router, texts: readonly string[]): Promise<void> {
    const { clock, workers } = this.#world;
    // What has not struck by now never does.
    for (const { simulator } of workers) simulator.clearFaults();
    await clock.sleep(2 * NOTICE_MS);
    for (const [which, request] of CATALOGUE.entries()) {
      if (!isServed(request, this.#family)) continue;
      const response = await send(router, request, { stream: false, id: `after ${which}` });
      const body = await response.text();
      if (response.status !== 200) {
        const states = [...router.services.models.values()].flatMap(({ pool }) => pool.workers());
        assert.fail(`after the blows: ${body} ${JSON.stringify(states)}`);
      }
      assert.equal(readAnswer(request, false, 200, body).text, texts[which], "after the blows");
    }
  }

  /** Nothing works, nothing is counted, nothing waits. */
  async #checkIdle(router: Router): Promise<void> {
    const { clock, workers } = this.#world;
    await clock.sleep(5_000);
    assert.equal(engineTotals(workers).running, 0, "an engine still works");
    for (const { name, pool } of router.services.models.values()) {
      for (const worker of pool.workers()) assert.equal(worker.inFlight, 0, `${worker.url} is still counted`);
      assert.equal(pool.gate.waiting, 0, `somebody waits for ${name}`);
      for (const { id } of pool.workers()) assert.equal(pool.gate.reading(id), 0, `${id} still reads`);
    }
  }
}

/** Plays so many seeds one after the other; gives what went wrong, each with the command to have it again. */
export async function playSeeds({ from, seeds, most = 10, onSeed }: {
  readonly from: number;
  readonly seeds: number;
  /** Failures after which it stops. */
  readonly most?: number | undefined;
  readonly onSeed?: ((seed: number) => void) | undefined;
}): Promise<readonly string[]> {
  const failures: string[] = [];
  for (let seed = from; seed < from + seeds && failures.length < most; seed++) {
    try {
      await playChaos(`chaos-${seed}`);
    } catch (error) {
      const why = error instanceof Error ? error.message : String(error);
      failures.push(`seed ${seed}: ${why}\nThe same again: deno task test:chaos --from ${seed} --seeds 1`);
    }
    onSeed?.(seed);
  }
  return failures;
}
