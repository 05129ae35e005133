import {
  type Diversity,
  DIVERSITY_MEASURES,
  type DiversityFigures,
  type DiversityMeasure,
} from "../../evaluation/diversity/diversity.ts";
import { countText, type Report, type ReportTable } from "../report.ts";
import type { SetLabel } from "./spending_tables.ts";

/** Measures of diversity, and what they were taken with. */
export interface ReportedDiversity extends Diversity {
  /** The embedder, for people. */
  readonly embedder: string;
}

const NAMES: Readonly<Record<DiversityMeasure, string>> = {
  distinct1: "distinct-1",
  distinct2: "distinct-2",
  distinct3: "distinct-3",
  selfBleu: "self-BLEU",
  spread: "spread",
};

/** How unlike answers to one prompt are; none where no prompt was answered several times. */
export function diversityTables({ figures, differences }: Diversity, labelOf: SetLabel): ReportTable[] {
  const names = DIVERSITY_MEASURES.map((measure) => NAMES[measure]);
  return [
    {
      title: "How unlike answers to one prompt are",
      head: ["set", "mode", "prompts", "answers", "words", ...names],
      rows: figures.map((one) => [
        labelOf(one.set),
        one.mode,
        countText(one.prompts),
        countText(one.answers),
        countText(one.words),
        ...DIVERSITY_MEASURES.map((measure) => measureText(one[measure])),
      ]),
    },
    {
      title: `Beside ${differences[0]?.against ?? ""}, over the same prompts`,
      head: ["set", "mode", "prompts", ...names.flatMap((name) => [name, "95 %"])],
      rows: differences.map((one) => [
        labelOf(one.set),
        one.mode,
        countText(one.prompts),
        ...DIVERSITY_MEASURES.flatMap((measure) => {
          const { difference, interval } = one.differences[measure];
          return [signedText(difference), `${signedText(interval.low)} – ${signedText(interval.high)}`];
        }),
      ]),
    },
  ].filter(({ rows }) => rows.length > 0);
}

/** What stands below these tables. */
export function diversityNotes({ figures, embedder }: ReportedDiversity): string[] {
  if (figures.length === 0) {
    return [
      "how unlike answers to an open-ended prompt are is told where it was asked several times: --repeats 4",
    ];
  }
  return [
    "distinct-n: of all runs of n words in the answers to one prompt the share that are different ones (longer answers have fewer); self-BLEU: BLEU-4 of an answer with the others to its prompt as references, 1 where all say the same; means over prompts; beside the first mode: the difference, with the interval of the paired bootstrap over prompts",
    `spread: one less the cosine of two answers' embeddings, the mean over pairs; embedder: ${embedder}`,
  ];
}

/** Measures of each mode, a column for each measure, and a row for each set where there are several. */
export function diversityPlot(
  figures: readonly DiversityFigures[],
  modes: readonly string[],
  labelOf: SetLabel,
): Report["plot"] {
  const values = figures.flatMap((one) =>
    DIVERSITY_MEASURES.map((measure) => ({
      set: labelOf(one.set),
      mode: one.mode,
      measure: NAMES[measure],
      value: one[measure],
    }))
  );
  const sets = [...new Set(figures.map(({ set }) => labelOf(set)))];
  return {
    data: { values },
    facet: {
      ...sets.length < 2 ? {} : {
        row: { field: "set", type: "nominal" as const, sort: sets, header: { title: null, labelAngle: 0 } },
      },
      column: {
        field: "measure",
        type: "nominal",
        sort: DIVERSITY_MEASURES.map((measure) => NAMES[measure]),
        header: { title: null },
      },
    },
    spec: {
      width: 130,
      mark: { type: "bar" },
      encoding: {
        x: { field: "value", type: "quantitative", title: null },
        y: { field: "mode", type: "nominal", sort: [...modes], title: null },
      },
    },
  };
}

function measureText(value: number): string {
  return Number.isFinite(value) ? value.toFixed(3) : "–";
}

function signedText(value: number): string {
  return Number.isFinite(value) ? `${value < 0 ? "" : "+"}${value.toFixed(3)}` : "–";
}
