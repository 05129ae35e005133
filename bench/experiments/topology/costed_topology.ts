import { Random } from "../../../base/random.ts";
import { answerRulesSchema } from "../../../cfgs/schema/early_exit.ts";
import { answerExtractor } from "../../../scorer/answers/extract.ts";
import type { FinalAnswer } from "../../../scorer/answers/final_answer.ts";
import type { AgentVote } from "../../../scorer/policy/run_consensus.ts";
import { askCosted } from "../costed/ask_costed.ts";
import { CostedGpu, type CostedSequence } from "../costed/costed_gpu.ts";
import { type AgentPlace, placeSeed } from "../graphs.ts";
import { type ScriptedExitQuestion, STATED_TOKENS } from "../scripted_answers.ts";
import type { TopologyCandidate } from "./candidates.ts";

/** A question as it is costed: without its text. */
export type CostedQuestion = Pick<ScriptedExitQuestion, "tokens" | "right" | "answerTokens" | "answerOf">;

/** A model whose GPUs are costed. */
export interface CostedModel {
  readonly name: string;
  readonly cost: ConstructorParameters<typeof CostedGpu>[0];
}

/** Options of `costTopology`. */
export interface CostedTopologyOptions {
  /** From the smallest to the largest. */
  readonly models: readonly CostedModel[];
  readonly questions: readonly CostedQuestion[];
  /** A prefill and a decode GPU per model; or one GPU per model. */
  readonly pairs: boolean;
  /** Prompts are read while they grow: of use on pairs alone, where it costs no decode. As `pairs` by default. */
  readonly readsAhead?: boolean | undefined;
  readonly atOnce: number;
  readonly seed: string;
}

/** One question's run. */
export interface TopologyOutcome {
  readonly right: boolean;
  readonly latencyMs: number;
  /** Tokens that its agents wrote, those that nobody read included. */
  readonly tokens: number;
  /** Final answers that the run's rule had seen when it ended the run; undefined where the root answered. */
  readonly votes?: number | undefined;
}

/** Tokens of a prompt beside the question and answers, and around each answer: those of the built-in prompts, roughly. */
const PROMPT_TOKENS = 150;
const SLOT_TOKENS = 10;
/** Tokens of the last answer that are read after its end. */
const UNREAD_TOKENS = 20;

/**
 * Asks the questions of a candidate; the outcome of each, in their order. Decoding, memory, queues of prompts and exits
 * are followed from event to event on the simulator's cost model; the router is not played, which takes a thousandth of
 * the time.
 */
export function costTopology(
  candidate: TopologyCandidate,
  options: CostedTopologyOptions,
): TopologyOutcome[] {
  const { models, questions, pairs, atOnce } = options;
  const gpus = new Map(models.map(({ name, cost }) => [name, new CostedGpu(cost, { pair: pairs })]));
  const outcomes: Omit<TopologyOutcome, "latencyMs">[] = [];
  const bySize = models.map(({ name }) => name).reverse();
  const scene: TopologyScene = { candidate, options, gpus, bySize, stated: new Map() };
  const latencies = askCosted(
    { gpus: [...gpus.values()], count: questions.length, atOnce },
    (number, startMs, onEnd) => {
      const run = new TopologyRun(number, scene, (endMs) => {
        const { answer, tokens, votes } = run;
        outcomes[number] = { right: answer === questions[number]?.right, tokens, votes };
        onEnd(endMs);
      });
      run.start(startMs);
    },
  );
  return outcomes.map((outcome, number) => ({ ...outcome, latencyMs: latencies[number] ?? NaN }));
}

interface TopologyScene {
  readonly candidate: TopologyCandidate;
  readonly options: CostedTopologyOptions;
  readonly gpus: ReadonlyMap<string, CostedGpu>;
  /** Models, the largest first. */
  readonly bySize: readonly string[];
  /** What the router makes of stated answers, remembered. */
  readonly stated: Map<string, FinalAnswer>;
}

interface Agent {
  readonly id: string;
  readonly place: AgentPlace & { readonly model: string };
  /** The cluster that it reads; none in the first layer. */
  readonly reads: Cluster | undefined;
  /** The cluster that it is in; the root is in none. */
  cluster?: Cluster;
  sequence?: CostedSequence;
  answer?: string;
}

interface Cluster {
  readonly id: string;
  readonly agents: readonly Agent[];
  readonly readers: Agent[];
  /** In the order in which they answered. */
  readonly done: Agent[];
  /** Those whose answers go on, once it is closed. */
  kept?: readonly Agent[];
}

/** One question's way through a candidate. */
class TopologyRun {
  readonly #number: number;
  readonly #question: CostedQuestion;
  readonly #scene: TopologyScene;
  readonly #onEnd: (endMs: number) => void;
  readonly #agents: readonly Agent[];
  /** Those that write. */
  readonly #running = new Set<Agent>();
  readonly #votes: AgentVote[] = [];
  readonly #draws: Random;
  #answer: string | undefined;
  #tokens = 0;
  #endedBy: number | undefined;

  constructor(number: number, scene: TopologyScene, onEnd: (endMs: number) => void) {
    this.#number = number;
    this.#question = scene.options.questions[number]!;
    this.#scene = scene;
    this.#onEnd = onEnd;
    this.#agents = agentsOf(scene.candidate);
    this.#draws = new Random(`${scene.options.seed}/exits/${number}`);
  }

  get answer(): string | undefined {
    return this.#answer;
  }

  get tokens(): number {
    return this.#tokens;
  }

  /** Votes after which the run's rule ended it; undefined where the root answered. */
  get votes(): number | undefined {
    return this.#endedBy;
  }

