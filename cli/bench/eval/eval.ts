import { resolve } from "node:path";
import { type AskAlone, evaluate, type EvaluateOptions } from "../../../bench/evaluation/evaluate.ts";
import { needsReference } from "../../../bench/evaluation/modes/eval_mode.ts";
import { RecordFile } from "../../../bench/evaluation/record_file.ts";
import { UsageError } from "../../kit/args.ts";
import { defineCommand } from "../../kit/command.ts";
import type { Io } from "../../kit/io.ts";
import { askServer } from "./ask_server.ts";
import { baselineMode, spendingBasis } from "./eval_basis.ts";
import { type EvalSettings, type EvalWork, reportEvaluation } from "./eval_output.ts";
import { chosenModes } from "./eval_modes.ts";
import { EVAL_DEFAULTS, EVAL_OPTIONS } from "./eval_options.ts";
import { checkWarmUp, evalPace, isOneByOne, paceArrivals } from "./eval_pace.ts";
import { chosenProtocol } from "./eval_protocol.ts";
import { EvalProgress } from "./eval_progress.ts";
import { evalTargets } from "./eval_targets.ts";
import { experimentJsonSchema } from "./experiment_file.ts";
import { evalRequest, shardRequest } from "./experiment_request.ts";
import { effectOf } from "./in_effect.ts";
import { shardQuestions } from "./shard.ts";
import { DEFAULT_SEED, pickedSets } from "../question_source.ts";
import { sandboxSource } from "../sandbox_source.ts";

/** `canopy bench eval`: right answers of models and graphs on data sets. */
export const benchEvalCommand = defineCommand({
  name: "bench eval",
  summary: "Ask data sets' questions of models and graphs of a server, and grade the answers",
  arguments: "SET…",
  maxArguments: 100,
  options: {
    ...EVAL_OPTIONS,
    schema: { type: "flag", help: "Print the JSON Schema of experiment files, for editors" },
  },
  details:
    `Each question is asked in all modes before the next one. Without --data hub, or files of yours, samples are asked:
questions by Canopy in the shape of the data sets. The key for the server is read from CANOPY_API_KEY. The exit
code is 1 when a request had no answer; with --records, running it again asks only for those. NUM_SAMPLES,
QUESTION_BATCH_SIZE and CONFIG_PATH of Faster-MoA's driver stand for --samples, --concurrency and --config.

With --rate a question starts when it arrives, in its modes one behind the other; --concurrency then holds back
those that arrive while so many are under way, and the report says how many and how long. The questions of --warm-up
are kept in the records as such, and asked again by nothing.

Modes beside names: single:MODEL; self-consistency@tokens:MODEL and self-consistency@time:MODEL draw answers of a
model until they have cost the tokens, or the time, of the first mode's answer to the same question, and the answer
that most of them state counts; self-consistency@N:MODEL draws N; best-of-N:MODEL takes the likeliest of N by
log-probability; moa-vllm is a --config's graph in MoA-vllm's manner.

An experiment file is JSONC: "sets", and options by their names with _ for -, such as "max_tokens", those that can be
repeated as lists; a member of "config" may be a configuration itself. Its paths are seen from the file. The report
has its text, what options here have changed, and a hash. Shipped are all-sets, all ten samples in every kind of mode,
and diversity, how unlike answers to open-ended prompts are with and without exits.

Examples:
  canopy bench eval gsm8k math500 --samples 10 --mode moa --mode 32b --mode self-consistency@tokens:32b
  canopy bench eval gsm8k --config moa-9-3-1 --config moa-9-9-1-dense --simulate
  canopy bench eval gsm8k bbh --protocol lm-eval --mode moa --mode 32b
  canopy bench eval --experiment all-sets --samples 1
  canopy bench eval mmlu --data hub --samples 500 --records mmlu.jsonl --html mmlu.html --json mmlu.json`,
  run: async (flags, names, io) => {
    if (flags.schema) {
      io.out.write(`${JSON.stringify(experimentJsonSchema(), null, 2)}\n`);
      return 0;
    }
    const request = evalRequest(flags, names, io);
    if (request.sets.length === 0) {
      throw new UsageError(
        "Needs a data set: canopy bench eval SET… (see bench questions), or --experiment FILE with sets",
      );
    }
    const { values, shard } = shardRequest(request, flags, io);
    const sets = await pickedSets(request.sets, values, io);
    const chosen = chosenProtocol(values, sets);
    const targets = await evalTargets(values, io);
    try {
      return await evaluated({ values, sets, shard, targets, chosen, experiment: request.experiment }, io);
    } finally {
      await targets.close();
    }
  },
});

