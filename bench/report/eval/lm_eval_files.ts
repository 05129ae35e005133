import { createHash } from "node:crypto";
import type { EvalQuestion } from "../../datasets/data_set.ts";
import type { EvalRecord, EvalSet } from "../../evaluation/eval_record.ts";
import type { EvalProtocol } from "../../protocols/protocol.ts";
import { meanOf, standardError } from "../../statistics/statistics.ts";

/** Options of `lmEvalFiles`. */
export interface LmEvalFilesOptions {
  readonly records: readonly EvalRecord[];
  readonly sets: readonly EvalSet[];
  readonly protocol: EvalProtocol;
  readonly settings: Readonly<Record<string, unknown>>;
  readonly simulated: boolean;
  /** Version of Canopy: it stands where lm-eval has its own, under a name of its own. */
  readonly version: string;
  readonly unixMs: number;
}

/** A file of lm-eval's layout. */
export interface LmEvalFile {
  /** In the folder of the output. */
  readonly path: string;
  readonly text: string;
}

interface Answered {
  readonly record: EvalRecord;
  readonly question: EvalQuestion;
}

/**
 * An evaluation in the layout in which lm-eval writes its own: a folder for each mode, in it `results_TIME.json`, and
 * `samples_TASK_TIME.jsonl` with a line for each answer and filter. What lm-eval has no field for stands beside.
 */
export function lmEvalFiles(options: LmEvalFilesOptions): LmEvalFile[] {
  const { records, sets, protocol, unixMs } = options;
  const questions = new Map(
    sets.flatMap(({ name, questions }) => questions.map((question) => [`${name}\0${question.id}`, question])),
  );
  const time = new Date(unixMs).toISOString().replace("Z", "000").replaceAll(":", "-");
  return [...Map.groupBy(records, ({ mode }) => mode)].flatMap(([mode, ofMode]) => {
    const answered = ofMode.map((record): Answered => ({
      record,
      question: questions.get(`${record.set}\0${record.question}`)!,
    }));
    const tasks = Map.groupBy(
      answered,
      ({ record: { set }, question }) => protocol.task({ set, question }).name,
    );
    const folder = mode.replaceAll(/["<>:/|\\?*[\]]+/gu, "__");
    return [
      { path: `${folder}/results_${time}.json`, text: resultsText(mode, tasks, options) },
      ...[...tasks].map(([task, answers]) => ({
        path: `${folder}/samples_${task}_${time}.jsonl`,
        text: answers.flatMap((one, index) => sampleLines(one, index, protocol)).join(""),
      })),
    ];
  });
}

function resultsText(
  mode: string,
  tasks: ReadonlyMap<string, readonly Answered[]>,
  { protocol, settings, simulated, version, unixMs }: LmEvalFilesOptions,
): string {
  const shots = ([first]: readonly Answered[]) => {
    const { record: { set }, question } = first!;
    return protocol.ask({ set, question }).messages.filter(({ role }) => role === "assistant").length;
  };
  const byTask = <T>(valueOf: (answers: readonly Answered[], task: string) => T) =>
    Object.fromEntries([...tasks].map(([task, answers]) => [task, valueOf(answers, task)]));
  const results = {
    results: byTask((answers, task) => ({
      name: task,
      alias: task,
      sample_len: answers.length,
      ...metricsOf(answers),
    })),
    group_subtasks: byTask((): string[] => []),
    configs: byTask((answers, task) => ({
      task,
      output_type: "generate_until",
      num_fewshot: shots(answers),
    })),
    versions: byTask(() => null),
    "n-shot": byTask(shots),
    higher_is_better: byTask(() => ({ exact_match: true })),
    "n-samples": byTask(({ length }) => ({ original: length, effective: length })),
    config: { model: "canopy", model_args: settings, batch_size: 1, simulated, moa_mode: mode },
    date: unixMs / 1000,
    runner_version: `canopy ${version}`,
    model_source: "canopy",
    model_name: mode,
    model_name_sanitized: mode.replaceAll(/["<>:/|\\?*[\]]+/gu, "__"),
  };
  return `${JSON.stringify(results, null, 2)}\n`;
}

function metricsOf(answers: readonly Answered[]): Record<string, number | "N/A"> {
  return Object.fromEntries(
    Object.keys(answers[0]!.record.readings).flatMap((filter) => {
      const scores = answers.map(({ record }) => scoreOf(record, filter));
      const stderr = standardError(scores);
      return [
        [`exact_match,${filter}`, meanOf(scores)],
        [`exact_match_stderr,${filter}`, Number.isFinite(stderr) ? stderr : "N/A"],
      ];
    }),
  );
}

function sampleLines({ record, question }: Answered, docId: number, protocol: EvalProtocol): string[] {
  const { set, text, readings } = record;
  const { messages, stop = [], maxTokens, temperature } = protocol.ask({ set, question });
  const prompt = JSON.stringify(messages);
  const { id, question: asked, options, answer, subject } = question;
  const doc = { id, question: asked, choices: options, answer, subject };
  return Object.entries(readings).map(([filter, { stated }]) =>
    `${
      JSON.stringify({
        doc_id: docId,
        doc,
        target: answer,
        arguments: {
          gen_args_0: { arg_0: prompt, arg_1: { until: stop, max_gen_toks: maxTokens, temperature } },
        },
        resps: [[text]],
        filtered_resps: [stated ?? "[invalid]"],
        filter,
        metrics: ["exact_match"],
        doc_hash: sha256Of(JSON.stringify(doc, null, 2)),
        prompt_hash: sha256Of(prompt),
        target_hash: sha256Of(answer),
        exact_match: scoreOf(record, filter),
        repeat: record.repeat,
        finish_reason: record.finish,
        latency_ms: record.latencyMs,
        ttft_ms: record.ttftMs,
        output_tokens: record.completionTokens,
      })
    }\n`
  );
}

function scoreOf({ readings }: EvalRecord, filter: string): number {
  return readings[filter]?.outcome === "right" ? 1 : 0;
}

function sha256Of(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
