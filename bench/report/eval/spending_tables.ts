import type { EvalFigures } from "../../evaluation/eval_figures.ts";
import type { NormalisedFigures } from "../../evaluation/normalised.ts";
import { countText, durationText, ratioText, type ReportTable, shareText } from "../report.ts";
import { ratioIntervalText } from "./paired_texts.ts";

/** Names of sets for people. */
export type SetLabel = (set: string) => string;

/** Tables of times, tokens and costs of an answer; those that nothing tells anything for are left out. */
export function spendingTables(figures: readonly EvalFigures[], labelOf: SetLabel): ReportTable[] {
  return [
    readingTable(figures, labelOf),
    workTable(figures, labelOf),
    modelTable(figures, labelOf),
    layerTable(figures, labelOf),
  ].filter(({ rows }) => rows.length > 0);
}

/** What stands below these tables. */
export function spendingNotes(
  figures: readonly EvalFigures[],
  { simulated }: { readonly simulated: boolean },
) {
  const isAny = (has: (one: EvalFigures) => boolean) => figures.some(has);
  return [
    ...isAny(hasReading)
      ? [
        "as it is read: time to the answer's first text; ITL (inter-token latency): between two pieces of text, over all pieces of all answers (an engine that streams several tokens at once has fewer and longer ones); TPOT (time per output token): for each token after the first text; answers that are chosen from several come in one piece",
      ]
      : [],
    ...isAny(({ work }) => work !== undefined)
      ? [
        "first word: until the answer's first text, of answers that are chosen from several the whole time; read, cached: prompt tokens of all calls, and the share of them that was found in a cache; wasted: written, and read by nobody; saved: estimate of what exits spared; cost: of the tokens, by the price table or else the models' prices, – where one has none",
        `GPU: seconds of ${
          simulated ? "simulated " : ""
        }GPUs for an answer: those of a server count while a call or warm of the answer is under way on it, calls at the same time once; GPUs that wait, or work for other questions, are in it only as far as they share these seconds`,
      ]
      : [],
    ...isAny(({ layers }) => layers.length > 0)
      ? [
        "critical path: from the agent whose end was the answer back to the one it waited for last, and so on; exposed: from the end of the one before to the first token, writing: from then on; used: agents whose text was used, of all",
      ]
      : [],
    ...figures.filter(({ runs, work, answers, layers }) =>
      work?.graph === true && layers.length > 0 && runs < answers
    ).map(({ set, mode, runs, answers }) =>
      `${set}, ${mode}: of ${countText(answers)} answers the runs of ${
        countText(runs)
      } are known: layers and used are of these`
    ),
    ...isAny(({ work, runs }) => work?.graph === true && runs === 0)
      ? [
        "– for GPU and layers: the server keeps no records of runs (server.max_runs_kept), or does not show them to this key",
      ]
      : [],
  ];
}

function hasReading({ reading }: EvalFigures): boolean {
  return !Number.isNaN(reading.itlMs.mean);
}

function readingTable(figures: readonly EvalFigures[], labelOf: SetLabel): ReportTable {
  return {
    title: "As it is read",
    head: ["set", "mode", "first word", "ITL mean", "p50", "p90", "p99", "longest", "TPOT"],
    rows: figures.filter(hasReading).map(({ set, mode, ttftMs, reading: { itlMs, tpotMs } }) => [
      labelOf(set),
      mode,
      ...[ttftMs, itlMs.mean, itlMs.p50, itlMs.p90, itlMs.p99, itlMs.max, tpotMs].map(durationText),
    ]),
  };
}

/** What answers took, on average. */
function workTable(figures: readonly EvalFigures[], labelOf: SetLabel): ReportTable {
  const isRented = figures.some(({ gpuCost }) => gpuCost !== null);
  return {
    title: "What an answer took",
    head: [
      ...[
        "set",
        "mode",
        "first word",
        "calls",
        "read",
        "cached",
        "written",
        "wasted",
        "saved",
        "cost",
        "GPU",
      ],
      ...isRented ? ["GPU cost"] : [],
    ],
    rows: figures.flatMap((one) => {
      const { work, answers } = one;
      if (work === undefined) return [];
      return [[
        labelOf(one.set),
        one.mode,
        durationText(one.ttftMs),
        (work.calls / answers).toFixed(1),
        countText(one.promptTokens),
        work.cachedTokens === null ? "–" : shareText(work.cachedTokens / answers / one.promptTokens),
        countText(one.completionTokens),
        countText(work.wastedTokens / answers),
        countText(work.savedTokens / answers),
        costText(one.tokenCost),
        secondsText(one.gpuSeconds),
        ...isRented ? [costText(one.gpuCost)] : [],
      ]];
    }),
  };
}

function modelTable(figures: readonly EvalFigures[], labelOf: SetLabel): ReportTable {
  return {
    title: "By model",
    head: ["set", "mode", "model", "calls", "used", "read", "cached", "written", "of all written", "GPU"],
    rows: figures.flatMap(({ set, mode, models }) =>
      models.map((one) => [
        labelOf(set),
        mode,
        one.model,
        one.calls.toFixed(1),
        shareText(one.usedShare ?? NaN, 0),
        countText(one.promptTokens),
        shareText((one.cachedTokens ?? NaN) / one.promptTokens),
        countText(one.completionTokens),
        shareText(one.writtenShare, 0),
        secondsText(one.gpuSeconds),
      ])
    ),
  };
}

function layerTable(figures: readonly EvalFigures[], labelOf: SetLabel): ReportTable {
  return {
    title: "Along the critical path",
    head: ["set", "mode", "layer", "agents", "used", "exposed", "writing", "ends", "of the time"],
    rows: figures.flatMap(({ set, mode, layers }) => {
      const all = layers.reduce((sum, { exposedMs, writingMs }) => sum + exposedMs + writingMs, 0);
      return layers.map((one) => [
        labelOf(set),
        mode,
        String(one.layer),
        one.agents.toFixed(1),
        one.used.toFixed(1),
        durationText(one.exposedMs),
        durationText(one.writingMs),
        durationText(one.endedMs),
        shareText((one.exposedMs + one.writingMs) / all),
      ]);
    }),
  };
}

/** Figures divided by those of the mode that is #2; none where there is none. */
export function normalisedTables(figures: readonly NormalisedFigures[], labelOf: SetLabel): ReportTable[] {
  const [first] = figures;
  if (first === undefined) return [];
  return [{
    title: `Divided by ${first.by}, over the same answers`,
    head: [
      ...[
        "set",
        "mode",
        "answers",
        "latency",
        "95 %",
        "first word",
        "TPOT",
        "calls",
        "read",
        "written",
        "wasted",
      ],
      ...["GPU", "cost", "right"],
    ],
    rows: figures.map((one) =>
      [
        labelOf(one.set),
        one.mode,
        countText(one.answers),
        ratioText(one.latency),
        ratioIntervalText(one.latencyBootstrap.interval),
        ...[one.ttft, one.tpot, one.calls, one.promptTokens, one.completionTokens],
        ...[one.wastedTokens, one.gpuSeconds, one.tokenCost, one.accuracy],
      ].map((cell) => typeof cell === "number" ? ratioText(cell) : cell)
    ),
  }];
}

function costText(cost: number | null): string {
  return cost === null ? "–" : cost.toPrecision(3);
}

function secondsText(seconds: number | null): string {
  return seconds === null ? "–" : `${seconds.toFixed(2)} s`;
}
