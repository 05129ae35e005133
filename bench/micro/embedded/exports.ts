/**
 * Speed of each export of a model on this CPU, and its cost in quality. For every ONNX file of a folder: the
 * tokens per second of a prompt and of an answer, and how many of the tokens that torch drew in 32 bits
 * (`greedy.json`, written by `tests/engines/setup_real_model.sh`) it would have drawn in their place.
 *
 *     deno task bench:embedded-exports --model FOLDER [--threads N]
 */
import { readdir, readFile, stat } from "node:fs/promises";
import { availableParallelism } from "node:os";
import { basename, join } from "node:path";
import process from "node:process";
import { SystemClock } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import { isJsonObject } from "../../../base/json.ts";
import { logger } from "../../../base/log.ts";
import { generated, greedyRequest, type Pace, promptOf } from "./measures.ts";
import { numberAfter, textAfter } from "../flags.ts";
import { median } from "../measure.ts";
import { weightBytes } from "../../../ml/onnx/weight_bytes.ts";
import type { Generator } from "../../../embedded/scheduler/generator.ts";
import { WorkerGenerator } from "../../../embedded/thread/worker_generator.ts";
import { startDecoderThread } from "../../../embedded/thread/worker_thread.ts";

const PROMPT_TOKENS = 512;
const ANSWER_TOKENS = 64;
const ROUNDS = 3;
const MIB = 2 ** 20;

/** Tokens that torch drew after a prompt. */
interface Recorded {
  readonly promptIds: readonly number[];
  readonly ids: readonly number[];
}

const clock = new SystemClock();
const write = (text: string) => process.stdout.write(`${text}\n`);
const row = (name: string, ...figures: string[]) =>
  write(`${name.padEnd(26)}${figures.map((figure) => figure.padStart(18)).join("")}`);
const folder = textAfter("--model", ".");
const threads = numberAfter("--threads", availableParallelism());

const recorded = await readRecorded();
write(
  `${folder}; threads: ${threads}; ${PROMPT_TOKENS} tokens, then ${ANSWER_TOKENS}; medians of ${ROUNDS} rounds`,
);
row("", "MB", "loaded in s", "prompt tokens/s", "answer tokens/s", "torch's tokens, %");
for (const path of await exportsIn(folder)) {
  try {
    await measure(path);
  } catch (error) {
    write(`${basename(path).padEnd(26)}    ${messageOf(error)}`);
  }
}

async function measure(path: string): Promise<void> {
  const startMs = clock.now();
  const generator = await WorkerGenerator.start({
    clock,
    log: logger("bench"),
    start: startDecoderThread,
    maxSequences: 1,
    decoder: {
      model: folder,
      path,
      threads,
      cacheBytes: 512 * MIB,
      maxContextTokens: 2048,
      maxRunning: 1,
    },
  });
  try {
    const loadSeconds = (clock.now() - startMs) / 1000;
    const { vocabSize } = generator.facts;
    const paces: Pace[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      const prompt = promptOf(`${path}/${round}`, PROMPT_TOKENS, vocabSize);
      const pace = await generated(clock, generator, prompt, ANSWER_TOKENS);
      // The first round warms the compiler up.
      if (round > 0) paces.push(pace);
    }
    row(
      basename(path),
      (await weightBytes(path) / 1e6).toFixed(0),
      loadSeconds.toFixed(1),
      median(paces.map(({ promptPerSecond }) => promptPerSecond)).toFixed(0),
      median(paces.map(({ answerPerSecond }) => answerPerSecond)).toFixed(1),
      recorded.length === 0 ? "-" : (100 * await agreement(generator)).toFixed(1),
    );
  } finally {
    await generator.close();
  }
}

/** The share of recorded tokens that this export draws, too, each one after those that were recorded before it. */
async function agreement(generator: Generator): Promise<number> {
  let same = 0;
  let all = 0;
  for (const { promptIds, ids } of recorded) {
    for (const [index, id] of ids.entries()) {
      const request = greedyRequest([...promptIds, ...ids.slice(0, index)], 1);
      for await (const event of generator.generate(request, new AbortController().signal)) {
        if (event.type === "token" && event.token.id === id) same++;
      }
      all++;
    }
  }
  return same / all;
}

/** The ONNX files of a model, in its folder `onnx` or at the top. */
async function exportsIn(model: string): Promise<string[]> {
  const within = join(model, "onnx");
  const at = await stat(within).then(() => within, () => model);
  return (await readdir(at)).filter((name) => name.endsWith(".onnx")).sort().map((name) => join(at, name));
}

async function readRecorded(): Promise<Recorded[]> {
  const text = await readFile(join(folder, "greedy.json"), "utf8").catch(() => "{}");
  const { cases } = JSON.parse(text);
  if (!Array.isArray(cases)) return [];
  return cases.filter(isJsonObject).map(({ prompt_ids, ids }) => ({
    promptIds: prompt_ids as number[],
    ids: ids as number[],
  }));
}
