import { type Report, shareText } from "../../../bench/report/report.ts";
import { riskBound } from "../../../bench/statistics/risk_control.ts";
import type { RecordedRuns } from "./recorded_run.ts";
import type { TriedRule, WrittenRules } from "./run_rules.ts";
import type { RiskGoal, TunedRuns } from "./tune_runs.ts";

/** Results of `canopy tune --risk`. */
export interface RunReportOptions {
  readonly file: string;
  readonly recorded: RecordedRuns;
  readonly goal: RiskGoal;
  readonly tuned: TunedRuns;
  /** The chosen rule as a configuration has it. */
  readonly rules: WrittenRules | undefined;
}

/** The result as a table and a plot. */
export function wholeRunReport({ file, recorded, goal, tuned, rules }: RunReportOptions): Report {
  const { tried, safe, chosen, learnedFrom } = tuned;
  const { runs, left, labelled } = recorded;
  const bound = ({ losses, runs }: TriedRule) => riskBound(losses, runs, goal.confidence);
  const wrong = labelled
    ? "worse: the run answers wrong where the whole run was right"
    : "worse: the run answers other than the whole run does; the records have no labels";
  return {
    title: "What each rule would have done to whole runs",
    origin: `Replayed: ${runs.length} runs of ${file}${
      left === 0 ? "" : `; ${left} more that did not go on to their end are left out`
    }`,
    tables: [{
      title: "Rules for early_exit.consensus",
      head: [
        "rule",
        "runs",
        "exits",
        "worse",
        `at most (${shareText(goal.confidence, 0)} sure)`,
        "time saved",
        "tokens saved",
      ],
      rows: tried.map((rule) => [
        `${rule.name}${rule === chosen ? " (chosen)" : safe.includes(rule) ? " (safe)" : ""}`,
        String(rule.runs),
        shareText(rule.exits / rule.runs),
        shareText(rule.losses / rule.runs),
        shareText(bound(rule)),
        shareText(rule.timeSaved),
        shareText(rule.tokensSaved),
      ]),
    }],
    notes: [
      wrong,
      "An answer counts at the end of its text; in service it does as soon as it is announced, which is sooner",
      learnedFrom === 0
        ? "Too few runs to learn skills from some and test on others: no rule with a posterior was tried"
        : `Skills were learned from ${learnedFrom} runs, and rules that use them tried on the others`,
      sentenceOf(chosen, goal, rules),
    ],
    plot: plotOf(tried),
    data: {
      file,
      runs: runs.length,
      left,
      labelled,
      goal,
      tried,
      safe: safe.map(({ name }) => name),
      chosen: rules ?? null,
    },
  };
}

function sentenceOf(
  chosen: TriedRule | undefined,
  { risk, confidence }: RiskGoal,
  rules: WrittenRules | undefined,
): string {
  if (chosen === undefined) {
    return `No rule keeps the risk of ${shareText(risk)} with ${
      shareText(confidence, 0)
    } confidence: leave scope run off, ` +
      "allow more, or record more runs";
  }
  return `With ${shareText(confidence, 0)} confidence at most ${
    shareText(risk)
  } of the runs are made worse, from ` +
    `${chosen.runs} runs, as long as questions are like these; ${
      shareText(chosen.timeSaved)
    } of the time is saved. ` +
    `"early_exit": ${JSON.stringify({ scope: "run", consensus: rules })}`;
}

function plotOf(tried: readonly TriedRule[]): Report["plot"] {
  const values = tried.map((rule) => ({
    rule: rule.name.startsWith("posterior") ? "posterior" : "agree",
    name: rule.name,
    saved: rule.timeSaved,
    worse: rule.losses / rule.runs,
  }));
  return {
    width: 460,
    height: 300,
    data: { values },
    mark: { type: "point", filled: true, size: 60 },
    encoding: {
      x: { field: "saved", type: "quantitative", title: "time saved", axis: { format: ".0%" } },
      y: { field: "worse", type: "quantitative", title: "runs made worse", axis: { format: ".1%" } },
      color: { field: "rule", type: "nominal", title: null },
    },
  };
}
