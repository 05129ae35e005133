import type { Clock } from "../../../base/clock.ts";
import type { JsonObject } from "../../../base/json.ts";
import type { Sampling } from "../../engines/engine.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { AgentGraph, AgentNode } from "../graph/graph_types.ts";
import type { Precursor } from "../prompt/answer_layout.ts";
import type { RunPrompts } from "../prompt/run_prompts.ts";
import type { Trace } from "../record/trace.ts";
import type { WarmControl } from "./warm_control.ts";
import { TRACED_WAITS, TRACED_WARMS, Warmer } from "./warmer.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Trace events of one successor's warms: one when each is sent and one when it returns, its waits, and a few more. */
export const eventsPerSuccessor: number = 2 * TRACED_WARMS + TRACED_WAITS + 8;

/** What the warming of a run needs. */
export interface RunWarmingOptions {
  readonly runId: string;
  readonly graph: AgentGraph;
  readonly prompts: RunPrompts;
  /** A text that occurs in no prompt. */
  readonly key: string;
  readonly model: (node: AgentNode) => {
    readonly served: ServedModel;
    readonly warming: WarmControl;
  };
  readonly sampling: (node: AgentNode) => Sampling;
  /** What the agents that one reads have come to, in declared order. */
  readonly precursors: (node: AgentNode) => readonly Precursor[];
  readonly clock: Clock;
  readonly trace: Trace;
  /** No engine works for a warm any more. */
  readonly onIdle: () => void;
}

/** The warming of one run's successors: who is warmed, and when each of them has to look again. */
export class RunWarming {
  readonly #options: RunWarmingOptions;
  readonly #warmers = new Map<AgentNode, Warmer>();
  /** The successors that read an agent and are warmed. */
  readonly #readers = new Map<AgentNode, Warmer[]>();
  /** Tokens that warms had sent when the prompt was sent; 0 for one that was left cold to compare with. */
  readonly #sent = new Map<AgentNode, number>();

  constructor(options: RunWarmingOptions) {
    this.#options = options;
  }

  /** True while engines work for warms. */
  get busy(): boolean {
    return [...this.#warmers.values()].some((warmer) => warmer.busy);
  }

  /** Places the successors and warms what is certain of their prompts already. */
  start(): void {
    const { graph } = this.#options;
    if (graph.incrementalPrefill.mode === "off") return;
    for (const node of graph.agents) if (node.reads.length > 0) this.#startFor(node);
    for (const warmer of this.#warmers.values()) warmer.start();
  }

  /** An agent has written more tokens. */
  grew(node: AgentNode, tokens: number): void {
    for (const warmer of this.#readers.get(node) ?? []) warmer.grew(node.id, tokens);
  }

  /** An agent has ended, or was dropped. */
  ended(node: AgentNode): void {
    for (const warmer of this.#readers.get(node) ?? []) warmer.poke();
  }

  /** All of an agent's precursors have ended: its warming is over. */
  close(node: AgentNode): void {
    const warmer = this.#warmers.get(node);
    if (warmer === undefined) return;
    this.#sent.set(node, warmer.close().tokens);
    this.#note("warm_stopped", node, warmer.summary());
  }

  /** Where an agent's calls are to go: to its warms. */
  stickyKey(node: AgentNode): string | undefined {
    return this.#warmers.has(node) ? this.#keyOf(node) : undefined;
  }

  /** Tokens computed by an agent's warms. */
  computed(node: AgentNode): number {
    return this.#warmers.get(node)?.computed ?? 0;
  }

  /** An agent's call has its first token, or has ended: a warm that is still under way is of no use. */
  answered(call: AgentCall): void {
    this.#warmers.get(call.node)?.abort(new Error("The prompt itself was answered"));
  }

  /** An agent's call has ended well: what warming it was worth. */
  measure(call: AgentCall): void {
    const warmedTokens = this.#sent.get(call.node);
    const usage = call.usage();
    const { firstTokenMs } = call;
    if (warmedTokens === undefined || usage === undefined || firstTokenMs === undefined) return;
    const { promptTokens, cachedTokens } = usage;
    this.#options.model(call.node).warming.answered({
      promptTokens,
      cachedTokens,
      warmedTokens,
      firstTokenMs,
    });
  }

  /** Ends all warms; `busy` tells when the engines know. */
  abort(reason: unknown): void {
    for (const warmer of this.#warmers.values()) warmer.abort(reason);
  }

  #startFor(node: AgentNode): void {
    const { graph, prompts, key, sampling, precursors, clock, trace, onIdle } = this.#options;
    const { served, warming } = this.#options.model(node);
    const { capabilities } = served.engine;
    const settings = graph.incrementalPrefill;
    if (capabilities.warm === "none") {
      return this.#off(node, { reason: "the engine cannot prefill a prefix" });
    }
    if (settings.mode === "auto") {
      const off = warming.off;
      if (off !== undefined) return this.#off(node, off);
      if (warming.takeControl(capabilities.cachedTokens)) {
        this.#sent.set(node, 0);
        return this.#off(node, { reason: "left cold to compare with" });
      }
    }
    const prompt = prompts.splice({ node, served, sampling: sampling(node) }, {
      slots: graph.slots,
      precursors: () => precursors(node),
      key,
    });
    if ("refusal" in prompt) return this.#off(node, { reason: prompt.refusal });
    const warmer = new Warmer({
      agent: node.id,
      model: served,
      control: warming,
      settings,
      prompt,
      sampling: sampling(node),
      stickyKey: this.#keyOf(node),
      clock,
      trace,
      onIdle,
    });
    this.#warmers.set(node, warmer);
    for (const agent of node.reads.flatMap((cluster) => cluster.agents)) {
      const readers = this.#readers.get(agent);
      if (readers === undefined) this.#readers.set(agent, [warmer]);
      else readers.push(warmer);
    }
  }

  #off(node: AgentNode, data: JsonObject): void {
    this.#note("warm_off", node, data);
  }

  #keyOf(node: AgentNode): string {
    return `${this.#options.runId}/${node.id}`;
  }

  #note(type: string, node: AgentNode, data: JsonObject): void {
    this.#options.trace.add(type, { agent: node.id, data });
  }
}
