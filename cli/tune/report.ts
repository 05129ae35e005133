import { ratioText, type Report, shareText } from "../../bench/report/report.ts";
import type { TuneCandidate } from "./candidates.ts";
import type { PairFigures } from "./pairs.ts";
import { type LabelledGroup, randomAt } from "./replay.ts";
import { type SuggestionOrReason, suggestionText } from "./suggestion.ts";

/** Results of `canopy tune`. */
export interface TuneResult {
  readonly origin: string;
  /** Origin of the labels, as a sentence. */
  readonly labels: string;
  readonly groups: readonly LabelledGroup[];
  readonly pairs: readonly PairFigures[];
  readonly candidates: readonly TuneCandidate[];
  readonly suggested: SuggestionOrReason;
  readonly mostWrong: number;
}

/** The result as tables and a plot. */
export function tuneReport(result: TuneResult): Report {
  const { pairs, candidates, suggested, mostWrong, groups } = result;
  const { suggestion } = suggested;
  const best = suggestion?.candidate;
  const shown = candidates.filter(({ name }) => !name.includes("threshold") || name === best?.name);
  return {
    title: "What each exit metric would have done",
    origin: result.origin,
    tables: [
      {
        title: "Pairs of answers: what each number tells apart",
        head: ["number", "agree/disagree AUC", "topic AUC", "agree", "disagree", "other question"],
        rows: pairs.map((figures) => [
          figures.metric,
          ...[
            figures.agreeAuc,
            figures.topicAuc,
            figures.agreeMedian,
            figures.disagreeMedian,
            figures.unrelatedMedian,
          ]
            .map(ratioText),
        ]),
      },
      {
        title: "Exits, and in brackets those of random with the same exit rate",
        head: ["metric", "exits", "wrong exits", "answers saved", "time saved"],
        rows: shown.map(({ name, figures, random }) => [
          name === best?.name ? `${name} (best)` : name,
          shareText(figures.exitRate),
          `${shareText(figures.wrongRate)} (${shareText(random.wrongRate)})`,
          `${shareText(figures.answersSaved)} (${shareText(random.answersSaved)})`,
          `${shareText(figures.timeSaved)} (${shareText(random.timeSaved)})`,
        ]),
      },
    ],
    notes: [
      result.labels,
      "AUC: probability that a pair of the one kind has the higher number than one of the other; 0.5 is chance",
      "wrong exit: the majority of the answers that go on is not the majority of all answers",
      suggested.suggestion === undefined
        ? suggested.reason
        : suggestionText(suggested.suggestion, mostWrong, candidates.length),
      `Groups: ${groups.length}; one more wrong exit is ${
        shareText(1 / groups.length)
      } of them: few groups say little`,
    ],
    plot: plotOf(result),
    data: {
      origin: result.origin,
      labels: result.labels,
      groups: groups.length,
      most_wrong: mostWrong,
      pairs,
      candidates,
      suggested: suggestion === undefined ? null : {
        early_exit: suggestion.candidate.written,
        groups: suggestion.groups,
        exits: suggestion.exits,
        wrong: { ...suggestion.wrong, mean: suggestion.candidate.figures.wrongRate },
        saved: suggestion.saved,
        saved_over_chance: suggestion.overChance,
      },
    },
  };
}

function plotOf({ candidates, groups }: TuneResult): Report["plot"] {
  const points = candidates.filter(({ figures, written }) =>
    figures.exitRate > 0 && written.metric !== "random"
  )
    .map(({ name, written, figures }) => ({
      name,
      metric: written.metric ?? "none",
      exits: figures.exitRate,
      wrong: figures.wrongRate,
    }));
  const line = Array.from({ length: 50 }, (_, index) => (index + 1) / 50).map((exits) => ({
    metric: "random",
    exits,
    wrong: randomAt(groups, exits, 2).wrongRate,
  }));
  const domain = [...new Set(points.map(({ metric }) => metric)), "random"];
  const encoding = {
    x: { field: "exits", type: "quantitative" as const, title: "groups that exit", axis: { format: ".0%" } },
    y: {
      field: "wrong",
      type: "quantitative" as const,
      title: "of the exits wrong",
      axis: { format: ".0%" },
    },
    color: { field: "metric", type: "nominal" as const, title: null, scale: { domain } },
  };
  return {
    width: 460,
    height: 300,
    layer: [
      { data: { values: line }, mark: { type: "line", strokeDash: [4, 3] }, encoding },
      { data: { values: points }, mark: { type: "point", filled: true, size: 60 }, encoding },
    ],
  };
}
