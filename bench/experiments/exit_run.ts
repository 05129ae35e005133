import type { VirtualClock } from "../../base/clock.ts";
import { askAll, type QuestionArrivals } from "./workloads/question_arrivals.ts";
import { type GraphSettings, placeSeed, placesOf, withSampling } from "./graphs.ts";
import {
  majorityOf,
  type ModelSize,
  scriptedExitAnswers,
  type ScriptedExitQuestion,
  statedAnswers,
} from "./scripted_answers.ts";
import { makeExperimentWorld, type ModelCosts, type Serving, SIZES, type WorldModel } from "./world.ts";
import type { EarlyExitServices } from "../../router/moa/exit/exit_policies.ts";
import type { AgentGraph, Graph } from "../../router/moa/graph/graph_types.ts";
import type { RunLimits } from "../../router/moa/graph/run_input.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Router } from "../../router/router.ts";
import { LexicalEmbedder } from "../../scorer/embedders/lexical_embedder.ts";
import { ExitAudit } from "../../scorer/audit/exit_audit.ts";
import { exitPolicyOf, runConsensusOf } from "../../scorer/exit_policy_of.ts";
import type { FinalAnswer } from "../../scorer/answers/final_answer.ts";
import { drawFor } from "../../scorer/metrics/random.ts";
import type { Ballot, RunExitPolicy, RunVotes } from "../../scorer/policy/run_consensus.ts";
import { verdictPrompt, yesProbability } from "../../scorer/policy/verdict_prompt.ts";
import { InlineScorer } from "../../scorer/thread/inline_scorer.ts";

/** Options of `runExitTrial`: one experiment on one graph. */
export interface ExitTrialOptions {
  readonly serving: Serving;
  readonly version?: string | undefined;
  readonly costs?: ModelCosts | undefined;
  readonly seed: string;
  readonly graph: GraphSettings;
  /** Those of the paper's sizes by default. */
  readonly models?: readonly Pick<WorldModel, "name" | "cost">[] | undefined;
  readonly questions: readonly ScriptedExitQuestion[];
  readonly concurrency: QuestionArrivals;
  readonly signal: AbortSignal;
  /** Ends each run as soon as somebody has said the right answer: no rule can do better. */
  readonly oracle?: boolean | undefined;
  /** Of each question. */
  readonly budget?: RunLimits | undefined;
}

/** One question's run. */
export interface ExitRun {
  readonly e2eMs: number;
  readonly right: boolean;
  readonly rootSkipped: boolean;
  readonly calls: number;
  readonly completionTokens: number;
  /** Tokens that nobody read. */
  readonly wastedTokens: number;
  /** Estimate of the tokens that exits spared. */
  readonly savedTokens: number;
  /** By model size: agents that there are, and those whose answers went on. */
  readonly agents: Readonly<
    Record<ModelSize, { readonly all: number; readonly used: number; readonly tokens: number }>
  >;
  /** Decisions that could have ended in an exit, and those that did. */
  readonly decisions: number;
  readonly exits: number;
  /** What chance draws for these decisions, in [0, 1). */
  readonly draws: readonly number[];
  /** Of the decisions those that came too late. */
  readonly late: number;
  /** Exits of first-layer clusters, and those that changed the majority of their answers. */
  readonly leafExits: number;
  readonly wrongExits: number;
}

/** Name of the graph in a trial's configuration. */
const GRAPH = "g";

/** Asks all questions of a graph in a world of its own, in virtual time. The same options give the same figures. */
export async function runExitTrial(options: ExitTrialOptions): Promise<ExitRun[]> {
  const { serving, version, costs, seed, questions, concurrency, signal } = options;
  const world = makeExperimentWorld({
    serving,
    version,
    costs,
    seed,
    models: options.models?.map(({ name, cost }, at) => {
      return { name, host: `m${at}`, cost, answers: scriptedExitAnswers(questions, name) };
    }),
    graphs: { [GRAPH]: options.graph },
    answersOf: (size) => scriptedExitAnswers(questions, size),
    earlyExit: (clock) =>
      options.oracle === true ? oracleServices(clock, questions) : wordExitServices(clock),
  });
  const runs: ExitRun[] = [];
  await world.clock.run(async () => {
    const router = world.router();
    try {
      await router.ready();
      const { clock } = world;
      await askAll({ count: questions.length, arrivals: concurrency, seed, clock, signal }, async (index) => {
        runs[index] = await ask(router, questions[index]!, options);
      });
    } finally {
      await router.close();
    }
  });
  return runs;
}

/** Early exit in virtual time, in which no model runs: answers are compared by their words. */
export function wordExitServices(clock: VirtualClock): EarlyExitServices {
  return {
    scorer: new InlineScorer(new LexicalEmbedder({ maxTokens: 2_048 }), { clock, maxQueued: 256 }),
    verdict: { prompt: verdictPrompt, yes: yesProbability },
    policyOf: exitPolicyOf,
    auditOf: (settings) => new ExitAudit(settings),
    consensusOf: runConsensusOf,
  };
}

function oracleServices(clock: VirtualClock, known: readonly ScriptedExitQuestion[]): EarlyExitServices {
  return {
    ...wordExitServices(clock),
    consensusOf: (settings) => new Oracle(runConsensusOf(settings), known),
  };
}

/** Knows the right answers, by their questions. */
class Oracle implements RunExitPolicy {
  readonly needsLogprobs = false;
  readonly #reader: RunExitPolicy;
  readonly #right: ReadonlySet<string>;

