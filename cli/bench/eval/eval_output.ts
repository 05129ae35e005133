import { mkdirSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { countedRecords } from "../../../bench/evaluation/eval_figures.ts";
import type { Evaluation } from "../../../bench/evaluation/evaluate.ts";
import type { EvalMode } from "../../../bench/evaluation/modes/eval_mode.ts";
import type { SpendingBasis } from "../../../bench/evaluation/spending.ts";
import { evalReport, type ReportedExperiment } from "../../../bench/report/eval/eval_report.ts";
import { lmEvalFiles } from "../../../bench/report/eval/lm_eval_files.ts";
import { PAGE_INDEX, questionPages } from "../../../bench/report/eval/question_pages.ts";
import type { Io } from "../../kit/io.ts";
import { writeQuietly, writeReport } from "../../kit/report_output.ts";
import { version } from "../../kit/version.ts";
import { DEFAULT_SEED, type PickedSet } from "../question_source.ts";
import { gpuRemark } from "./eval_basis.ts";
import type { EvalValues } from "./eval_options.ts";
import { type EvalPace, isOneByOne, paceText } from "./eval_pace.ts";
import type { ChosenProtocol } from "./eval_protocol.ts";
import type { EvalTarget, EvalTargets } from "./eval_targets.ts";
import { openEndedDiversity } from "./open_ended_diversity.ts";
import type { Shard } from "./shard.ts";
import { STREAM_INTERVAL } from "./simulated_world.ts";

/** What is asked, of whom, and how. */
export interface EvalWork {
  readonly values: EvalValues;
  /** All of them; the part that is asked is `shard`. */
  readonly sets: readonly PickedSet[];
  readonly shard: Shard | undefined;
  readonly targets: EvalTargets;
  readonly chosen: ChosenProtocol;
  readonly experiment: ReportedExperiment | undefined;
}

/** What an evaluation's answers depend on: in the file of records, and in reports. */
export interface EvalSettings {
  readonly modes: readonly EvalMode[];
  readonly asked: ReadonlyMap<string, EvalTarget>;
  readonly simulated: boolean;
  readonly pace: EvalPace;
  readonly basis: SpendingBasis;
  readonly baseline: string | undefined;
  readonly drawing: { readonly temperature: number; readonly width: number } | undefined;
  readonly kept: Readonly<Record<string, unknown>>;
  readonly shown: Readonly<Record<string, unknown>>;
  readonly hash: string;
}

/** Prints and writes the report; gives the exit code. */
export async function reportEvaluation(
  { values, sets, targets, chosen, experiment }: EvalWork,
  { modes, simulated, pace, basis, baseline, drawing, shown, hash }: EvalSettings,
  result: Evaluation,
  io: Io,
): Promise<number> {
  const { protocol } = chosen;
  const { seed = DEFAULT_SEED, repeats = 1 } = values;
  const names = modes.map(({ name }) => name);
  const diversity = await openEndedDiversity({ records: result.records, sets, modes: names }, values, io);
  const origin = originOf({ simulated, where: targets.where, protocol: protocol.name }) +
    `; ${paceText(pace)}, ${repeats} each; seed ${seed}`;
  const labels = new Map(
    sets.map(({ name, label, questions, count }) => [name, `${label}: ${questions.length} of ${count}`]),
  );
  const code = await writeReport(
    evalReport(result, {
      origin,
      simulated,
      modes: names,
      labels,
      settings: shown,
      hash,
      experiment,
      basis,
      baseline,
      diversity,
      pages: pagesLink(values, io),
      remarks: [
        ...chosen.remarks,
        ...worldRemarks(targets, pace),
        ...drawing === undefined ? [] : [drawingRemark(drawing)],
        gpuRemark(basis, targets),
      ],
    }),
    values,
    io,
  );
  const { "lm-eval-output": folder, pages } = values;
  const records = countedRecords(result.records);
  if (pages !== undefined) {
    const all = questionPages({ records, sets, modes: names, labels, origin });
    io.err.write(`Wrote ${writeFolder(pages, all, io).length} pages: ${join(pages, PAGE_INDEX)}\n`);
  }
  if (folder !== undefined) {
    const unixMs = io.clock.unixEpochMs + io.clock.now();
    const files = lmEvalFiles({ records, sets, protocol, settings: shown, simulated, version, unixMs });
    for (const path of writeFolder(folder, files, io)) io.err.write(`Wrote ${path}\n`);
  }
  return code;
}

/** The way from the report's page to those of the questions. */
function pagesLink({ html, pages }: EvalValues, io: Io) {
  if (html === undefined || pages === undefined) return undefined;
  const way = relative(dirname(resolve(io.cwd, html)), resolve(io.cwd, pages, PAGE_INDEX));
  return { path: encodeURI(way.replaceAll(sep, "/")), text: "A page for each question" };
}

/** Writes files into a folder, and gives their paths. Throws 500 `cannot_write`. */
function writeFolder(
  folder: string,
  files: readonly { readonly path: string; readonly text: string }[],
  io: Io,
): string[] {
  return files.map(({ path, text }) => {
    const file = join(folder, path);
    mkdirSync(dirname(resolve(io.cwd, file)), { recursive: true });
    writeQuietly(file, text, io);
    return file;
  });
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

/** What of a configuration is not in effect in virtual time. */
function worldRemarks({ world }: EvalTargets, pace: EvalPace): string[] {
  if (world === undefined) return [];
  return [
    "in virtual time exits compare answers by their words: no scorer's model runs there; streams come in pieces of " +
    `${STREAM_INTERVAL} tokens, as of engines with --stream-interval ${STREAM_INTERVAL}`,
    ...isOneByOne(pace)
      ? [
        "each answer has engines of its own, so that nothing of another one is cached, and what is asked before it changes nothing",
      ]
      : [],
  ];
}

function drawingRemark(
  { temperature, width }: { readonly temperature: number; readonly width: number },
): string {
  return `self-consistency and best-of-N draw ${width} answers at a time, at temperature ${temperature}; their latency and ` +
    "tokens are those of all answers drawn, but for those that were broken off when the time was up";
}
