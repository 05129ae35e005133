/**
 * What incremental prefill is worth to a whole run on real engines: the same tree with it off, on and left to the pace
 * that sets itself, in turns, on a model of 85 M parameters. Of a pair each half has a core of its own.
 *
 *     deno task bench:overlap [--engine vllm-pd-0.32.0] [--rounds 10] [--tokens 360] [--readers 1]
 *         [--modes off,on,auto]
 *
 * Needs `setup_vllm.sh` or `setup_sglang.sh`, `setup_small_model.sh` and a built `dist/canopy`; minutes for a few rounds.
 */
import { join } from "node:path";
import process from "node:process";
import { Random } from "../../base/random.ts";
import { numberAfter, textAfter } from "../../bench/micro/flags.ts";
import { bootstrapInterval, meanOf } from "../../bench/statistics/statistics.ts";
import {
  type CanopyProcess,
  configText,
  lastRun,
  type RecordedRun,
  startCanopy,
  type TestGraph,
} from "./canopy_process.ts";
import {
  becomesIdle,
  engineKinds,
  type EngineProcess,
  enginesFolder,
  startEngine,
} from "./engine_process.ts";
import { send } from "./http_request.ts";

const MODEL = "small-qwen3";
const ALL_MODES = ["off", "on", "auto"] as const;
type Mode = (typeof ALL_MODES)[number];

const wanted = textAfter("--engine", "vllm-pd-0.32.0");
const rounds = numberAfter("--rounds", 10);
/** Of the longest precursor; the others write less. */
const tokens = numberAfter("--tokens", 360);
/** Agents that read all precursors; where they are several, a root reads them. */
const readers = numberAfter("--readers", 1);
/** Those that are compared with "off". */
const modes = textAfter("--modes", ALL_MODES.join()).split(",");
const MODES = ALL_MODES.filter((mode) => mode === "off" || modes.includes(mode));
const random = new Random("whole-run");

/** Precursors that end one after the other, as ones of different models and lengths do. */
const lengths = [1, 2, 3, 4, 5].map((part) => Math.round(tokens * (1 + part) / 6));
const prompts = {
  ...Object.fromEntries(
    lengths.map((_, at) => [`voice-${at}`, `Speak as voice number ${at}: [input_prompts]`]),
  ),
  aggregate: "Answer this question: [input_prompts]\n\nWith the help of these answers:\n\n[responses]",
};

function graphOf(incrementalPrefill: Mode): TestGraph {
  const greedy = (max_tokens: number) => ({ max_tokens, temperature: 0, ignore_eos: true });
  return {
    layers: [
      [lengths.map((length, at) => ({ model: MODEL, sampling: greedy(length), prompt: `voice-${at}` }))],
      [Array.from({ length: readers }, () => ({ model: MODEL, sampling: greedy(48), prompt: "aggregate" }))],
      ...(readers === 1 ? [] : [[[{ model: MODEL, sampling: greedy(48), prompt: "aggregate" }]]]),
    ],
    incrementalPrefill,
  };
}

/** Times of one run in ms, from its start. */
interface Times {
  readonly whole: number;
  /** The end of the last precursor. */
  readonly precursors: number;
  /** From there to the root's first token. */
  readonly firstToken: number;
  /** Share of the root's prompt that its engine had in its cache. */
  readonly cached: number;
  /** Why the trace says that warms were held back while precursors wrote; undefined where it does not. */
  readonly held: string | undefined;
}

async function timeRun(
  engine: EngineProcess,
  canopy: CanopyProcess,
  mode: Mode,
  round: number,
): Promise<Times> {
  if (!await becomesIdle(engine, 10_000)) throw new Error("the engine does not come to rest");
  // No round finds another's prompts in a cache, and all modes of one round ask the same in other words.
  const facts = Array.from({ length: 60 }, (_, at) => `Fact ${at * 37 % 61} holds.`).join(" ");
  const messages = [{ role: "user", content: `${mode} ${round}. ${facts}` }];
  const answer = await send("POST", `${canopy.url}/v1/chat/completions`, { model: mode, messages });
  if (answer.status !== 200) throw new Error(answer.text);
  const run = await lastRun(canopy.url);
  const root = run.agents.at(-1)!;
  const ends = run.agents.map(({ ended_at_ms }) => ended_at_ms ?? NaN);
  const precursors = Math.max(...ends.slice(0, -1));
  const usage = run.usage.agents.find(({ agent }) => agent === root.id)!;
  return {
    whole: Math.max(...ends) - Math.min(...run.agents.map(({ started_at_ms }) => started_at_ms ?? NaN)),
    precursors,
    firstToken: root.first_token_at_ms! - precursors,
    cached: (usage.cached_tokens ?? 0) / usage.prompt_tokens,
    held: heldFor(run),
  };
}