  constructor(reader: RunExitPolicy, known: readonly ScriptedExitQuestion[]) {
    this.#reader = reader;
    this.#right = new Set(known.map(({ text, right }) => `${text}\0${right}`));
  }

  guard(): undefined {}

  /** Of the answers the right one alone. */
  read(ballot: Ballot, question: string) {
    const answer = this.#reader.read(ballot, question);
    return answer !== undefined && this.#right.has(`${question}\0${answer.value.replace(/^number:/, "")}`)
      ? answer
      : undefined;
  }

  given(text: string): string {
    return this.#reader.given(text);
  }

  decide({ votes }: RunVotes) {
    const [first] = votes;
    return { agent: first?.agent, agreeing: first === undefined ? [] : [first.agent], numbers: {} };
  }

  leader(state: RunVotes): string | undefined {
    return this.#reader.leader(state);
  }

  /** One answer ends the run: every vote may matter. */
  outlook(): undefined {}

  settled(): undefined {}

  says(answer: FinalAnswer, ballot: Ballot, question: string): boolean {
    return this.#reader.says(answer, ballot, question);
  }
}

async function ask(
  router: Router,
  question: ScriptedExitQuestion,
  { budget, signal }: Pick<ExitTrialOptions, "budget" | "signal">,
): Promise<ExitRun> {
  const { moa } = router.services;
  const served = moa.graphs.get(GRAPH);
  if (served === undefined) throw new Error(`Cannot ask: the router does not serve the graph "${GRAPH}"`);
  const root = placesOf(served).get(served.root.id);
  // Whoever's text is the answer, the limit on the root's own is none on it.
  const longest = Math.max(...[...placesOf(served).values()].map(question.maxTokens));
  const graph = withSampling(served, (place, own) => ({
    ...own,
    seed: own.seed ?? placeSeed(place),
    max_tokens: place.layer === root?.layer ? longest : question.maxTokens(place),
  }));
  const run = moa.start(graph, {
    question: { kind: "chat", messages: [{ role: "user", content: question.text }] },
    rootSampling: {},
    choices: 1,
    budget,
  }, signal);
  let answer = "";
  for await (const event of run.output) if (event.type === "delta") answer += event.delta.text;
  await run.ended;
  return exitRunOf(graph, run.record(), question, answer);
}

function exitRunOf(graph: Graph, record: RunRecord, question: ScriptedExitQuestion, answer: string): ExitRun {
  const ended = record.events.at(-1);
  if (ended?.type !== "run_done") {
    throw new Error(`The run did not end well: ${record.error?.message ?? ended?.type}`);
  }
  const { usage, exits } = record;
  // Of those that could still spare somebody's work.
  const open = exits.filter(({ cluster, completions }) =>
    cluster === "run" || completions < sizeOf(graph, cluster)
  );
  return {
    e2eMs: ended.atMs,
    right: statedAnswers(answer).at(-1) === question.right,
    rootSkipped: record.rootSkipped,
    calls: usage.calls,
    completionTokens: usage.completionTokens,
    wastedTokens: usage.wastedTokens,
    savedTokens: usage.savedTokens ?? 0,
    agents: agentsBySize(record),
    decisions: open.length,
    exits: open.filter(({ exit }) => exit).length,
    draws: open.map(({ cluster, completions }) => drawFor({ seed: record.drawSeed, cluster, completions })),
    late: open.filter(({ late }) => late).length,
    ...leafExits(graph, record, question),
  };
}

function sizeOf(graph: AgentGraph, cluster: string): number {
  return graph.clusters.find(({ id }) => id === cluster)?.agents.length ?? 0;
}

function agentsBySize(record: RunRecord): ExitRun["agents"] {
  const of = (size: ModelSize) => {
    const all = record.agents.filter(({ model }) => model === size);
    const tokens = all.reduce((sum, { usage }) => sum + (usage?.completionTokens ?? 0), 0);
    return { all: all.length, used: all.filter(({ state }) => state === "done").length, tokens };
  };
  return Object.fromEntries(SIZES.map((size) => [size, of(size)])) as ExitRun["agents"];
}

/** Known for first-layer clusters only: their members read nothing, so all their answers are scripted. */
function leafExits(
  graph: AgentGraph,
  record: RunRecord,
  question: ScriptedExitQuestion,
): Pick<ExitRun, "leafExits" | "wrongExits"> {
  const places = placesOf(graph);
  const answers = new Map(graph.agents.map(({ id, model, sampling }) => {
    const size = SIZES.find((one) => one === model);
    return [id, size === undefined ? "" : question.answerOf(size, Number(sampling.seed), [])];
  }));
  const counts = { leafExits: 0, wrongExits: 0 };
  for (const { type, cluster, data } of record.events) {
    const keep = data?.["keep"];
    if (type !== "exit_decided" || data?.["exit"] !== true || !Array.isArray(keep)) continue;
    const members = graph.clusters.find(({ id }) => id === cluster)?.agents ?? [];
    if (members.some(({ id }) => places.get(id)?.layer !== 0)) continue;
    const majority = (ids: readonly string[]) => majorityOf(ids.map((id) => answers.get(id) ?? ""));
    counts.leafExits++;
    if (majority(keep.map(String)) !== majority(members.map(({ id }) => id))) counts.wrongExits++;
  }
  return counts;
}
