import type { JsonObject } from "../../../base/json.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { Cluster } from "./cluster.ts";
import type { ConcludedExit } from "./cluster_exit.ts";
import type { RunExits } from "./run_exits.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import type { Trace } from "../record/trace.ts";
import type { RunCalls } from "../run/run_calls.ts";
import type { RunOptions } from "../run/run_options.ts";
import type { Consensus } from "../../../scorer/policy/exit_policy.ts";

/** What a run decides with whether its root is asked. */
export interface RootSkipOptions {
  readonly run: RunOptions;
  readonly trace: Trace;
  readonly calls: RunCalls;
  readonly exits: RunExits;
}

/** A precursor's answer that may be the run's. */
interface Candidate {
  readonly text: string;
  readonly agent: string;
}

/** Whether the last cluster's members agree so much that one of their answers is the run's, and the root is not asked. */
export class RootSkip {
  readonly #options: RootSkipOptions;

  constructor(options: RootSkipOptions) {
    this.#options = options;
  }

  /**
   * A cluster has closed. Calls `launch` when its readers are to start, or `answer` when one of its answers is the
   * run's: at once, unless the policy has to find out whether its members agree. `known`: that they do, as far as the
   * policy has told already.
   */
  decide(
    cluster: Cluster,
    known: Consensus | undefined,
    launch: () => void,
    answer: (text: string, agent: string) => void,
  ): void {
    const { run: { graph, input }, calls, exits } = this.#options;
    const { root } = graph;
    const share = cluster.node.earlyExit.skip_root;
    const isLast = root !== undefined && root.reads.length === 1 && root.reads[0] === cluster.node;
    if (!isLast || share === undefined) return launch();
    const sampling = calls.sampling(root);
    const needed = input.choices > 1
      ? `the request asks for ${input.choices} choices`
      : input.rootLogprobs !== undefined
      ? "the request asks for log-probabilities"
      : neededFor(sampling);
    if (needed !== undefined) {
      this.#note(root, { skip: false, reason: needed });
      return launch();
    }
    const conclude = (consensus: Consensus | undefined, concluded?: ConcludedExit) => {
      const found = this.#candidate(cluster, consensus, share, sampling);
      this.#note(root, {
        skip: "text" in found,
        ...("reason" in found ? { reason: found.reason } : {}),
        ...(consensus === undefined ? {} : { consensus: { ...consensus } }),
        ...(concluded === undefined ? {} : exits.figures(concluded, cluster)),
      });
      if ("text" in found) answer(found.text, found.agent);
      else launch();
    };
    if (known !== undefined) return conclude(known);
    const asked = exits.consensus(cluster, (concluded) => conclude(concluded.decision.consensus, concluded));
    if (!asked) launch();
  }

  /** The answer that stands for all, or why there is none. */
  #candidate(
    cluster: Cluster,
    consensus: Consensus | undefined,
    least: number,
    { max_tokens = Infinity, stop = [] }: Sampling,
  ): Candidate | { readonly reason: string } {
    if (consensus === undefined) return { reason: "it is not known whether the answers agree" };
    const { share, agent } = consensus;
    if (!(share >= least)) return { reason: "too few of the answers agree" };
    const text = cluster.completions.find((one) => one.agent === agent)?.text ?? "";
    const member = cluster.node.agents.find(({ id }) => id === agent);
    const call = member === undefined ? undefined : this.#options.calls.of(member)[0];
    if (call === undefined || text === "") return { reason: `agent ${agent} has no answer` };
    if (call.cut) return { reason: `the answer of ${agent} was cut` };
    const tokens = call.usage()?.completionTokens ?? 0;
    if (tokens > max_tokens) return { reason: `the answer has ${tokens} tokens, more than max_tokens` };
    if (stop.some((one) => text.includes(one))) return { reason: "the answer holds a stop string" };
    return { text, agent };
  }

  #note(root: AgentNode, data: JsonObject): void {
    this.#options.trace.add("root_decided", { agent: root.id, data });
  }
}

/**
 * Why the root must be asked whatever its precursors agree on: it has parameters that only a call of its own can
 * honour (tools, a response format, …). What only says how tokens are drawn (temperature, seed, …) is no reason.
 */
function neededFor({ extra = {} }: Sampling): string | undefined {
  const [field] = Object.keys(extra);
  return field === undefined ? undefined : `the root has a parameter ${field.slice(0, 60)}`;
}
