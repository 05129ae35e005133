import { Random } from "../../../base/random.ts";
import type { AgentPlace } from "../graphs.ts";
import type { QuestionLengths } from "../workload.ts";
import { type ModelCosts, SIZES } from "../world.ts";
import { askCosted } from "../costed/ask_costed.ts";
import { CostedGpu, type CostedSequence } from "../costed/costed_gpu.ts";

/** Options of `costTrial`. */
export interface CostedTrialOptions {
  readonly graph: "dense" | "tree";
  /** Prompts are read while their precursors still write; of use on pairs alone, where it costs no decode. */
  readonly overlap: boolean;
  /** A cluster ends with this chance after each answer from the so-manieth on. */
  readonly exit?: { readonly chance: number; readonly from: number } | undefined;
  readonly pairs: boolean;
  readonly costs?: ModelCosts | undefined;
  /** Questions at the same time. */
  readonly atOnce: number;
  /** Most tokens of an answer that its successors read. */
  readonly readTokens: number;
  readonly questions: readonly QuestionLengths[];
  readonly seed: string;
}

/** Tokens of a prompt beside the question and answers, and around each answer: those of the built-in prompts, roughly. */
const PROMPT_TOKENS = 150;
const SLOT_TOKENS = 10;
/** Tokens of the last answer that are read after its end. */
const UNREAD_TOKENS = 20;

interface CostedAgent {
  readonly place: AgentPlace & { readonly model: (typeof SIZES)[number] };
  /** Its precursors: none in the first layer. */
  readonly reads: CostedCluster | undefined;
  /** The cluster that it is in; the root is in none. */
  cluster?: CostedCluster;
  sequence?: CostedSequence;
  readTokens?: number;
}

interface CostedCluster {
  readonly agents: readonly CostedAgent[];
  readonly readers: CostedAgent[];
  readonly draws: Random;
  closed: boolean;
}

/**
 * Latencies of the questions in ms. Decoding, memory, queues of prompts and exits are followed from event to event on the
 * simulator's cost model; router, network and token events are not played, which takes a thousandth of the time.
 */
export function costTrial(options: CostedTrialOptions): number[] {
  const { questions, atOnce, costs, pairs: pair } = options;
  const gpus = new Map(SIZES.map((size) => [size, new CostedGpu(costs?.[size] ?? size, { pair })]));
  return askCosted(
    { gpus: [...gpus.values()], count: questions.length, atOnce },
    (number, startMs, onEnd) => {
      const question = questions[number];
      if (question !== undefined) new CostedRun(question, number, { options, gpus }).start(startMs, onEnd);
    },
  );
}

interface CostedScene {
  readonly options: CostedTrialOptions;
  readonly gpus: ReadonlyMap<(typeof SIZES)[number], CostedGpu>;
}

/** One question's way through its graph. */
class CostedRun {
  readonly #question: QuestionLengths;
  readonly #number: number;
  readonly #scene: CostedScene;
  readonly #leaves: readonly CostedAgent[];
  #onEnd: (endMs: number) => void = () => {};

  constructor(question: QuestionLengths, number: number, scene: CostedScene) {
    this.#question = question;
    this.#number = number;
    this.#scene = scene;
    this.#leaves = leavesOf(scene.options.graph, new Random(`${scene.options.seed}/exits/${number}`));
  }

  start(startMs: number, onEnd: (endMs: number) => void): void {
    this.#onEnd = onEnd;
    for (const leaf of this.#leaves) this.#submit(leaf, startMs);
  }

  #submit(agent: CostedAgent, nowMs: number): void {
    const { options } = this.#scene;
    const { place, reads } = agent;
    const read = reads?.agents.flatMap(({ readTokens }) => readTokens === undefined ? [] : [readTokens]) ??
      [];
    const promptTokens = PROMPT_TOKENS + this.#question.tokens +
      read.reduce((sum, tokens) => sum + tokens + SLOT_TOKENS, 0);
    const ahead = options.overlap && options.pairs && read.length > 0;
    agent.sequence = {
      promptKey: `${this.#number}/${place.layer}/${reads === undefined ? "" : reads.agents[0]?.place.index}`,
      promptTokens,
      cachedTokens: ahead ? promptTokens - UNREAD_TOKENS : 0,
      answerTokens: Math.max(2, this.#question.answerTokens(place)),
      onEnd: (endMs) => this.#ended(agent, endMs),
    };
    this.#gpuOf(agent)?.submit(agent.sequence, nowMs);
  }

  #ended(agent: CostedAgent, nowMs: number): void {
    const { options } = this.#scene;
    const { cluster } = agent;
    if (cluster === undefined) return this.#onEnd(nowMs);
    if (cluster.closed) return;
    agent.readTokens = Math.min(options.readTokens, agent.sequence?.answerTokens ?? 0);
    const done = cluster.agents.filter(({ readTokens }) => readTokens !== undefined).length;
    const { exit } = options;
    const exits = exit !== undefined && done >= exit.from && done < cluster.agents.length &&
      cluster.draws.next() < exit.chance;
    if (done < cluster.agents.length && !exits) return;
    cluster.closed = true;
    for (const other of cluster.agents) {
      if (other.readTokens === undefined && other.sequence !== undefined) {
        this.#gpuOf(other)?.abort(other.sequence, nowMs);
      }
    }
    for (const reader of cluster.readers) this.#submit(reader, nowMs);
  }

  #gpuOf({ place }: CostedAgent): CostedGpu | undefined {
    return this.#scene.gpus.get(place.model);
  }
}

/** The first layer of dense 9-9-1, or of the tree 9-3-1, with all that reads it. */
function leavesOf(graph: "dense" | "tree", draws: Random): CostedAgent[] {
  const agentsOf = (layer: number, count: number, readsOf: (index: number) => CostedCluster | undefined) =>
    Array.from({ length: count }, (_, index): CostedAgent => {
      const reads = readsOf(index);
      const agent: CostedAgent = {
        place: { layer, index, model: SIZES[index % SIZES.length] ?? "4b" },
        reads,
      };
      reads?.readers.push(agent);
      return agent;
    });
  const clusterOf = (agents: readonly CostedAgent[], name: string): CostedCluster => {
    const cluster: CostedCluster = { agents, readers: [], draws: draws.stream(name), closed: false };
    for (const agent of agents) agent.cluster = cluster;
    return cluster;
  };
  const leaves = agentsOf(0, 9, () => undefined);
  const size = graph === "dense" ? 9 : 3;
  const clusters = Array.from(
    { length: 9 / size },
    (_, at) => clusterOf(leaves.slice(at * size, (at + 1) * size), `first ${at}`),
  );
  const second = agentsOf(1, size, (index) => clusters[graph === "dense" ? 0 : index]);
  const top = clusterOf(second, "second");
  top.readers.push({ place: { layer: 2, index: 0, model: "32b" }, reads: top });
  return leaves;
}
