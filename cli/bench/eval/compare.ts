import { resolve } from "node:path";
import { isJsonObject } from "../../../base/json.ts";
import { compareRecords, type RecordComparison } from "../../../bench/evaluation/compare_records.ts";
import { type KeptRecords, readRecords } from "../../../bench/evaluation/read_records.ts";
import { differentSettings } from "../../../bench/records/different_settings.ts";
import { compareReport, lacksAnswers } from "../../../bench/report/eval/compare_report.ts";
import { UsageError } from "../../kit/args.ts";
import { defineCommand } from "../../kit/command.ts";
import { REPORT_OPTIONS, writeReport } from "../../kit/report_output.ts";

/** Probability below which a difference is no accident. */
const LEVEL = 0.05;
/** Percentage of answers without one beside them from which on a comparison is none. */
const MISSING = 5;

/** `canopy bench compare`: two evaluations over the same questions. */
export const benchCompareCommand = defineCommand({
  name: "bench compare",
  summary: "Compare two evaluations, answer by answer: what a change of models, engines or settings has done",
  arguments: "BEFORE AFTER",
  maxArguments: 2,
  options: {
    mode: {
      type: "list",
      value: "NAME[=NAME]",
      help:
        "Mode to compare, or the first file's with another one of the second; by default all that both have",
    },
    margin: {
      type: "number",
      value: "POINTS",
      min: 0,
      max: 100,
      fraction: true,
      help: "Loss of right answers, in percentage points, that has to be ruled out for exit code 0",
    },
    missing: {
      type: "number",
      value: "PERCENT",
      min: 0,
      max: 100,
      fraction: true,
      help:
        `Most answers of either file that may have none beside them for exit code 0; ${MISSING} by default`,
    },
    ...REPORT_OPTIONS,
  },
  details:
    `The files are those of bench eval --records. An answer that has none beside it in the other file, or could not be
checked, is in no figure: notes count them, and where they are more than --missing percent of a file's answers in a
mode on a set, the exit code is 1, since what is left may be the easy part.

The exit code is 1 where the second one is worse than an accident explains (McNemar's test, p < ${LEVEL}); with
--margin also where its 95 % interval does not rule out a loss of so many points. Where questions were asked several
times, both are over questions, not answers: p is then that of the exact sign-flip test.

Examples:
  canopy bench compare main.jsonl branch.jsonl
  canopy bench compare fig4.jsonl fig4.jsonl --mode 1-dense=4-exit --margin 1`,
  run: async (values, [before, after], io) => {
    if (before === undefined || after === undefined) {
      throw new UsageError("Needs two files of records: canopy bench compare BEFORE AFTER");
    }
    const read = (path: string) => readRecords(resolve(io.cwd, path));
    const kept = [read(before), read(after)] as const;
    const comparisons = compareRecords([kept[0].records, kept[1].records], modePairs(values.mode, kept));
    if (comparisons.every(({ answers }) => answers === 0)) {
      throw new UsageError("The two files have no question in common that both answered in these modes");
    }
    const { missing = MISSING } = values;
    const settings = [settingsOf(kept[0]), settingsOf(kept[1])] as const;
    await writeReport(
      compareReport(comparisons, {
        files: [before, after],
        otherSettings: differentSettings(kept[0].settings, kept[1].settings).map((one) =>
          one.name === ""
            ? `settings (${one.before}, ${one.after})`
            : `${one.name} (${one.before}, ${one.after})`
        ),
        leftModes: values.mode.length > 0 ? [[], []] : leftModes(kept),
        missing,
        simulated: settings.some(({ simulated }) => simulated === true),
      }),
      { ...values },
      io,
    );
    const isBad = comparisons.some((one) => isWorse(one, values.margin) || lacksAnswers(one, missing));
    return isBad ? 1 : 0;
  },
});

function isWorse(
  { answers, difference, p, interval }: RecordComparison,
  marginPoints: number | undefined,
): boolean {
  if (difference < 0 && p < LEVEL) return true;
  return answers > 0 && marginPoints !== undefined && interval.low < -marginPoints / 100;
}

/** Modes that only the first one, only the second one has. */
function leftModes([before, after]: readonly [KeptRecords, KeptRecords]): [string[], string[]] {
  const [first, second] = [modesOf(before), modesOf(after)];
  return [first.filter((mode) => !second.includes(mode)), second.filter((mode) => !first.includes(mode))];
}

function modesOf({ records }: KeptRecords): string[] {
  return [...new Set(records.map(({ mode }) => mode))];
}

/** The modes to compare. Throws `UsageError` for one that is not there. */
function modePairs(
  given: readonly string[],
  [before, after]: readonly [KeptRecords, KeptRecords],
): [string, string][] {
  const [first, second] = [modesOf(before), modesOf(after)];
  if (given.length === 0) return first.filter((mode) => second.includes(mode)).map((mode) => [mode, mode]);
  return given.map((text) => {
    // Names of modes have no equals sign of their own but where both files have them.
    const cut = first.includes(text) && second.includes(text) ? -1 : text.indexOf("=");
    const pair: [string, string] = cut < 0 ? [text, text] : [text.slice(0, cut), text.slice(cut + 1)];
    for (const [at, modes] of [first, second].entries()) {
      if (modes.includes(pair[at]!)) continue;
      throw new UsageError(
        `Option --mode: the ${at === 0 ? "first" : "second"} file has no mode "${pair[at]}": it has ${
          modes.join(", ")
        }`,
      );
    }
    return pair;
  });
}

function settingsOf({ settings }: KeptRecords): Readonly<Record<string, unknown>> {
  try {
    const read: unknown = JSON.parse(settings);
    return isJsonObject(read) ? read : { settings };
  } catch {
    return { settings };
  }
}