function heldFor({ events }: RecordedRun): string | undefined {
  const { data } = events.find(({ type, data }) => type === "warm_held" && data?.["for"] === "precursors") ??
    {};
  if (data === undefined) return undefined;
  const { reason, cost_ms: cost, gain_ms: gain } = data;
  return `${reason}${cost === undefined ? "" : ` (cost ${cost} ms, gain ${gain} ms)`}`;
}

function row(mode: Mode, times: ReadonlyMap<Mode, readonly Times[]>): string {
  const own = times.get(mode)!;
  const mean = (of: (one: Times) => number) => meanOf(own.map(of));
  const ratio = (of: (one: Times) => number) => {
    const pairs = own.map((one, at) => [of(one), of(times.get("off")![at]!)] as const);
    const of2 = (sample: readonly (readonly [number, number])[]) =>
      meanOf(sample.map(([one]) => one)) / meanOf(sample.map(([, other]) => other));
    const { low, high } = bootstrapInterval(pairs, of2, { random, resamples: 2000 });
    return `${of2(pairs).toFixed(2)}× (${low.toFixed(2)}–${high.toFixed(2)})`;
  };
  const seconds = (ms: number) => `${(ms / 1000).toFixed(2)} s`;
  const cells = [
    mode.padEnd(5),
    `${seconds(mean(({ whole }) => whole))} ${ratio(({ whole }) => whole)}`.padEnd(30),
    `${seconds(mean(({ precursors }) => precursors))} ${ratio(({ precursors }) => precursors)}`.padEnd(30),
    seconds(mean(({ firstToken }) => firstToken)).padEnd(12),
    `${(100 * mean(({ cached }) => cached)).toFixed(0)} %`.padEnd(6),
    `${own.filter(({ held }) => held !== undefined).length} of ${own.length}`,
  ];
  return cells.join("  ");
}

const kind = engineKinds.find(({ engine, version }) => `${engine}-${version}` === wanted);
if (kind === undefined) {
  const known = engineKinds.map(({ engine, version }) => `${engine}-${version}`).join(", ");
  throw new Error(`--engine must be one of ${known}: current value is "${wanted}"`);
}
const engine = await startEngine({
  ...kind,
  modelFolder: join(enginesFolder, MODEL),
  modelNames: [MODEL],
});
try {
  const graphs = Object.fromEntries(MODES.map((mode) => [mode, graphOf(mode)]));
  const canopy = await startCanopy(configText([engine], graphs, prompts));
  try {
    // An engine's first long prompt is slower than all others, and the pace that sets itself learns from runs.
    for (const mode of MODES) await timeRun(engine, canopy, mode, 0);
    const times = new Map<Mode, Times[]>(MODES.map((mode) => [mode, []]));
    for (let round = 1; round <= rounds; round++) {
      for (const mode of MODES.map((_, at) => MODES[(at + round) % MODES.length]!)) {
        const one = await timeRun(engine, canopy, mode, round);
        times.get(mode)!.push(one);
        const held = one.held === undefined ? "" : `; held: ${one.held}`;
        process.stdout.write(`round ${round} ${mode}: ${(one.whole / 1000).toFixed(2)} s${held}\n`);
      }
    }
    process.stdout.write(
      `\n${wanted}, ${rounds} runs each; ratios to "off" with 95 % intervals\n` +
        `${"".padEnd(5)}  ${"whole run".padEnd(30)}  ${
          "precursors".padEnd(30)
        }  first token   cached  held\n`,
    );
    for (const mode of MODES) process.stdout.write(`${row(mode, times)}\n`);
  } finally {
    await canopy.stop();
  }
} finally {
  await engine.stop();
}
