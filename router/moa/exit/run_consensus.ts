import type { JsonObject } from "../../../base/json.ts";
import type { EarlyExitConfig } from "../../../cfgs/schema/early_exit.ts";
import type { FinalAnswer } from "../../../scorer/answers/final_answer.ts";
import type { ExitAudit } from "../../../scorer/audit/exit_audit.ts";
import type { AgentVote, RunExitPolicy, RunVotes } from "../../../scorer/policy/run_consensus.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { AgentGraph, AgentNode, ClusterNode } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import type { AgentAnswer } from "../prompt/answer.ts";
import type { AuditRecord, ExitRecord } from "../record/run_record.ts";
import type { Trace } from "../record/trace.ts";
import { rootNeededFor, whyNotGiven } from "./answer_for_root.ts";
import type { Panel, PanelAnswer } from "./panel.ts";
import { RunAudit } from "./run_audit.ts";

/** Options of a `RunConsensus`. */
export interface RunConsensusOptions {
  readonly graph: AgentGraph;
  readonly policy: RunExitPolicy;
  /** Of scope `run`. */
  readonly settings: EarlyExitConfig;
  /** The watch over the exits of all runs; absent where none is audited. */
  readonly audit?: ExitAudit | undefined;
  /** Seed of the run's draws. */
  readonly drawSeed: string;
  readonly input: RunInput;
  /** The root's parameters, with the client's over them. */
  readonly sampling: Sampling;
  /** Keys of models, the largest first. */
  readonly bySize: readonly string[];
  readonly trace: Trace;
  /** The question that the answers answer, as plain text. */
  readonly question: () => string;
  /** Called once: the run ends with this answer. */
  readonly onReached: (answer: PanelAnswer, agreement: RunAgreement) => void;
}

/** What the agents of a run agree on. */
export interface RunAgreement {
  /** Their texts, as far as they are written, in the order in which their answers became known. */
  readonly texts: readonly AgentAnswer[];
  /** True for a whole text that gives the same final answer. */
  readonly isSaidBy: (text: string) => boolean;
}

/** A cluster whose members at work may be ended: their votes cannot matter. */
export interface DecidedCluster {
  readonly node: ClusterNode;
  /** The figures of that, for the trace. */
  readonly figures: JsonObject;
}

/** The vote of an agent, and the call that it is read from. */
interface Vote {
  readonly call: AgentCall;
  readonly answer: FinalAnswer;
  /** How often the text that it was read in had begun anew. */
  readonly restarts: number;
}

/**
 * Counts the final answers of all agents of a run but the root, as they become known, and ends the run when enough of
 * them agree. An agent has one vote; what it takes back before its text ends counts no more.
 */
export class RunConsensus {
  readonly #options: RunConsensusOptions;
  /** By agent, in the order in which their answers became known. */
  readonly #votes = new Map<string, Vote>();
  readonly #records: ExitRecord[] = [];
  readonly #leaves: number;
  /** True of a run that may end early if its agents agree. */
  readonly #couldEnd: boolean;
  /** Calls of those that read nobody. */
  readonly #leafCalls: AgentCall[] = [];
  #open: boolean;
  /** Undefined where no exit is audited. */
  readonly #audit: RunAudit | undefined;
  #questionText: string | undefined;

