import assert from "node:assert/strict";
import process from "node:process";
import { test } from "node:test";
import { Random } from "../../base/random.ts";
import {
  type CanopyProcess,
  lastRun,
  type RecordedEvent,
  type RecordedRun,
  type Sampling,
  type TestAgent,
  type TestGraph,
} from "./canopy_process.ts";
import { becomesIdle, combined, type EngineCounters, type EngineProcess, isPair } from "./engine_process.ts";
import { send } from "./http_request.ts";

export const modelNames = ["4b", "8b", "32b"] as const;

/** Different lengths, so that some precursors write long after others have ended; much more than a warm's step. */
const lengths = [80, 240, 640] as const;
const greedy = (tokens: number): Sampling => ({ max_tokens: tokens, temperature: 0, ignore_eos: true });

/** One prompt for each agent of the first layer: the same model would give all of them the same answer otherwise. */
export const prompts: Readonly<Record<string, string>> = Object.fromEntries(
  Array.from(
    { length: 9 },
    (_, at) => [`voice-${at + 1}`, `Speak as voice number ${at + 1}: [input_prompts]`],
  ),
);

const firstLayer: TestAgent[][] = [0, 1, 2].map((cluster) =>
  modelNames.map((model, at) => ({
    model,
    sampling: greedy(lengths[at] ?? 0),
    prompt: `voice-${3 * cluster + at + 1}`,
  }))
);
const layers = [
  firstLayer,
  [modelNames.map((model, at) => ({ model, sampling: greedy(lengths[at] ?? 0) }))],
  [[{ model: "32b", sampling: greedy(48) }]],
];

/** Where the random paces come from; the tests print it. */
const seed = process.env["CANOPY_SEED"] ?? crypto.randomUUID().slice(0, 8);
const random = new Random(seed).stream("paces");
/**
 * Tokens from one warm to the next: 32 to 512, any order of magnitude as likely as another. With fewer a prompt of
 * 1,300 tokens takes more warms than a trace shows one by one, and the books below are made from traces.
 */
const paces = Array.from({ length: 2 }, () => Math.round(32 * 16 ** random.next()));

/** A 9-3-1 tree without warming, with the pace that sets itself (twice), and in steps of random lengths. */
export const overlapGraphs: Readonly<Record<string, TestGraph>> = {
  off: { layers, incrementalPrefill: "off" },
  on: { layers, incrementalPrefill: "on" },
  "on-again": { layers, incrementalPrefill: "on" },
  ...Object.fromEntries(
    paces.map((
      chunkTokens,
    ) => [`steps-of-${chunkTokens}`, { layers, incrementalPrefill: "on", chunkTokens }]),
  ),
};

const messages = [{ role: "user", content: "What is 2+2?" }];

/** Tests of one engine under one Canopy that serves `overlapGraphs`. */
export function overlapTests(engineOf: () => EngineProcess, canopyOf: () => CanopyProcess): void {
  const runs = new Map<string, RecordedRun>();

  for (const graph of Object.keys(overlapGraphs)) {
    test(`graph ${graph}: the engine counted what the router counted, warms included`, async () => {
      const engine = engineOf();
      assert.ok(await becomesIdle(engine, 2000), "the engine is busy before the test");
      const before = await Promise.all(engine.servers.map((server) => server.counters()));
      const answer = await send("POST", `${canopyOf().url}/v1/chat/completions`, { model: graph, messages });
      assert.equal(answer.status, 200, answer.text);
      assert.ok(await becomesIdle(engine, 1000), "something still runs a second after the answer");
      const run = await lastRun(canopyOf().url);
      runs.set(graph, run);
      const counted = (await Promise.all(engine.servers.map((server) => server.counters())))
        .map((now, at) => combined(now, before[at]!, (one, other) => one - other));
      if (graph !== "off") assert.ok(warmsOf(run).done.length > 0, "nothing was warmed");
      for (const [at, server] of counted.entries()) assertCounts(engine, at, server, run);
    });
  }

  test("whether and how a prompt was warmed changes no prompt and no answer", () => {
    const [off, ...warmed] = [...runs.values()];
    assert.ok(off !== undefined && warmed.length > 0);
    for (const run of warmed) {
      for (const [at, agent] of run.agents.entries()) {
        assert.deepEqual(agent.prompt, off.agents[at]?.prompt, agent.id);
        assert.equal(agent.text, off.agents[at]?.text, agent.id);
      }
    }
  });

  test("nine tenths and more of what could be warmed is in the cache when the prompt itself comes", async (t) => {
    t.diagnostic(`CANOPY_SEED=${seed}`);
    // Whatever else this machine does delays some warms: at the pace that sets itself the better of two runs counts.
    const best = new Map<string, number>();
    for (const [graph, run] of runs) {
      for (const { agent, data } of run.events.filter(({ type }) => type === "warm_stopped")) {
        const usage = run.usage.agents.find((one) => one.agent === agent);
        const [cached, all] = [usage?.cached_tokens ?? 0, usage?.prompt_tokens ?? 0];
        const written = await writtenTokens(engineOf(), run, agent ?? "");
        const sent = number(data?.["tokens"]);
        t.diagnostic(
          `${graph} ${agent}: ${cached} of ${all} tokens cached, ${written} written before the prompt was sent, ` +
            `${sent} warmed by ${number(data?.["warms"])} warms`,
        );
        if (!graph.startsWith("on") || engineOf().engine === "sglang") {
          // Steps of a given length go at their own pace, and a single SGLang server stops its streams for each warm, so
          // that those which save less than they cost are left out: what was sent is all that could be warmed.
          assert.ok(cached > 0 && cached >= 0.9 * sent, `${graph} ${agent}: ${cached} of ${sent}`);
        } else best.set(agent ?? "", Math.max(best.get(agent ?? "") ?? 0, cached / written));
      }
    }
    for (const [agent, share] of best) {
      t.diagnostic(`${agent}: ${(100 * share).toFixed(1)} % of what was written`);
      assert.ok(share >= 0.9, `${agent}: ${share}`);
    }
  });
}

