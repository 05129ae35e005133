import { resolve } from "node:path";
import { CanopyError } from "../../base/errors.ts";
import { Random } from "../../base/random.ts";
import { earlyExitSchema } from "../../cfgs/schema/early_exit.ts";
import { type AnswerGroup, readAnswers } from "../kit/answers/answer_file.ts";
import { compareGroup } from "../kit/answers/compared_group.ts";
import { EMBEDDER_OPTIONS, openEmbedder } from "../kit/answers/embedder_options.ts";
import { UsageError } from "../kit/args.ts";
import { defineCommand } from "../kit/command.ts";
import type { Io } from "../kit/io.ts";
import { Progress } from "../kit/progress.ts";
import { REPORT_OPTIONS, writeReport } from "../kit/report_output.ts";
import { tryCandidates } from "./candidates.ts";
import { pairFigures } from "./pairs.ts";
import type { LabelledGroup } from "./replay.ts";
import { tuneReport } from "./report.ts";
import { readRuns } from "./runs/recorded_run.ts";
import { wholeRunReport } from "./runs/run_report.ts";
import { rulesFor, tuneRuns } from "./runs/tune_runs.ts";
import { writeRules } from "./runs/write_rules.ts";
import { suggestionOf } from "./suggestion.ts";
import { equalAnswers } from "../../scorer/answers/equal_answers.ts";
import { answerExtractor } from "../../scorer/answers/extract.ts";
import { OnnxFeatures } from "../../scorer/embedders/onnx_features.ts";
import { Whitening } from "../../scorer/similarity/whitening.ts";

const SIMILARITIES = ["fcs", "fcs_u", "cosine"] as const;

/** `canopy tune`: what each exit metric would have done on recorded or labelled answers. */
export const tuneCommand = defineCommand({
  name: "tune",
  summary: "What each exit metric would have done on recorded runs, and rules with a guarantee",
  arguments: "FILE|-",
  maxArguments: 1,
  options: {
    ...EMBEDDER_OPTIONS,
    "max-wrong": {
      type: "number",
      value: "SHARE",
      fraction: true,
      min: 0,
      max: 1,
      help: "Of the exits that may be wrong with the suggested settings; 0.02 by default",
    },
    risk: {
      type: "number",
      value: "SHARE",
      fraction: true,
      min: 0.001,
      max: 0.5,
      help: "Choose a rule that ends whole runs early and makes at most this share of them worse",
    },
    confidence: {
      type: "number",
      value: "SHARE",
      fraction: true,
      min: 0.5,
      max: 0.9999,
      help: "With --risk: how sure that is; 0.95 by default",
    },
    write: {
      type: "text",
      value: "FILE",
      help: "With --risk: write the rule into this configuration (JSON with comments)",
    },
    graph: { type: "text", value: "NAME", help: "With --write: for this graph; by default the only one" },
    seed: { type: "text", value: "TEXT", help: "Of what is drawn; canopy by default" },
    "write-whitening": {
      type: "text",
      value: "FILE",
      help: "Fit a calibration of cosine to these answers (scorer.whitening); needs --model",
    },
    ...REPORT_OPTIONS,
  },
  details:
    `The file has the lines of "canopy score" (see there), one group for each question, in the order in which answers
were complete. Further fields:
  "label"    what the answer comes to: answers of a group with equal labels agree
  "correct"  true or false: right answers agree, a wrong one with no other; used where there is no label
  "ms"       when it was complete, from the group's start; for the time saved
Without labels the final answers that texts state are taken for them, as "answer" finds them.

With --risk each line is the record of a run that went on to its end (GET /v1/runs/ID), with the right answer as
"label" where you know it. What comes out is early_exit with scope run, with a promise: with --confidence, at most
--risk of the runs are made worse than the whole run is.

Examples:
  canopy tune runs.jsonl --risk 0.02 --confidence 0.95 --write canopy.jsonc
  canopy tune answers.jsonl --model ./qwen3-embedding --max-wrong 0.01 --json tune.json --svg tune.svg`,
  run: async (values, [file], io) => {
    if (file === undefined) {
      throw new UsageError("Needs the FILE with the answers, or - for what is piped in");
    }
    if (values.risk !== undefined) {
      for (const name of ["max-wrong", "model", "max-tokens", "write-whitening"] as const) {
        if (values[name] !== undefined) {
          throw new UsageError(`Option --${name} is for single answers: leave it out with --risk`);
        }
      }
      return await tuneWholeRuns(file, { ...values, risk: values.risk }, io);
    }
    for (const name of ["confidence", "write", "graph"] as const) {
      if (values[name] !== undefined) throw new UsageError(`Option --${name} needs --risk`);
    }
    const read = await readAnswers(file, io);
    const { labelOf, sentence } = labelling(read);
    const usable = read.filter(({ answers }) => answers.length > 2);
    if (usable.length === 0) {
      throw new CanopyError(`Cannot tune on ${file}: it has no group of three answers or more`, {
        code: "invalid_input",
        status: 400,
      });
    }
    if (values["write-whitening"] !== undefined && values.model === undefined) {
      throw new UsageError("Option --write-whitening needs --model");
    }
    const embedder = await openEmbedder(values, io);
    const progress = new Progress(io);
    try {
      const groups: LabelledGroup[] = [];
      for (const group of usable) {
        io.stop.throwIfAborted();
        const compared = await compareGroup(group, embedder, SIMILARITIES);
        groups.push({ compared, labels: group.answers.map((_, place) => labelOf(group, place)) });
        if (io.err.isTerminal) progress.show(`${groups.length} of ${usable.length} groups`);
      }
      const whitening = values["write-whitening"];
      if (whitening !== undefined && values.model !== undefined) {
        await writeWhitening(groups, values.model, whitening, io);
      }
      const verdicts = read.some(({ answers }) => answers.some((answer) => answer.verdicts.size > 0));
      const mostWrong = values["max-wrong"] ?? 0.02;
      const seed = values.seed ?? "canopy";
      const candidates = tryCandidates(groups, { verdicts, seed });
      const { facts } = embedder;
      const report = tuneReport({
        origin: `Replayed: ${groups.length} ${
          groups.length === 1 ? "group" : "groups"
        } of ${file}; compared with ${facts.model ?? `${facts.embedder} features`}`,
        labels: sentence,
        groups,
        pairs: await pairFigures(groups, SIMILARITIES),
        candidates,
        suggested: suggestionOf(candidates, mostWrong, seed),
        mostWrong,
      });
      progress.end();
      return await writeReport(report, values, io);
    } finally {
      progress.end();
      await embedder.close();
    }
  },
});