function settingsOf(work: EvalWork, io: Pick<Io, "cwd">): EvalSettings {
  const { values, sets, targets, chosen, experiment } = work;
  const { modes, asked } = chosenModes(values.mode, targets);
  const { seed = DEFAULT_SEED, repeats = 1 } = values;
  const pace = evalPace(values);
  const { temperature = EVAL_DEFAULTS.temperature, width = EVAL_DEFAULTS.width } = values;
  const drawing = modes.some(({ kind }) => kind !== "once") ? { temperature, width } : undefined;
  const simulated = values.simulated || [...asked.values()].some((one) => one.simulated);
  const names = modes.map(({ name }) => name);
  const { settings, hash } = effectOf({
    chosen,
    sets,
    targets,
    modes: names,
    seed,
    repeats,
    ...pace,
    timeoutSeconds: values.timeout ?? EVAL_DEFAULTS.timeoutSeconds,
    maxTokens: values["max-tokens"],
    simulated,
    drawing,
  });
  const loose = {
    ...chosen.settings,
    url: targets.settings,
    sources: sets.map(({ name, source }) => `${name}: ${source}`),
    seed,
    maxTokens: values["max-tokens"] ?? "by default",
    simulated,
    drawing,
    rate: pace.rate,
    warmUp: pace.warmUp,
    // An answer with the first one's budget depends on which mode that is.
    first: modes.some(needsReference) ? names[0] : undefined,
  };
  // An experiment is one thing; what options alone have begun may go on with more samples, modes and repeats.
  const kept = experiment === undefined ? loose : { ...settings, experiment: hash };
  return {
    modes,
    asked,
    simulated,
    pace,
    basis: spendingBasis(values.prices, targets, io),
    baseline: baselineMode(values.baseline, { modes, asked }),
    drawing,
    kept,
    shown: {
      ...loose,
      modes: names,
      repeats,
      concurrency: pace.concurrency ?? "no limit",
      simulated,
      prices: values.prices,
      sha256: hash,
    },
    hash,
  };
}

async function evaluated(work: EvalWork, io: Io): Promise<number> {
  const { values, shard, chosen } = work;
  const { seed = DEFAULT_SEED, repeats = 1 } = values;
  const { temperature = EVAL_DEFAULTS.temperature, width = EVAL_DEFAULTS.width } = values;
  const settings = settingsOf(work, io);
  const { modes, pace } = settings;
  const sets = shard === undefined ? work.sets : shardQuestions(work.sets, shard);
  checkWarmUp(pace, sets, shard);
  const progress = new EvalProgress(io);
  const place = evalPlace(work, settings, io);
  const result = await place.run(() =>
    evaluate({
      ...place,
      sets,
      modes,
      protocol: chosen.protocol,
      sampling: { temperature, width },
      repeats,
      arrivals: paceArrivals(pace),
      // Parts that are asked at the same time should not have their crowds at the same time.
      arrivalSeed: shard === undefined ? seed : `${seed}/${shard.part}-of-${shard.parts}`,
      warmUp: pace.warmUp ?? 0,
      seed,
      file: new RecordFile(values.records && pathOf(values.records, io), JSON.stringify(settings.kept), {
        holdsTexts: values.pages !== undefined,
      }),
      signal: io.stop,
      onAnswer: (done, all, known) => progress.add(done, all, known),
    })
  ).finally(() => progress.end());
  const code = await reportEvaluation({ ...work, sets }, settings, result, io);
  return result.failures.size > 0 ? 1 : code;
}

interface EvalPlace extends Pick<EvaluateOptions, "ask" | "clock" | "alone" | "openSandbox"> {
  /** Makes the clock go on while it works. */
  readonly run: <T>(work: () => Promise<T>) => Promise<T>;
}

/** Where and when is asked: outside, or in simulated worlds. */
function evalPlace(
  { values, targets: { world } }: EvalWork,
  { asked, pace }: EvalSettings,
  io: Io,
): EvalPlace {
  const limits = {
    maxTokens: values["max-tokens"],
    timeoutMs: 1000 * (values.timeout ?? EVAL_DEFAULTS.timeoutSeconds),
  };
  const openSandbox = sandboxSource(io);
  const outside: EvalPlace = {
    ask: askServer(asked, limits, io),
    clock: io.clock,
    openSandbox,
    run: (work) => work(),
  };
  if (world === undefined) return outside;
  const ask = askServer(asked, limits, world);
  if (!isOneByOne(pace)) {
    return {
      ask,
      clock: world.clock,
      openSandbox: world.sandbox(openSandbox),
      run: (work) => world.clock.run(work),
    };
  }
  const alone: AskAlone = (mode, use) =>
    world.alone(
      asked.get(mode.model)!.server.url,
      (own) => use({ ask: askServer(asked, limits, own), clock: own.clock }),
    );
  return { ...outside, alone };
}

function pathOf(path: string, io: Io): string {
  return resolve(io.cwd, path);
}
