import { denseGraph, LABORATORY_SIZES, singleGraph, treeGraph } from "./laboratory_graphs.ts";

/** A part of the experiment that can be left out. */
export type LaboratoryPart = "singles" | "samples" | "modes" | "staircase" | "exits" | "predictors";

/** One way to answer questions: a graph, or several answers of one that vote. */
export interface Condition {
  readonly name: string;
  readonly part: LaboratoryPart;
  readonly graph: Readonly<Record<string, unknown>>;
  /** Answers that vote; the first of the most frequent ones is the answer. */
  readonly samples?: number | undefined;
  /** Of chance: the condition as often as which it exits. */
  readonly asOftenAs?: string | undefined;
}

/** Names of conditions that others are compared with. */
export const DENSE = "#1 dense 9-9-1";
export const TREE = "#2 tree 9-3-1";
export const OVERLAPPED = "#3 tree, incremental prefill";
export const STAIRCASE = "#3 with a staircase root";
export const STAIRCASE_OF_ALL = "#3 with a staircase of all layers";
export const BEST_SINGLE = `${LABORATORY_SIZES.at(-1)} alone`;

/**
 * Steps for answers of some 60 tokens: the sizes that are usual for long ones would never be reached. The laboratory's
 * models end a short solution with its result, so that few words are written ahead of it.
 */
const SMALL_STEPS = { first_tokens: 2, chunk_tokens: 12, steps: 4, write_tokens: 4, ahead_tokens: 8 };

/** How often the largest model is asked for self-consistency. */
const SAMPLES = [3, 5, 9, 13, 19];

/** The metrics of early exit by name; `true`: chance at its rate is measured, too. */
const EXITS: readonly (readonly [string, Readonly<Record<string, unknown>>, boolean])[] = [
  ["q, as printed", { metric: "q", paper_literal: true }, true],
  ["q, ours", { metric: "q" }, true],
  ["q ≥ 0.6", { metric: "q", decide: "threshold", threshold: 0.6 }, false],
  ["q ≥ 0.7", { metric: "q", decide: "threshold", threshold: 0.7 }, false],
  ["q ≥ 0.8", { metric: "q", decide: "threshold", threshold: 0.8 }, true],
  ["q ≥ 0.9", { metric: "q", decide: "threshold", threshold: 0.9 }, false],
  ["answer", { metric: "answer" }, true],
  ["answer, posterior 0.8", { metric: "answer", answer: { stop: "posterior", level: 0.8 } }, false],
  ["answer, posterior 0.95", { metric: "answer", answer: { stop: "posterior", level: 0.95 } }, false],
  ["agreement", { metric: "agreement" }, true],
  ...[3, 4, 5].map((agree) =>
    [`run, ${agree} agree`, { scope: "run", consensus: { agree } }, false] as const
  ),
  ["first answer, whatever it is", { metric: "random", probability: 1, min_agents: 1 }, false],
];

/** Name of a condition of mode #4. */
export function exitName(exit: string): string {
  return `#4 ${exit}`;
}

/** All conditions of the parts in their order; agents of modes #2 to #4 have the same seeds. */
export function conditionsOf(parts: ReadonlySet<LaboratoryPart>, seed: number): Condition[] {
  const tree = (earlyExit?: Readonly<Record<string, unknown>>) =>
    treeGraph({ seed, prefill: true, earlyExit });
  const all: Condition[] = [
    ...LABORATORY_SIZES.map((size): Condition => ({
      name: `${size} alone`,
      part: "singles",
      graph: singleGraph(size),
    })),
    { name: DENSE, part: "modes", graph: denseGraph({ seed }) },
    { name: TREE, part: "modes", graph: treeGraph({ seed }) },
    { name: OVERLAPPED, part: "modes", graph: tree() },
    ...(["root", "all"] as const).map((climbs): Condition => ({
      name: climbs === "root" ? STAIRCASE : STAIRCASE_OF_ALL,
      part: "staircase",
      graph: { ...tree(), root: "staircase", staircase: { ...SMALL_STEPS, climbs } },
    })),
    ...SAMPLES.map((samples): Condition => ({
      name: `${LABORATORY_SIZES.at(-1)}, vote of ${samples}`,
      part: "samples",
      graph: sampledGraph(LABORATORY_SIZES.at(-1)!),
      samples,
    })),
    ...EXITS.flatMap(([exit, settings, chance]): Condition[] => {
      const own: Condition = { name: exitName(exit), part: "exits", graph: tree(settings) };
      // The probability is known when its yardstick has been measured.
      const asOftenAs = exitName(exit);
      const random: Condition = { ...own, name: `#4 chance, as often as ${exit}`, asOftenAs };
      return chance ? [own, random] : [own];
    }),
  ];
  return all.filter(({ part }) => parts.has(part));
}

/** The same agents, with exits by chance. */
export function chanceGraph(probability: number, seed: number): Readonly<Record<string, unknown>> {
  return treeGraph({ seed, prefill: true, earlyExit: { metric: "random", probability } });
}

/** One model whose tokens are drawn as those of proposers. */
export function sampledGraph(model: string): Record<string, unknown> {
  return { ...singleGraph(model), sampling: { temperature: 0.7, max_tokens: 160 } };
}
