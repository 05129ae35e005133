import { mkdirSync } from "node:fs";
import { dirname, isAbsolute, join } from "node:path";
import { evaluate } from "../../../bench/evaluation/evaluate.ts";
import { needsReference } from "../../../bench/evaluation/modes/eval_mode.ts";
import { RecordFile } from "../../../bench/evaluation/record_file.ts";
import { evalReport } from "../../../bench/report/eval_report.ts";
import { lmEvalFiles, type LmEvalFilesOptions } from "../../../bench/report/lm_eval_files.ts";
import { UsageError } from "../../kit/args.ts";
import { defineCommand, type OptionValues } from "../../kit/command.ts";
import type { Io } from "../../kit/io.ts";
import { Progress } from "../../kit/progress.ts";
import { REPORT_OPTIONS, writeReport, writeResult } from "../../kit/report_output.ts";
import { version } from "../../kit/version.ts";
import { askServer, DEFAULT_MAX_TOKENS } from "./ask_server.ts";
import { withDriverVariables } from "./driver_variables.ts";
import { chosenModes } from "./eval_modes.ts";
import { type ChosenProtocol, chosenProtocol, PROTOCOL_OPTIONS } from "./eval_protocol.ts";
import { type EvalTargets, evalTargets, TARGET_OPTIONS } from "./eval_targets.ts";
import { DEFAULT_SEED, type PickedSet, pickedSets, QUESTION_OPTIONS } from "../question_source.ts";
import { sandboxSource } from "../sandbox_source.ts";

const DEFAULTS = { timeoutSeconds: 3600, temperature: 0.7, width: 4 };

const options = {
  ...QUESTION_OPTIONS,
  ...TARGET_OPTIONS,
  ...PROTOCOL_OPTIONS,
  repeats: {
    type: "number",
    value: "N",
    min: 1,
    max: 1000,
    help: "Times that each question is asked; 1 by default",
  },
  concurrency: {
    type: "number",
    value: "N",
    min: 1,
    max: 10_000,
    help: "Questions at the same time; 1 by default",
  },
  "max-tokens": {
    type: "number",
    value: "N",
    min: 1,
    help:
      `Longest answer; by default ${DEFAULT_MAX_TOKENS} with chat, and what the task sets with lm-eval, mostly 256`,
  },
  timeout: {
    type: "number",
    value: "SECONDS",
    min: 0.001,
    fraction: true,
    help: `Longest time for a request; ${DEFAULTS.timeoutSeconds} by default`,
  },
  temperature: {
    type: "number",
    value: "N",
    min: 0,
    max: 2,
    fraction: true,
    help: `Of the answers that self-consistency and best-of-N draw; ${DEFAULTS.temperature} by default`,
  },
  width: {
    type: "number",
    value: "N",
    min: 1,
    max: 1000,
    help: `Answers that these draw at the same time; ${DEFAULTS.width} by default`,
  },
  shard: {
    type: "text",
    value: "I/N",
    help: "Ask only each Nth question, from the Ith one on; bench merge puts the parts' records together",
  },
  records: {
    type: "text",
    value: "FILE",
    help: "Keep each answer in this file (JSONL), and do not ask again for what it has",
  },
  html: { type: "text", value: "FILE", help: "Write the report to this file as one HTML page" },
  "lm-eval-output": {
    type: "text",
    value: "FOLDER",
    help: "Write results_*.json and samples_*.jsonl as lm-eval lays them out, in a folder for each mode",
  },
  ...REPORT_OPTIONS,
} as const;

/** `canopy bench eval`: right answers of models and graphs on data sets. */
export const benchEvalCommand = defineCommand({
  name: "bench eval",
  summary: "Ask data sets' questions of models and graphs of a server, and grade the answers",
  arguments: "SET…",
  maxArguments: 100,
  options,
  details:
    `Each question is asked in all modes before the next one. Without --data hub, or files of yours, samples are asked:
questions by Canopy in the shape of the data sets. The key for the server is read from CANOPY_API_KEY. The exit
code is 1 when a request had no answer; with --records, running it again asks only for those. NUM_SAMPLES,
QUESTION_BATCH_SIZE and CONFIG_PATH of Faster-MoA's driver stand for --samples, --concurrency and --config.

Modes beside names: single:MODEL; self-consistency@tokens:MODEL and self-consistency@time:MODEL draw answers of a
model until they have cost the tokens, or the time, of the first mode's answer to the same question, and the answer
that most of them state counts; self-consistency@N:MODEL draws N; best-of-N:MODEL takes the likeliest of N by
log-probability; moa-vllm is a --config's graph in MoA-vllm's manner.

Examples:
  canopy bench eval gsm8k math500 --samples 10 --mode moa --mode 32b --mode self-consistency@tokens:32b
  canopy bench eval gsm8k --config moa-9-3-1 --config moa-9-9-1-dense --simulate
  canopy bench eval gsm8k bbh --protocol lm-eval --mode moa --mode 32b
  canopy bench eval mmlu --data hub --samples 500 --records mmlu.jsonl --html mmlu.html --json mmlu.json`,
  run: async (given, names, io) => {
    if (names.length === 0) {
      throw new UsageError("Needs a data set: canopy bench eval SET… (see bench questions)");
    }
    const values = withDriverVariables(given, io);
    const sets = shardOf(await pickedSets(names, values, io), values.shard);
    const chosen = chosenProtocol(values, sets);
    const targets = await evalTargets(values, io);
    try {
      return await evaluated({ values, sets, targets, chosen }, io);
    } finally {
      await targets.close();
    }
  },
});

