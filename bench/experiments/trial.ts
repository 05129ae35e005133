import { askAll, type QuestionArrivals } from "./workloads/question_arrivals.ts";
import { type RunFigures, runFigures } from "./figures.ts";
import { type GraphSettings, withAnswerLengths } from "./graphs.ts";
import type { WorkloadQuestion } from "./workload.ts";
import { type EngineWork, makeExperimentWorld, type ModelCosts, type Serving } from "./world.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Router } from "../../router/router.ts";

/** Options of `runTrial`: one experiment on one graph. */
export interface TrialOptions {
  readonly serving: Serving;
  readonly version?: string | undefined;
  readonly costs?: ModelCosts | undefined;
  readonly stepTokens?: number | undefined;
  readonly seed: string;
  readonly graph: GraphSettings;
  readonly questions: readonly WorkloadQuestion[];
  readonly concurrency: QuestionArrivals;
  /** Ends the experiment between two questions. */
  readonly signal: AbortSignal;
}

/** Outcome of a trial: the figures of each question, in their order. */
export interface Trial {
  readonly gpus: number;
  readonly runs: readonly RunFigures[];
  /** From the first question to the last answer, in ms. */
  readonly makespanMs: number;
  readonly work: EngineWork;
  /** Events of the traces that speak of warming, by type. */
  readonly warmEvents: Readonly<Record<string, number>>;
  /** Count of warms that were held back because their server was busy with prompts or answers. */
  readonly warmsHeldBack: number;
}

/** Name of the graph in a trial's configuration. */
const GRAPH = "g";

/** Asks all questions of a graph in a world of its own, in virtual time. The same options give the same figures. */
export async function runTrial(options: TrialOptions): Promise<Trial> {
  const { serving, version, costs, stepTokens, seed, questions, concurrency, signal } = options;
  const world = makeExperimentWorld({
    serving,
    version,
    costs,
    stepTokens,
    seed,
    graphs: { [GRAPH]: options.graph },
  });
  const runs: RunFigures[] = [];
  const warmEvents: Record<string, number> = {};
  let warmsHeldBack = 0;
  let makespanMs = 0;
  let work: EngineWork | undefined;
  await world.clock.run(async () => {
    const router = world.router();
    try {
      await router.ready();
      const before = world.work();
      const startMs = world.clock.now();
      const { clock } = world;
      await askAll({ count: questions.length, arrivals: concurrency, seed, clock, signal }, async (index) => {
        const { graph, record } = await ask(router, questions[index]!, signal);
        runs[index] = runFigures(graph, record);
        for (const { type, data } of record.events) {
          if (type.startsWith("warm_")) warmEvents[type] = (warmEvents[type] ?? 0) + 1;
          if (typeof data?.["yielded"] === "number") warmsHeldBack += data["yielded"];
        }
      });
      makespanMs = world.clock.now() - startMs;
      work = difference(world.work(), before);
    } finally {
      await router.close();
    }
  });
  return { gpus: world.gpus, runs, makespanMs, work: work ?? world.work(), warmEvents, warmsHeldBack };
}

async function ask(
  router: Router,
  question: WorkloadQuestion,
  signal: AbortSignal,
): Promise<{ graph: Graph; record: RunRecord }> {
  const { moa } = router.services;
  const served = moa.graphs.get(GRAPH);
  if (served === undefined) throw new Error(`Cannot ask: the router does not serve the graph "${GRAPH}"`);
  const graph = withAnswerLengths(served, question.answerTokens);
  const run = moa.start(graph, {
    question: { kind: "chat", messages: [{ role: "user", content: question.text }] },
    rootSampling: {},
    choices: 1,
  }, signal);
  for await (const _event of run.output) { /* A client that reads as fast as it can. */ }
  await run.ended;
  return { graph, record: run.record() };
}

function difference(after: EngineWork, before: EngineWork): EngineWork {
  return {
    requests: after.requests - before.requests,
    promptTokens: after.promptTokens - before.promptTokens,
    prefilledTokens: after.prefilledTokens - before.prefilledTokens,
  };
}