/** Values of the options for whole runs. */
interface RunValues {
  readonly risk: number;
  readonly confidence?: number | undefined;
  readonly write?: string | undefined;
  readonly graph?: string | undefined;
  readonly seed?: string | undefined;
  readonly json: string | undefined;
  readonly svg: string | undefined;
}

async function tuneWholeRuns(file: string, values: RunValues, io: Io): Promise<number> {
  const { risk, confidence = 0.95, write, graph, seed = "canopy" } = values;
  if (graph !== undefined && write === undefined) throw new UsageError("Option --graph needs --write");
  const recorded = await readRuns(file, io);
  const goal = { risk, confidence };
  const tuned = tuneRuns(recorded, goal, new Random(`${seed}/runs`));
  const { chosen } = tuned;
  const rules = chosen && rulesFor(chosen, goal, recorded.sha256);
  const code = await writeReport(wholeRunReport({ file, recorded, goal, tuned, rules }), values, io);
  if (write !== undefined && rules !== undefined) writeRules({ file: write, graph }, rules, io);
  // Nothing was written that was to be.
  return write !== undefined && rules === undefined ? 1 : code;
}

/** Fits a whitening to the pooled vectors of all answers. Throws where there is nothing to learn. */
async function writeWhitening(
  groups: readonly LabelledGroup[],
  model: string,
  file: string,
  io: Io,
): Promise<void> {
  const vectors = groups.flatMap(({ compared }) => compared.features)
    .flatMap((features) => features instanceof OnnxFeatures ? [features.pooled] : []);
  await Whitening.fit(model, vectors).write(resolve(io.cwd, file));
  io.err.write(`Wrote ${file}, fitted to ${vectors.length} answers\n`);
}

type LabelOf = (group: AnswerGroup, place: number) => string | undefined;

/** Labels as the file has them, else right and wrong, else the final answers that the texts state. */
function labelling(groups: readonly AnswerGroup[]): { labelOf: LabelOf; sentence: string } {
  const answers = groups.flatMap((group) => group.answers);
  if (answers.some(({ label }) => label !== undefined)) {
    return { labelOf: ({ answers }, place) => answers[place]!.label, sentence: "Labels: those of the file" };
  }
  if (answers.some(({ correct }) => correct !== undefined)) {
    return {
      labelOf: ({ answers }, place) => {
        const { correct } = answers[place]!;
        return correct === undefined ? undefined : correct ? "correct" : `wrong ${place}`;
      },
      sentence: "Labels: right answers agree, a wrong one agrees with no other",
    };
  }
  const extract = answerExtractor(earlyExitSchema.parse({}).answer);
  return {
    // The first answer that says the same.
    labelOf: ({ answers, question }, place) => {
      const found = answers.slice(0, place + 1).map(({ text }) => extract(text, question));
      const own = found[place];
      if (own === undefined) return undefined;
      return String(found.findIndex((other) => other !== undefined && equalAnswers(other, own)));
    },
    sentence: 'Labels: the final answers that the texts state, so that "answer" is right by construction',
  };
}
