import type { LaboratoryQuestion } from "../datasets/laboratory/question.ts";
import { gradeOf } from "./grade.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Router } from "../../router/router.ts";

/** One question answered in one way; times in ms, tokens of all agents. */
export interface LaboratoryRow {
  readonly condition: string;
  readonly question: string;
  readonly right: boolean;
  /** The final answer in a normal form; null where the text states none. */
  readonly stated: string | null;
  /** The whole answer; absent for a vote. */
  readonly text?: string | undefined;
  readonly latencyMs: number;
  /** Time to the first token that a client gets; absent for a vote, and in rows that were kept before it was noted. */
  readonly firstMs?: number | undefined;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly wastedTokens: number;
  readonly savedTokens: number;
  /** Decisions that could still spare something, and those that ended in an exit. */
  readonly decisions: number;
  readonly exits: number;
  /** Proposers whose answers went on, the number of different final answers among them, and whether one is right. */
  readonly leaves: number;
  readonly differentAnswers: number;
  readonly rightAmongLeaves: boolean;
}

/** What a run gave. */
export interface AskedRun {
  readonly text: string;
  readonly record: RunRecord;
  readonly logprobs: readonly number[];
}

/** Asks a graph; `seed` is that of the request: what is drawn for exits, and the root's where it draws. */
export async function askGraph(
  router: Router,
  graph: Graph,
  { question, seed, logprobs, signal }: {
    readonly question: string;
    readonly seed: number;
    readonly logprobs?: boolean | undefined;
    readonly signal: AbortSignal;
  },
): Promise<AskedRun> {
  const run = router.services.moa.start(graph, {
    question: { kind: "chat", messages: [{ role: "user", content: question }] },
    rootSampling: { seed },
    rootLogprobs: logprobs === true ? 0 : undefined,
    choices: 1,
  }, signal);
  let text = "";
  const found: number[] = [];
  for await (const event of run.output) {
    if (event.type !== "delta") continue;
    text += event.delta.text;
    for (const { logprob } of event.delta.logprobs ?? []) found.push(logprob);
  }
  await run.ended;
  const record = run.record();
  if (record.state !== "done") throw new Error(`A run of ${graph.name} failed: ${record.error?.message}`);
  return { text, record, logprobs: found };
}

/** The row of one run. */
export function rowOf(
  condition: string,
  question: LaboratoryQuestion,
  graph: Graph,
  { text, record }: AskedRun,
): LaboratoryRow {
  const { stated, right } = gradeOf(question, text);
  const { usage, exits } = record;
  const open = exits.filter(({ cluster, completions }) =>
    cluster === "run" || completions < (graph.clusters.find(({ id }) => id === cluster)?.agents.length ?? 0)
  );
  const leaves = graph.agents.filter(({ reads }) => reads.length === 0).flatMap(({ id }) =>
    record.agents.filter((agent) => agent.id === id && agent.state === "done")
  ).map((agent) => gradeOf(question, agent.text));
  return {
    condition,
    question: question.id,
    right,
    stated: stated?.value ?? null,
    text,
    latencyMs: record.durationMs ?? NaN,
    // Of a root that was skipped no word comes before the end.
    firstMs: record.agents.find(({ id }) => id === graph.root.id)?.firstTokenAtMs ?? record.durationMs,
    promptTokens: usage.promptTokens,
    completionTokens: usage.completionTokens,
    wastedTokens: usage.wastedTokens,
    savedTokens: usage.savedTokens ?? 0,
    decisions: open.length,
    exits: open.filter(({ exit }) => exit).length,
    leaves: leaves.length,
    differentAnswers: new Set(leaves.flatMap((leaf) => leaf.stated?.value ?? [])).size,
    rightAmongLeaves: leaves.some((leaf) => leaf.right),
  };
}

/** The row of several answers of one model that vote: the answer that most state, of several the one stated first. */
export function votedRow(
  condition: string,
  question: LaboratoryQuestion,
  runs: readonly AskedRun[],
  latencyMs: number,
): LaboratoryRow {
  const grades = runs.map(({ text }) => gradeOf(question, text));
  const counts = new Map<string, number>();
  for (const { stated } of grades) {
    if (stated !== undefined) counts.set(stated.value, (counts.get(stated.value) ?? 0) + 1);
  }
  const most = Math.max(0, ...counts.values());
  const winner = [...counts].find(([, count]) => count === most)?.[0];
  const sum = (of: (run: AskedRun) => number) => runs.reduce((total, run) => total + of(run), 0);
  return {
    condition,
    question: question.id,
    right: grades.some(({ stated, right }) => right && stated?.value === winner),
    stated: winner ?? null,
    latencyMs,
    promptTokens: sum(({ record }) => record.usage.promptTokens),
    completionTokens: sum(({ record }) => record.usage.completionTokens),
    wastedTokens: 0,
    savedTokens: 0,
    decisions: 0,
    exits: 0,
    leaves: runs.length,
    differentAnswers: counts.size,
    rightAmongLeaves: grades.some(({ right }) => right),
  };
}