/** The questions of one part of several, equally many of each set. Throws `UsageError` for one that is none. */
function shardOf(sets: readonly PickedSet[], shard: string | undefined): readonly PickedSet[] {
  if (shard === undefined) return sets;
  const [, part, parts] = (/^([1-9]\d{0,4})\/([1-9]\d{0,4})$/.exec(shard) ?? []).map(Number);
  if (part === undefined || parts === undefined || part > parts) {
    throw new UsageError(
      `Option --shard must be I/N such as 2/4, I from 1 to N: current value is "${shard}"`,
    );
  }
  return sets.map((set) => ({
    ...set,
    questions: set.questions.filter((_, index) => index % parts === part - 1),
  }));
}

interface EvalWork {
  readonly values: OptionValues<typeof options>;
  readonly sets: readonly PickedSet[];
  readonly targets: EvalTargets;
  readonly chosen: ChosenProtocol;
}

async function evaluated({ values, sets, targets, chosen }: EvalWork, io: Io): Promise<number> {
  const { modes, asked } = chosenModes(values.mode, targets);
  const { seed = DEFAULT_SEED, repeats = 1, concurrency = 1 } = values;
  const { temperature = DEFAULTS.temperature, width = DEFAULTS.width } = values;
  const drawing = modes.some(({ kind }) => kind !== "once") ? { temperature, width } : undefined;
  const simulated = values.simulated || [...asked.values()].some((one) => one.simulated);
  const kept = {
    ...chosen.settings,
    url: targets.settings,
    sources: sets.map(({ name, source }) => `${name}: ${source}`),
    seed,
    maxTokens: values["max-tokens"] ?? "by default",
    simulated,
    drawing,
    // An answer with the first one's budget depends on which mode that is.
    first: modes.some(needsReference) ? modes[0]?.name : undefined,
  };
  const progress = new Progress(io);
  const result = await evaluate({
    sets,
    modes,
    protocol: chosen.protocol,
    sampling: { temperature, width },
    clock: io.clock,
    repeats,
    concurrency,
    seed,
    openSandbox: sandboxSource(io),
    ask: askServer(asked, {
      maxTokens: values["max-tokens"],
      timeoutMs: 1000 * (values.timeout ?? DEFAULTS.timeoutSeconds),
    }, io),
    file: new RecordFile(values.records && pathOf(values.records, io), JSON.stringify(kept)),
    signal: io.stop,
    onAnswer: (done, all) => {
      if (io.err.isTerminal || done % Math.ceil(all / 10) === 0) progress.show(`${done} of ${all} answers`);
    },
  }).finally(() => progress.end());
  const settings = { ...kept, modes: modes.map(({ name }) => name), repeats, concurrency, simulated };
  const code = await writeReport(
    evalReport(result, {
      origin: originOf({ simulated, where: targets.where, protocol: chosen.protocol.name }) +
        `; ${concurrency} at a time, ${repeats} each; seed ${seed}`,
      simulated,
      modes: modes.map(({ name }) => name),
      labels: new Map(
        sets.map(({ name, label, questions, count }) => [name, `${label}: ${questions.length} of ${count}`]),
      ),
      settings,
      remarks: [...chosen.remarks, ...drawing === undefined ? [] : [drawingRemark(drawing)]],
    }),
    values,
    io,
  );
  const { "lm-eval-output": folder } = values;
  if (folder !== undefined) {
    const unixMs = io.clock.unixEpochMs + io.clock.now();
    const { protocol } = chosen;
    writeLmEvalFiles(folder, {
      records: result.records,
      sets,
      protocol,
      settings,
      simulated,
      version,
      unixMs,
    }, io);
  }
  return result.failures.size > 0 ? 1 : code;
}

function writeLmEvalFiles(folder: string, options: LmEvalFilesOptions, io: Io): void {
  for (const { path, text } of lmEvalFiles(options)) {
    mkdirSync(dirname(pathOf(join(folder, path), io)), { recursive: true });
    writeResult(join(folder, path), text, io);
  }
}

function originOf(
  { simulated, where, protocol }: {
    readonly simulated: boolean;
    readonly where: string;
    readonly protocol: string;
  },
): string {
  const what = simulated
    ? "Simulated engines, so that no figure says anything about models"
    : "Measured in real time";
  return `${what}: ${where}, protocol ${protocol}`;
}

function drawingRemark(
  { temperature, width }: { readonly temperature: number; readonly width: number },
): string {
  return `self-consistency and best-of-N draw ${width} answers at a time, at temperature ${temperature}; their latency and ` +
    "tokens are those of all answers drawn, but for those that were broken off when the time was up";
}

function pathOf(path: string, io: Io): string {
  return isAbsolute(path) ? path : join(io.cwd, path);
}
