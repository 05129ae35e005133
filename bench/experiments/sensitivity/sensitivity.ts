import type { Clock } from "../../../base/clock.ts";
import { meanOf } from "../../statistics/statistics.ts";
import type { QuestionLengths } from "../workload.ts";
import type { BenchWorkload } from "../workloads/workload_file.ts";
import {
  assumedQuestions,
  ASSUMPTION_CHANGES,
  type AssumptionChange,
  type Assumptions,
  BASE_ASSUMPTIONS,
} from "./assumptions.ts";
import { costTrial } from "./costed_trial.ts";
import type { ModelCosts } from "../world.ts";

/** The cuts of the latency against #1 that the paper gives as its greatest ones. */
export const PAPER_CUTS = [
  { mode: "#2", share: 0.62 },
  { mode: "#3", share: 0.76 },
  { mode: "#4", share: 0.9 },
] as const;

type CutMode = (typeof PAPER_CUTS)[number]["mode"];

/** Options of `measureSensitivity`. */
export interface SensitivityOptions {
  readonly workload: BenchWorkload;
  readonly questions: number;
  readonly seed: string;
  readonly costs?: ModelCosts | undefined;
  /** Of the machine: it gives others their turns. */
  readonly clock: Clock;
  readonly signal: AbortSignal;
  readonly onPart?: (name: string) => void;
}

/** Cuts under one set of assumptions, as shares of #1's latency. */
export interface SensitivityRow {
  /** Names of the assumptions that differ from the base. */
  readonly changes: readonly string[];
  /** Mean latency of #1 in ms. */
  readonly denseMs: number;
  /** Of the mean latencies. */
  readonly cuts: Readonly<Record<CutMode, number>>;
  /** The greatest cut of a single question. */
  readonly greatest: Readonly<Record<CutMode, number>>;
}

/** How far assumptions that help add up towards one of the paper's cuts. */
export interface CutSearch {
  readonly mode: CutMode;
  readonly share: number;
  /** Whether what the paper states was kept: one question at a time. */
  readonly asStated: boolean;
  readonly reached: boolean;
  /** The base, then with one more change in each: always that which adds most. */
  readonly steps: readonly SensitivityRow[];
}

/** Outcome of `measureSensitivity`. */
export interface Sensitivity {
  readonly workload: string;
  readonly questions: number;
  readonly base: SensitivityRow;
  /** Each with one change. */
  readonly alone: readonly SensitivityRow[];
  readonly searches: readonly CutSearch[];
}

/** The cuts of modes #2 to #4 under the base assumptions, under each change alone, and under those that help together. */
export async function measureSensitivity(options: SensitivityOptions): Promise<Sensitivity> {
  const known = new Map<string, SensitivityRow>();
  const rowOf = async (changes: readonly AssumptionChange[]): Promise<SensitivityRow> => {
    const name = changes.map((change) => change.name).sort().join("; ");
    const found = known.get(name);
    if (found !== undefined) return found;
    options.signal.throwIfAborted();
    options.onPart?.(name === "" ? "base" : name);
    const row = costRow(changes, options);
    known.set(name, row);
    // Costing is one long computation: signals of the process, such as a stop, have their turn in between.
    await options.clock.sleep(0);
    return row;
  };
  const base = await rowOf([]);
  const alone: SensitivityRow[] = [];
  for (const change of ASSUMPTION_CHANGES) alone.push(await rowOf([change]));
  const searches: CutSearch[] = [];
  for (const asStated of [true, false]) {
    for (const { mode, share } of PAPER_CUTS) {
      const search = await searchCut({ mode, share, asStated, base, rowOf });
      // What is reached as stated needs nothing else.
      if (asStated || !searches.some((one) => one.mode === mode && one.reached)) searches.push(search);
    }
  }
  return { workload: options.workload.name, questions: options.questions, base, alone, searches };
}

