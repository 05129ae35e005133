import type { z } from "zod";
import { type EarlyExitConfig, earlyExitSchema, leastAnswers } from "../../cfgs/schema/early_exit.ts";
import { type LabelledGroup, randomAt, replay, type ReplayFigures } from "./replay.ts";

/** Settings as a file gives them: only what is not the default. */
export type WrittenSettings = z.input<typeof earlyExitSchema>;

/** Settings that were tried, what they did, and what `random` does with the same exit rate. */
export interface TuneCandidate {
  readonly name: string;
  readonly written: WrittenSettings;
  readonly figures: ReplayFigures;
  readonly random: ReplayFigures;
}

/** One set of settings for each metric as it is by default, and variants of each. */
export function tryCandidates(
  groups: readonly LabelledGroup[],
  { verdicts, seed }: { verdicts: boolean; seed: string },
): TuneCandidate[] {
  return variants(verdicts).map(({ name, written }) => {
    const settings: EarlyExitConfig = earlyExitSchema.parse(written);
    const figures = replay(groups, settings, seed);
    const random = randomAt(groups, figures.exitRate, leastAnswers(settings));
    return { name, written, figures, random };
  });
}

function variants(verdicts: boolean): { name: string; written: WrittenSettings }[] {
  const stops: [string, Pick<WrittenSettings, "answer">][] = [
    ["", {}],
    [", window of 2", { answer: { stop: "window", window: 2 } }],
    [", window of 3", { answer: { stop: "window", window: 3 } }],
    [", posterior 0.8", { answer: { stop: "posterior", level: 0.8 } }],
    [", posterior 0.9", { answer: { stop: "posterior", level: 0.9 } }],
  ];
  const q = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8].flatMap((tau) =>
    [0.6, 0.7, 0.8, 0.9].map((threshold) => ({
      name: `q, tau ${tau}, threshold ${threshold}`,
      written: { metric: "q", tau, decide: "threshold", threshold } as const,
    }))
  );
  const judged = [0.5, 0.7, 0.9].map((threshold) => ({
    name: `verdict${threshold === 0.5 ? "" : `, threshold ${threshold}`}`,
    written: { metric: "verdict", verdict: { threshold } } as const,
  }));
  return [
    { name: "q", written: { metric: "q" } },
    { name: "q, as printed", written: { metric: "q", paper_literal: true } },
    ...q,
    ...stops.map(([name, stop]) => ({
      name: `answer${name}`,
      written: { metric: "answer", ...stop } as const,
    })),
    ...(verdicts ? judged : []),
    ...stops.map(([name, stop]) => ({
      name: `agreement${name}`,
      written: { metric: "agreement", ...stop } as const,
    })),
    ...[0, 0.1, 0.3].map((veto) => ({
      name: `agreement, veto below ${veto}`,
      written: { metric: "agreement", veto_below: veto } as const,
    })),
    { name: "random", written: { metric: "random" } },
  ];
}
