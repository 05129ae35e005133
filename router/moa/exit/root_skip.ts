import type { JsonObject } from "../../../base/json.ts";
import type { Consensus } from "../../../scorer/policy/exit_policy.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { AgentGraph, AgentNode } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import type { Trace } from "../record/trace.ts";
import { rootNeededFor, whyNotGiven } from "./answer_for_root.ts";
import type { Panel, PanelAnswer } from "./panel.ts";
import type { RunExits } from "./run_exits.ts";

/** Options of `RootSkip`. */
export interface RootSkipOptions {
  readonly graph: AgentGraph;
  readonly input: RunInput;
  /** The root's parameters, with the client's over them. */
  readonly sampling: Sampling;
  readonly trace: Trace;
  readonly exits: RunExits;
}

/** Decides whether the last cluster's members agree so much that one of their answers is the run's. */
export class RootSkip {
  readonly #options: RootSkipOptions;

  constructor(options: RootSkipOptions) {
    this.#options = options;
  }

  /**
   * A cluster has closed. Calls `then` with the answer that is the run's, or with undefined when its readers are to
   * start: at once, unless the policy has to find out whether its members agree. `known`: that they do, as far as the
   * policy has told already. Until it is known there is a promise, which rejects with an error of `then`.
   */
  decide(
    panel: Panel,
    known: Consensus | undefined,
    then: (answer: PanelAnswer | undefined) => void,
  ): Promise<void> | undefined {
    const { graph: { root, joined }, exits } = this.#options;
    const launch = () => {
      then(undefined);
      return undefined;
    };
    const share = panel.node.earlyExit.skip_root;
    const isLast = root !== undefined && root.reads.length === 1 && root.reads[0] === panel.node &&
      joined === undefined;
    if (!isLast || share === undefined) return launch();
    const needed = rootNeededFor(this.#options.input, this.#options.sampling);
    if (needed !== undefined) {
      this.#note(root, { skip: false, reason: needed });
      return launch();
    }
    const conclude = (consensus: Consensus | undefined, figures: JsonObject) => {
      const found = this.#answer(panel, consensus, share);
      this.#note(root, {
        skip: "text" in found,
        ...("reason" in found ? { reason: found.reason } : {}),
        ...(consensus === undefined ? {} : { consensus: { ...consensus } }),
        ...figures,
      });
      then("text" in found ? found : undefined);
      return undefined;
    };
    if (known !== undefined) return conclude(known, {});
    return exits.decidesOn(panel) ? exits.consensus(panel, conclude) : launch();
  }

  /** The answer that stands for all, or a reason why there is none. */
  #answer(
    { completions }: Panel,
    consensus: Consensus | undefined,
    least: number,
  ): PanelAnswer | { readonly reason: string } {
    if (consensus === undefined) return { reason: "it is not known whether the answers agree" };
    const { share, agent } = consensus;
    if (!(share >= least)) return { reason: "too few of the answers agree" };
    const answer = completions.find((one) => one.agent === agent);
    if (answer === undefined) return { reason: `agent ${agent} has no answer` };
    const reason = whyNotGiven(answer, this.#options.sampling);
    if (reason !== undefined) return { reason };
    return answer;
  }

  #note(root: AgentNode, data: JsonObject): void {
    this.#options.trace.add("root_decided", { agent: root.id, data });
  }
}
