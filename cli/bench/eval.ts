import { isAbsolute, join } from "node:path";
import { CanopyError } from "../../base/errors.ts";
import { evaluate } from "../../bench/evaluation/evaluate.ts";
import { RecordFile } from "../../bench/evaluation/record_file.ts";
import { missingGrader } from "../../bench/grading/grade_answer.ts";
import { evalReport } from "../../bench/report/eval_report.ts";
import { UsageError } from "../kit/args.ts";
import { listModels, type Server, serverUrl } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";
import { askServer, DEFAULT_MAX_TOKENS } from "./ask_server.ts";
import { chosenProtocol, PROTOCOL_OPTIONS } from "./eval_protocol.ts";
import { DEFAULT_SEED, type PickedSet, pickedSets, QUESTION_OPTIONS } from "./question_source.ts";

const DEFAULTS = { url: "http://127.0.0.1:8000", timeoutSeconds: 3600 };

const options = {
  ...QUESTION_OPTIONS,
  url: { type: "text", value: "URL", help: `The server; ${DEFAULTS.url} by default` },
  mode: {
    type: "list",
    value: "NAME",
    help:
      "Model or graph to ask, the first one is what others are compared with; by default all that the server lists",
  },
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
  simulated: { type: "flag", help: "Say in the report that the server's engines are simulated" },
  records: {
    type: "text",
    value: "FILE",
    help: "Keep each answer in this file (JSONL), and do not ask again for what it has",
  },
  html: { type: "text", value: "FILE", help: "Write the report to this file as one HTML page" },
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
code is 1 when a request had no answer; with --records, running it again asks only for those.

Examples:
  canopy bench eval gsm8k math500 --samples 10 --mode moa --mode 32b
  canopy bench eval gsm8k bbh --protocol lm-eval --mode moa --mode 32b
  canopy bench eval mmlu --data hub --samples 500 --records mmlu.jsonl --html mmlu.html --json mmlu.json`,
  run: async (values, names, io) => {
    if (names.length === 0) {
      throw new UsageError("Needs a data set: canopy bench eval SET… (see bench questions)");
    }
    const sets = await pickedSets(names, values, io);
    for (const set of sets) refuseUngraded(set);
    const { protocol, settings, remarks } = chosenProtocol(values, sets);
    const server: Server = { url: serverUrl(values.url ?? DEFAULTS.url), apiKey: io.env["CANOPY_API_KEY"] };
    const modes = [
      ...new Set(values.mode.length > 0 ? values.mode : await listModels(io.transport, server, io.stop)),
    ];
    const { seed = DEFAULT_SEED, repeats = 1, concurrency = 1 } = values;
    const sources = sets.map(({ name, source }) => `${name}: ${source}`);
    const kept = {
      ...settings,
      url: server.url,
      sources,
      seed,
      maxTokens: values["max-tokens"] ?? "by default",
    };
    const progress = new Progress(io);
    const result = await evaluate({
      sets,
      modes,
      protocol,
      repeats,
      concurrency,
      seed,
      ask: askServer(server, {
        maxTokens: values["max-tokens"],
        timeoutMs: 1000 * (values.timeout ?? DEFAULTS.timeoutSeconds),
      }, io),
      file: new RecordFile(values.records && pathOf(values.records, io), JSON.stringify(kept)),
      signal: io.stop,
      onAnswer: (done, all) => {
        if (io.err.isTerminal || done % Math.ceil(all / 10) === 0) progress.show(`${done} of ${all} answers`);
      },
    }).finally(() => progress.end());
    const code = await writeReport(
      evalReport(result, {
        origin: `${
          values.simulated
            ? "Simulated engines, so that no figure says anything about models"
            : "Measured in real time"
        }: ` +
          `${server.url}, protocol ${protocol.name}; ${concurrency} at a time, ${repeats} each; seed ${seed}`,
        simulated: values.simulated,
        modes,
        labels: new Map(
          sets.map((
            { name, label, questions, count },
          ) => [name, `${label}: ${questions.length} of ${count}`]),
        ),
        settings: { ...kept, modes, repeats, concurrency, simulated: values.simulated },
        remarks,
      }),
      values,
      io,
    );
    return result.failures.size > 0 ? 1 : code;
  },
});

function pathOf(path: string, io: Io): string {
  return isAbsolute(path) ? path : join(io.cwd, path);
}

/** Refuses, before anything is asked, a set whose answers cannot be graded. */
function refuseUngraded({ label, questions }: PickedSet): void {
  for (const { grader } of questions) {
    const why = missingGrader(grader);
    if (why === undefined) continue;
    throw new CanopyError(`Cannot evaluate ${label}: ${why}`, { code: "grader_missing", status: 400 });
  }
}