/**
 * Tokens of an agent's prompt as far as the end of its last precursor's answer. What can be warmed is a little less:
 * the last tokens of an answer are certain only when it has ended, and then the prompt itself is sent.
 */
async function writtenTokens(engine: EngineProcess, run: RecordedRun, id: string): Promise<number> {
  const { prompt, started_at_ms } = run.agents.find((agent) => agent.id === id)!;
  assert.ok(prompt?.kind === "tokens", `${id} was not sent as tokens`);
  const [layer] = id.split(".");
  const before = run.agents.filter((agent) =>
    agent.id.startsWith(`l${Number(layer?.slice(1)) - 1}.`) &&
    (agent.ended_at_ms ?? Infinity) <= started_at_ms! + 1
  );
  const whole = await engine.detokenize(prompt.ids);
  const read = before.map(({ text }) => text.trim()).filter((text) => whole.includes(text));
  assert.ok(read.length > 0, `${id} has read nobody`);
  let [low, high] = [0, prompt.ids.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const text = await engine.detokenize(prompt.ids.slice(0, middle));
    if (read.every((answer) => text.includes(answer))) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** A warm in the trace. */
interface TracedWarm {
  readonly tokens: number;
  readonly cached: number;
}

/** The warms of a run: those that were answered, and those that were given up because the prompt itself was. */
function warmsOf(run: RecordedRun): { done: TracedWarm[]; cut: TracedWarm[] } {
  const warms: { done: TracedWarm[]; cut: TracedWarm[] } = { done: [], cut: [] };
  const under = new Map<string, RecordedEvent>();
  for (const event of run.events) {
    const agent = event.agent ?? "";
    assert.notEqual(event.type, "warm_failed", JSON.stringify(event));
    if (event.type === "warm_sent") under.set(agent, event);
    if (event.type !== "warm_done") continue;
    under.delete(agent);
    warms.done.push({ tokens: number(event.data?.["tokens"]), cached: number(event.data?.["cached"]) });
  }
  for (const { data } of under.values()) warms.cut.push({ tokens: number(data?.["tokens"]), cached: 0 });
  return warms;
}

function number(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

/** A server counted all calls, and all warms that went there; a warm that was cut short perhaps, if it came so far. */
function assertCounts(
  engine: EngineProcess,
  server: number,
  counted: EngineCounters,
  run: RecordedRun,
): void {
  const { done, cut } = warmsOf(run);
  const { calls, prompt_tokens, completion_tokens, cached_tokens } = run.usage;
  const isPrefill = isPair(engine) && server === 0;
  const isDecode = isPair(engine) && server === 1;
  // Only where the version has no other way does a warm have a decode half.
  const warmsComeHere = !isDecode || (engine.engine === "sglang-pd" && engine.version !== "0.5.10.post1");
  const expected = (warms: readonly TracedWarm[]) => {
    const here = warmsComeHere ? warms : [];
    const perWarm = engine.engine === "sglang" ? 0 : 1;
    return {
      requests: calls + here.length,
      promptTokens: prompt_tokens + here.reduce((sum, { tokens }) => sum + tokens, 0),
      generationTokens: (isPrefill ? calls : completion_tokens) + perWarm * here.length,
      ...(cut.length > 0 || isDecode
        ? {}
        : { cachedTokens: (cached_tokens ?? 0) + here.reduce((sum, { cached }) => sum + cached, 0) }),
    };
  };
  const seen = (keys: readonly string[]) =>
    Object.fromEntries(Object.entries(counted).filter(([key]) => keys.includes(key)));
  const possible = Array.from(
    { length: 2 ** cut.length },
    (_, which) => expected([...done, ...cut.filter((_, at) => which >> at & 1)]),
  );
  const fits = possible.find((one) => {
    const actual = seen(Object.keys(one));
    return Object.entries(one).every(([key, value]) => actual[key] === value);
  });
  const first = possible[0]!;
  if (fits === undefined) {
    assert.deepEqual(seen(Object.keys(first)), first, `server ${server}, ${cut.length} warms cut short`);
  }
}