async function searchCut({ mode, share, asStated, base, rowOf }: {
  readonly mode: CutMode;
  readonly share: number;
  readonly asStated: boolean;
  readonly base: SensitivityRow;
  readonly rowOf: (changes: readonly AssumptionChange[]) => Promise<SensitivityRow>;
}): Promise<CutSearch> {
  const steps = [base];
  let chosen: readonly AssumptionChange[] = [];
  let last = base;
  while (last.cuts[mode] < share) {
    let best: { readonly changes: readonly AssumptionChange[]; readonly row: SensitivityRow } | undefined;
    for (const change of ASSUMPTION_CHANGES) {
      if (change.against === "bound" || (asStated && change.against === "stated")) continue;
      if (chosen.some(({ subject }) => subject === change.subject)) continue;
      const changes = [...chosen, change];
      const row = await rowOf(changes);
      if (row.cuts[mode] > (best?.row ?? last).cuts[mode] + LEAST_GAIN) best = { changes, row };
    }
    if (best === undefined) break;
    chosen = best.changes;
    last = best.row;
    steps.push({ ...last, changes: chosen.map(({ name }) => name) });
  }
  return { mode, share, asStated, reached: last.cuts[mode] >= share, steps };
}

/** A change that adds less is left out. */
const LEAST_GAIN = 0.005;

function costRow(
  changes: readonly AssumptionChange[],
  { workload, questions: count, seed, costs }: SensitivityOptions,
): SensitivityRow {
  const assumptions = changes.reduce(
    (all: Assumptions, { change }) => ({ ...all, ...change }),
    BASE_ASSUMPTIONS,
  );
  const latencies = costModes(assumptions, assumedQuestions(workload, assumptions, { count, seed }), {
    seed,
    costs,
  });
  const dense = latencies["#1"];
  const cut = (of: (values: readonly number[]) => number) => (mode: CutMode) => of(latencies[mode]);
  const meanCut = cut((values) => 1 - meanOf(values) / meanOf(dense));
  const greatest = cut((values) => Math.max(...values.map((value, at) => 1 - value / (dense[at] ?? NaN))));
  return {
    changes: changes.map(({ name }) => name),
    denseMs: meanOf(dense),
    cuts: { "#2": meanCut("#2"), "#3": meanCut("#3"), "#4": meanCut("#4") },
    greatest: { "#2": greatest("#2"), "#3": greatest("#3"), "#4": greatest("#4") },
  };
}

/** Latencies of each question in each mode, in ms. */
function costModes(
  { serving, atOnce, readTokens, exit }: Assumptions,
  questions: readonly QuestionLengths[],
  { seed, costs }: Pick<SensitivityOptions, "seed" | "costs">,
): Readonly<Record<"#1" | CutMode, readonly number[]>> {
  const trial = (
    graph: "dense" | "tree",
    pairs: boolean,
    more: { overlap?: boolean; exits?: boolean } = {},
  ) =>
    costTrial({
      graph,
      pairs,
      overlap: more.overlap === true,
      exit: more.exits === true ? exit : undefined,
      atOnce,
      readTokens,
      questions,
      seed,
      costs,
    });
  const pairs = serving !== "single";
  const dense = trial("dense", serving === "pairs");
  const tree = trial("tree", serving === "pairs");
  const overlap = trial("tree", pairs, { overlap: true });
  const exits = trial("tree", pairs, { overlap: true, exits: true });
  if (serving !== "joined") return { "#1": dense, "#2": tree, "#3": overlap, "#4": exits };
  // Two stacks, joined at the mode that both have: what #3 and #4 take of #2's time on pairs, of #2's time here.
  const treeOnPairs = trial("tree", true);
  const joined = (values: readonly number[]) =>
    values.map((value, at) => value / (treeOnPairs[at] ?? NaN) * (tree[at] ?? NaN));
  return { "#1": dense, "#2": tree, "#3": joined(overlap), "#4": joined(exits) };
}
