import { isAbsolute, join } from "node:path";
import { deadlineSignal } from "../../base/clock.ts";
import { CanopyError } from "../../base/errors.ts";
import type { AskMode } from "../../bench/evaluation/eval_record.ts";
import { evaluate } from "../../bench/evaluation/evaluate.ts";
import { RecordFile } from "../../bench/evaluation/record_file.ts";
import { missingGrader } from "../../bench/grading/grade_answer.ts";
import { evalReport } from "../../bench/report/eval_report.ts";
import { UsageError } from "../kit/args.ts";
import { listModels, type Server, serverUrl, streamChat } from "../kit/client.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";
import { DEFAULT_SEED, type PickedSet, pickedSets, QUESTION_OPTIONS } from "./question_source.ts";

const DEFAULTS = { url: "http://127.0.0.1:8000", maxTokens: 4096, timeoutSeconds: 3600 };

/** `canopy bench eval`: right answers of models and graphs on data sets. */
export const benchEvalCommand = defineCommand({
  name: "bench eval",
  summary: "Ask data sets' questions of models and graphs of a server, and grade the answers",
  arguments: "SET…",
  maxArguments: 100,
  options: {
    ...QUESTION_OPTIONS,
    url: { type: "text", value: "URL", help: `The server; ${DEFAULTS.url} by default` },
    mode: {
      type: "list",
      value: "NAME",
      help:
        "Model or graph to ask, the first one is what others are compared with; by default all that the server lists",
    },
    protocol: {
      type: "text",
      value: "NAME",
      choices: ["chat", "lm-eval"],
      help: "How it is asked; chat by default",
    },
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
      help: `Longest answer; ${DEFAULTS.maxTokens} by default`,
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
  },
  details:
    `Each question is asked in all modes before the next one. Without --data hub, or files of yours, samples are asked:
questions by Canopy in the shape of the data sets. The key for the server is read from CANOPY_API_KEY. The exit
code is 1 when a request had no answer; with --records, running it again asks only for those.

Examples:
  canopy bench eval gsm8k math500 --samples 10 --mode moa --mode 32b
  canopy bench eval mmlu --data hub --samples 500 --records mmlu.jsonl --html mmlu.html --json mmlu.json`,
  run: async (values, names, io) => {
    if (names.length === 0) {
      throw new UsageError("Needs a data set: canopy bench eval SET… (see bench questions)");
    }
    if (values.protocol === "lm-eval") {
      throw new UsageError(
        "Option --protocol lm-eval is not there yet: its prompts and filters are not part of Canopy; use chat",
      );
    }
    const sets = await pickedSets(names, values, io);
    for (const set of sets) refuseUngraded(set);
    const server: Server = { url: serverUrl(values.url ?? DEFAULTS.url), apiKey: io.env["CANOPY_API_KEY"] };
    const modes = [
      ...new Set(values.mode.length > 0 ? values.mode : await listModels(io.transport, server, io.stop)),
    ];
    const { seed = DEFAULT_SEED, repeats = 1, concurrency = 1 } = values;
    const maxTokens = values["max-tokens"] ?? DEFAULTS.maxTokens;
    const sources = sets.map(({ name, source }) => `${name}: ${source}`);
    const kept = { protocol: "chat", url: server.url, sources, seed, maxTokens };
    const path = values.records === undefined || isAbsolute(values.records)
      ? values.records
      : join(io.cwd, values.records);
    const progress = new Progress(io);
    const every = Math.max(
      1,
      Math.ceil(sets.reduce((sum, set) => sum + set.questions.length, 0) * modes.length / 10),
    );
    const result = await evaluate({
      sets,
      modes,
      repeats,
      concurrency,
      seed,
      ask: askerOf(server, { maxTokens, timeoutMs: 1000 * (values.timeout ?? DEFAULTS.timeoutSeconds) }, io),
      file: new RecordFile(path, JSON.stringify(kept)),
      signal: io.stop,
      onAnswer: (done, all) => {
        if (io.err.isTerminal || done % every === 0) progress.show(`${done} of ${all} answers`);
      },
    }).finally(() => progress.end());
    const code = await writeReport(
      evalReport(result, {
        origin: `${
          values.simulated
            ? "Simulated engines, so that no figure says anything about models"
            : "Measured in real time"
        }: ` +
          `${server.url}, protocol chat; ${concurrency} at a time, ${repeats} each; seed ${seed}`,
        simulated: values.simulated,
        modes,
        labels: new Map(
          sets.map((
            { name, label, questions, count },
          ) => [name, `${label}: ${questions.length} of ${count}`]),
        ),
        settings: { ...kept, modes, repeats, concurrency, simulated: values.simulated },
      }),
      values,
      io,
    );
    return result.failures.size > 0 ? 1 : code;
  },
});

/** Refuses, before anything is asked, a set whose answers cannot be graded. */
function refuseUngraded({ label, questions }: PickedSet): void {
  for (const { grader } of questions) {
    const why = missingGrader(grader);
    if (why === undefined) continue;
    throw new CanopyError(`Cannot evaluate ${label}: ${why}`, { code: "grader_missing", status: 400 });
  }
}

function askerOf(
  server: Server,
  { maxTokens, timeoutMs }: { readonly maxTokens: number; readonly timeoutMs: number },
  { transport, clock }: Io,
): AskMode {
  return async (model, prompt, { seed, signal }) => {
    const startMs = clock.now();
    const deadline = deadlineSignal(
      clock,
      timeoutMs,
      new Error(`No answer within ${timeoutMs / 1000} s`),
      signal,
    );
    let text = "";
    let ttftMs: number | undefined;
    let tokens = { prompt_tokens: 0, completion_tokens: 0 };
    try {
      const body = { model, messages: [{ role: "user", content: prompt }], seed, max_tokens: maxTokens };
      for await (const event of streamChat(transport, server, body, deadline.signal)) {
        if (event.type === "usage") tokens = { ...tokens, ...event.usage };
        if (event.type !== "text") continue;
        ttftMs ??= clock.now() - startMs;
        text += event.text;
      }
    } finally {
      deadline.release();
    }
    const latencyMs = clock.now() - startMs;
    return {
      text,
      ttftMs,
      latencyMs,
      promptTokens: tokens.prompt_tokens,
      completionTokens: tokens.completion_tokens,
    };
  };
}
