import type { AgentCall } from "../agent/agent_call.ts";
import { Judge } from "./judge.ts";
import type { Judgement } from "./pair_evidence.ts";
import type { RunExitsOptions } from "./run_exits.ts";
import { smallestModel } from "./verdict_model.ts";
import { warmVerdict } from "./verdict_warm.ts";
import type { ClusterNode } from "../graph/graph_types.ts";
import { type AgentUsage, withWarmTokens } from "../record/usage.ts";
import type { ModelAccess } from "../run/run_options.ts";

/** Who judges the answers of one cluster, and what that took. */
interface ClusterJudge {
  readonly judge: Judge;
  readonly model: ModelAccess;
  readonly stickyKey: string;
  readonly calls: AgentCall[];
  warmTokens: number;
}

/** The verdicts of one run. */
export class RunVerdicts {
  readonly #options: RunExitsOptions;
  readonly #judges = new Map<ClusterNode, ClusterJudge | string>();
  /** Calls and warms that engines work for. */
  #working = 0;

  constructor(options: RunExitsOptions) {
    this.#options = options;
  }

  get busy(): boolean {
    return this.#working > 0;
  }

  /** The tokens of the calls, an entry for each cluster. */
  usages(): AgentUsage[] {
    return [...this.#judges.values()].flatMap((entry) => {
      if (typeof entry === "string") return [];
      const usages = entry.calls.map((call) => call.usage()).filter((usage) => usage !== undefined);
      const warmed = withWarmTokens(undefined, entry.warmTokens, entry.judge.node);
      return warmed === undefined ? usages : [...usages, warmed];
    });
  }

  /** Whether two answers agree; never rejects. */
  ask(node: ClusterNode, answers: readonly [string, string], signal: AbortSignal): Promise<Judgement> {
    const entry = this.#judge(node);
    if (typeof entry !== "string") return entry.judge.ask(answers, signal);
    return Promise.resolve({
      verdict: { yes: undefined, reason: entry, model: "" },
      late: false,
      failed: true,
    });
  }

  /** The answer is there, others are being written: the model that will compare them reads it now. */
  warm(node: ClusterNode, answer: string, signal: AbortSignal): void {
    if (this.#options.run.graph.incrementalPrefill.mode === "off" || signal.aborted) return;
    const entry = this.#judge(node);
    if (typeof entry === "string") return;
    const { judge, model, stickyKey } = entry;
    this.#works(1);
    void warmVerdict(judge, answer, model, stickyKey, signal).then((warm) => {
      if (warm === undefined) return;
      entry.warmTokens += warm.computed;
      this.#options.trace.add("warm_done", {
        agent: judge.node.id,
        data: { tokens: warm.tokens, computed: warm.computed },
      });
    }).finally(() => this.#works(-1));
  }

  /** The judge of a cluster; a text says why there is none. */
  #judge(node: ClusterNode): ClusterJudge | string {
    let entry = this.#judges.get(node);
    if (entry === undefined) this.#judges.set(node, entry = this.#make(node));
    return entry;
  }

  #make(node: ClusterNode): ClusterJudge | string {
    const { run, calls, question } = this.#options;
    const settings = node.earlyExit.verdict;
    const named = settings.model ?? smallestModel([...run.models.values()].map(({ served }) => served))?.name;
    const model = named === undefined ? undefined : run.models.get(named);
    const { services } = run.exitPolicies;
    if (model === undefined || services === undefined) return `there is no model ${named ?? "at all"}`;
    const id = `${node.id}.verdict`;
    const stickyKey = `${run.id}/${id}`;
    const made: AgentCall[] = [];
    const judge = new Judge({
      id,
      model,
      settings,
      verdict: services.verdict,
      question: () => question(node),
      clock: run.clock,
      headers: run.input.headers,
      stickyKey,
      call: (agent) => {
        const call = calls.extra(agent, made.length);
        made.push(call);
        return call;
      },
      working: (busy) => this.#works(busy ? 1 : -1),
    });
    return { judge, model, stickyKey, calls: made, warmTokens: 0 };
  }

  #works(by: 1 | -1): void {
    this.#working += by;
    if (this.#working === 0) this.#options.onIdle();
  }
}