  constructor(options: RunConsensusOptions) {
    this.#options = options;
    const { graph, input, sampling, policy, trace, audit, drawSeed, settings } = options;
    this.#leaves = graph.agents.filter(({ reads }) => reads.length === 0).length;
    const off = audit?.off === true ? "audit" : undefined;
    const reason = rootNeededFor(input, sampling) ?? policy.guard(this.#question) ?? off;
    this.#couldEnd = reason === undefined;
    this.#open = this.#couldEnd;
    if (reason !== undefined) trace.add("consensus_off", { data: { reason } });
    const { most_wrong: mostWrong } = settings.consensus;
    this.#audit = audit && new RunAudit({ audit, graph: graph.name, mostWrong, drawSeed, trace });
  }

  /** True while the run may end early. */
  get open(): boolean {
    return this.#open;
  }

  get records(): readonly ExitRecord[] {
    return this.#records;
  }

  /** What the audit of exits knows of this run; undefined where none is audited. */
  get audit(): AuditRecord | undefined {
    return this.#audit?.record;
  }

  /** The answer that most agents agree on so far; undefined where no two do. */
  leader(): PanelAnswer | undefined {
    const agent = this.#options.policy.leader(this.#state());
    const call = agent === undefined ? undefined : this.#votes.get(agent)?.call;
    if (call === undefined) return undefined;
    const { id, model } = call.node;
    const tokens = call.usage()?.completionTokens ?? 0;
    return { agent: id, model, text: this.#textOf(call), logprobs: undefined, cut: false, tokens };
  }

  /** True when the log-probabilities of an agent's tokens are looked at. */
  wantsLogprobs(node: AgentNode): boolean {
    return this.#open && this.#options.policy.needsLogprobs && node !== this.#options.graph.root;
  }

  /** Reads what an agent writes from now on. */
  follow(call: AgentCall): void {
    if (!this.#open) return;
    // What a client has begun to read is not taken back.
    if (call.node === this.#options.graph.root) return call.log.subscribe(() => this.close());
    if (call.node.reads.length === 0) this.#leafCalls.push(call);
    let looked = 0;
    let seen = 0;
    call.log.subscribe(() => {
      if (!this.#open) return;
      const { text, restarts } = call.log;
      // An answer is looked for where a sentence or a line may have ended.
      if (restarts !== seen) looked = 0;
      seen = restarts;
      const ended = /[.!?。！？}\n]/u.test(text.slice(Math.max(0, looked - 4)));
      looked = text.length;
      if (ended) this.#read(call, { text: call.answerSoFar, whole: false, cut: false });
    });
  }

  /** An agent's call is over: its answer is whole, or there will be none. */
  ended(call: AgentCall): void {
    const isDone = call.state === "done";
    if (call.node === this.#options.graph.root) return isDone ? this.#endAudit(call) : undefined;
    if (!this.#open) return;
    if (isDone && this.#read(call, { text: call.answer, whole: true, cut: call.cut })) return;
    // The last one that the others have waited for says nothing.
    const { undecided } = this.#options.settings.consensus;
    const isAwaited = undecided === "leader" && this.#leafCalls.includes(call) && this.#votes.size > 0;
    if (isAwaited && !this.#votes.has(call.node.id) && this.#unheard().length === 0) this.#decide();
  }

  /**
   * Clusters whose members at work cannot change anything by their votes: the run's rule cannot be met any more,
   * whatever those say who may vote yet, and the most frequent answer of each cluster that waits for them cannot change.
   */
  decided(panels: readonly Panel[], calls: readonly AgentCall[]): DecidedCluster[] {
    const { policy, settings: { consensus, never_skip: neverSkip }, graph: { root } } = this.#options;
    // Any vote may change who leads.
    if (!this.#open || consensus.cut !== "decided" || consensus.undecided === "leader") return [];
    const open = new Set(calls.flatMap(({ node, ended }) => ended || node === root ? [] : [node.id]));
    const state = this.#state();
    const outlook = policy.outlook(state, open);
    if (outlook === undefined || outlook.most >= outlook.needed) return [];
    const found = new Map<Panel, readonly string[]>();
    for (const panel of panels) {
      const { node, unfinished } = panel;
      const isAwaited = unfinished.some(({ id, model }) =>
        neverSkip.includes(id) || neverSkip.includes(model)
      );
      if (!panel.open || unfinished.length === 0 || isAwaited || node.agents.length < 2) continue;
      const own = state.votes.filter(({ agent }) => panel.answers.some((answer) => answer.agent === agent));
      const agreeing = policy.settled(own, unfinished.length);
      if (agreeing !== undefined) found.set(panel, agreeing);
    }
    dropShared(found, panels);
    return [...found].map(([{ node, unfinished }, agreeing]) => {
      const { needed, most } = outlook;
      const cut = unfinished.map(({ id }) => id);
      return { node, figures: { cut, agreeing: [...agreeing], open: [...open], needed, most } };
    });
  }

  /** The run is over, or its root has begun to answer. */
  close(): void {
    this.#open = false;
  }

  get #question(): string {
    return this.#questionText ??= this.#options.question();
  }

  /** True where a vote has changed, so that a decision was made. */
  #read(call: AgentCall, ballot: { text: string; whole: boolean; cut: boolean }): boolean {
    const { policy } = this.#options;
    const { id } = call.node;
    const answer = policy.read(ballot, this.#question);
    const known = this.#votes.get(id)?.answer;
    const same = answer?.value === known?.value && answer?.kind === known?.kind;
    const { restarts } = call.log;
    if (same && (answer === undefined || this.#votes.get(id)?.restarts === restarts)) return false;
    // An unfinished text that has said its answer may go on to explain it: only its end takes it back.
    if (answer === undefined && !ballot.whole) return false;
    if (answer === undefined) this.#votes.delete(id);
    else this.#votes.set(id, { call, answer, restarts });
    this.#dropRestarted();
    this.#decide();
    return true;
  }

  /** Agents that read nobody, have said nothing yet and still may. */
  #unheard(): string[] {
    return this.#leafCalls.flatMap(({ ended, node: { id } }) => ended || this.#votes.has(id) ? [] : [id]);
  }

  /** What an agent had said before it began anew is nobody's any more. */
  #dropRestarted(): void {
    for (const [id, { call, restarts }] of this.#votes) {
      if (call.log.restarts !== restarts) this.#votes.delete(id);
    }
  }

  #state(): RunVotes {
    const votes = [...this.#votes.values()].map(({ call, answer }): AgentVote => ({
      agent: call.node.id,
      model: call.node.model,
      answer,
      logprobs: call.log.logprobs.length === 0 ? undefined : call.log.logprobs.map(({ logprob }) => logprob),
    }));
    return { votes, leaves: this.#leaves, open: this.#unheard(), bySize: this.#options.bySize };
  }

  #decide(): void {
    const { policy, graph: { agents }, settings, trace } = this.#options;
    const { never_skip: neverSkip } = settings;
    const state = this.#state();
    const { votes } = state;
    const { agent, agreeing, numbers } = policy.decide(state);
    const waitsFor = agents.find(({ id, model }) =>
      (neverSkip.includes(id) || neverSkip.includes(model)) && !this.#votes.has(id)
    );
    if (agent !== undefined) this.#audit?.agreed(votes.length);
    const found = agent === undefined || waitsFor !== undefined ? undefined : this.#answerOf(agent);
    const reached = found !== undefined && "text" in found;
    const exit = reached && this.#audit?.isHeldBack !== true;
    trace.add("consensus_decided", {
      data: {
        exit,
        ...numbers,
        ...(agent === undefined ? {} : { agent }),
        ...(agent !== undefined && waitsFor !== undefined
          ? { reason: `${waitsFor.id} is never skipped` }
          : {}),
        ...(found !== undefined && "reason" in found ? { reason: found.reason } : {}),
        ...(reached && !exit ? this.#audit?.reason : {}),
      },
    });
    this.#records.push({
      cluster: "run",
      metric: exit && numbers["undecided"] === true ? "undecided" : "consensus",
      atMs: trace.nowMs,
      completions: votes.length,
      exit,
      late: false,
      ms: 0,
    });
    if (!reached) return;
    this.close();
    if (exit) this.#options.onReached(found, this.#agreement(found.agent, agreeing));
    else this.#audit?.await(this.#votes.get(found.agent)?.answer);
  }

  /** The whole run has answered: is it what its exit would have? */
  #endAudit(root: AgentCall): void {
    if (!this.#couldEnd || this.#audit === undefined) return;
    const ballot = { text: root.answer, whole: true, cut: root.cut };
    this.#audit.end(this.#options.policy.read(ballot, this.#question));
  }

  #agreement(agent: string, agreeing: readonly string[]): RunAgreement {
    const { policy } = this.#options;
    const answer = this.#votes.get(agent)!.answer;
    return {
      texts: agreeing.map((id) => ({ agent: id, text: this.#textOf(this.#votes.get(id)!.call) })),
      isSaidBy: (text) => policy.says(answer, { text, whole: true, cut: false }, this.#question),
    };
  }

  #textOf(call: AgentCall): string {
    return call.ended ? call.answer : this.#options.policy.given(call.answerSoFar);
  }

  /** The answer that stands for all, or a reason why it cannot. */
  #answerOf(agent: string): PanelAnswer | { readonly reason: string } {
    const vote = this.#votes.get(agent);
    if (vote === undefined) return { reason: `agent ${agent} has no answer` };
    const { call } = vote;
    const text = this.#textOf(call);
    const tokens = call.usage()?.completionTokens ?? 0;
    const cut = call.ended && call.cut;
    const reason = whyNotGiven({ agent, text, cut, tokens }, this.#options.sampling);
    return reason === undefined
      ? { agent, model: call.node.model, text, logprobs: undefined, cut, tokens }
      : { reason };
  }
}

/** Leaves out clusters with a member at work that another cluster, which is not decided, waits for. */
function dropShared(found: Map<Panel, unknown>, panels: readonly Panel[]): void {
  const undecided = panels.filter((panel) => panel.open && !found.has(panel));
  for (let panel = undecided.pop(); panel !== undefined; panel = undecided.pop()) {
    for (const other of found.keys()) {
      if (!other.unfinished.some((agent) => panel!.unfinished.includes(agent))) continue;
      found.delete(other);
      undecided.push(other);
    }
  }
}