  start(startMs: number): void {
    for (const agent of this.#agents) if (agent.reads === undefined) this.#submit(agent, startMs);
  }

  #submit(agent: Agent, nowMs: number): void {
    const { place, reads } = agent;
    const { pairs, readsAhead = pairs } = this.#scene.options;
    const read = reads?.kept ?? [];
    const promptTokens = PROMPT_TOKENS + this.#question.tokens +
      read.reduce((sum, { sequence }) => sum + (sequence?.answerTokens ?? 0) + SLOT_TOKENS, 0);
    const said = read.flatMap(({ answer }) => answer === undefined ? [] : [answer]);
    agent.answer = this.#question.answerOf(place.model, placeSeed(place), said);
    agent.sequence = {
      promptKey: `${this.#number}/${place.layer}/${reads?.id ?? ""}`,
      promptTokens,
      cachedTokens: pairs && readsAhead && read.length > 0 ? promptTokens - UNREAD_TOKENS : 0,
      answerTokens: Math.max(2, this.#question.answerTokens(place) + STATED_TOKENS),
      onEnd: (endMs) => this.#ends(agent, endMs),
    };
    this.#running.add(agent);
    this.#gpuOf(agent)?.submit(agent.sequence, nowMs);
  }

  #ends(agent: Agent, nowMs: number): void {
    const { cluster, sequence } = agent;
    // It may end in the moment in which it was cut.
    if (!this.#running.delete(agent)) return;
    this.#tokens += sequence?.answerTokens ?? 0;
    if (cluster === undefined) return this.#finish(agent.answer, nowMs);
    cluster.done.push(agent);
    const agreed = this.#runEndsWith(agent);
    if (agreed !== undefined) {
      this.#endedBy = this.#votes.length;
      return this.#finish(agreed, nowMs);
    }
    const kept = this.#keptOf(cluster);
    if (kept === undefined) return;
    cluster.kept = kept;
    for (const other of cluster.agents) this.#cut(other, nowMs);
    for (const reader of cluster.readers) this.#submit(reader, nowMs);
  }

  /** The answer that a vote ends the run with; undefined where it goes on. */
  #runEndsWith({ id, place, answer }: Agent): string | undefined {
    const { candidate: { exit: { decides } }, bySize } = this.#scene;
    if (decides.kind !== "run" || answer === undefined) return undefined;
    this.#votes.push({ agent: id, model: place.model, answer: this.#stated(answer), logprobs: undefined });
    const leaves = this.#agents.filter(({ reads }) => reads === undefined);
    const open = leaves.filter((one) => this.#running.has(one)).map((one) => one.id);
    const agent = decides.ends({ votes: this.#votes, leaves: leaves.length, open, bySize }, this.#number);
    return this.#agents.find((one) => one.id === agent)?.answer;
  }

  #stated(answer: string): FinalAnswer {
    const { stated } = this.#scene;
    const found = stated.get(answer) ?? extract(statedText(answer), "");
    if (found === undefined) throw new Error(`No final answer is found in "${statedText(answer)}"`);
    stated.set(answer, found);
    return found;
  }

  /** The members whose answers go on, where a cluster closes now. */
  #keptOf(cluster: Cluster): readonly Agent[] | undefined {
    const { agents, done, id } = cluster;
    if (done.length === agents.length) return done;
    const { decides } = this.#scene.candidate.exit;
    if (decides.kind === "chance") {
      return done.length >= decides.from && this.#draws.next() < decides.chance ? done : undefined;
    }
    if (decides.kind !== "cluster" || decides.policy === undefined) return undefined;
    const { exit, keep } = decides.policy.decide({
      seed: "",
      cluster: id,
      question: "",
      completions: done.map(({ id: agent, place: { model }, answer }) => ({
        agent,
        model,
        text: statedText(answer ?? ""),
        logprobs: undefined,
        cut: false,
      })),
      unfinished: agents.filter((one) => !done.includes(one))
        .map(({ id: agent, place: { model } }) => ({ agent, model })),
    }, { similarity: () => undefined, verdict: () => undefined });
    return exit ? done.filter((one) => keep.includes(one.id)) : undefined;
  }

  #finish(answer: string | undefined, nowMs: number): void {
    this.#answer = answer;
    for (const agent of this.#agents) this.#cut(agent, nowMs);
    this.#onEnd(nowMs);
  }

  #cut(agent: Agent, nowMs: number): void {
    if (!this.#running.delete(agent) || agent.sequence === undefined) return;
    this.#tokens += this.#gpuOf(agent)?.abort(agent.sequence, nowMs) ?? 0;
  }

  #gpuOf({ place }: Agent): CostedGpu | undefined {
    return this.#scene.gpus.get(place.model);
  }
}

/** The agents of a candidate for one run, layer by layer. */
function agentsOf({ layers }: TopologyCandidate): Agent[] {
  let below: readonly Cluster[] = [];
  return layers.flatMap(({ clusters }, layer) => {
    let index = 0;
    const made = clusters.map((models, at): Cluster => {
      const agents = models.map((model): Agent => {
        const place = { layer, index: index++, model };
        // Of several agents over one cluster each reads all of it.
        const reads = below.length === 1 ? below[0] : below[place.index];
        const agent = { id: `l${layer + 1}.${place.index}`, place, reads };
        reads?.readers.push(agent);
        return agent;
      });
      const cluster: Cluster = { id: `l${layer + 1}.c${at}`, agents, readers: [], done: [] };
      if (layer < layers.length - 1) { for (const agent of agents) agent.cluster = cluster; }
      return cluster;
    });
    below = made;
    return made.flatMap(({ agents }) => agents);
  });
}

function statedText(answer: string): string {
  return `The answer is ${answer}.`;
}

const extract = answerExtractor(answerRulesSchema.parse({}));
