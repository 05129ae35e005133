import type { JsonObject } from "../../../base/json.ts";
import type { AgentCall } from "../agent/agent_call.ts";
import type { AgentContext } from "../agent/agent_context.ts";
import type { AgentGraph, AgentNode } from "../graph/graph_types.ts";
import { promptLimit } from "../prompt/context_budget.ts";
import type { Refused } from "../prompt/prompt_layout.ts";
import type { PromptTarget } from "../prompt/run_prompts.ts";
import type { GrowingPrompt } from "./growing_prompt.ts";
import type { ModelAccess } from "./model_access.ts";
import type { WarmControl } from "./warm_control.ts";
import { TRACED_WAITS, TRACED_WARMS, Warmer } from "./warmer.ts";
import { TolledStream } from "./warm_toll.ts";

/** Trace events of one successor's warms: one when each is sent and one when it returns, its waits, and a few more. */
export const eventsPerSuccessor: number = 2 * TRACED_WARMS + TRACED_WAITS + 8;

/** The agents of a run, as its warming needs them. */
export interface WarmedAgents {
  /** The calls of an agent: one, or one for each choice. */
  of(node: AgentNode): readonly AgentCall[];
  target(node: AgentNode): ModelAccess & PromptTarget;
  /** An agent's prompt, which grows with what its precursors write. */
  growing(node: AgentNode): GrowingPrompt | Refused;
  /** True for an agent that may begin to answer before its precursors are done. */
  climbs(node: AgentNode): boolean;
}

/** The warming of one run's successors: who is warmed, and when each of them has to look again. */
export class RunWarming {
  readonly #graph: AgentGraph;
  readonly #agents: WarmedAgents;
  readonly #context: AgentContext;
  readonly #warmers = new Map<AgentNode, Warmer>();
  /** The successors that read an agent and are warmed. */
  readonly #readers = new Map<AgentNode, Warmer[]>();
  /** Tokens that warms had sent when the prompt was sent; 0 for one that was left cold to compare with. */
  readonly #sent = new Map<AgentNode, number>();
  /** By model: why warms are held back while precursors write, as it was said for this run. */
  readonly #held = new Map<WarmControl, JsonObject | undefined>();
  /** What precursors write, as warms delay it. */
  readonly #streams = new Map<AgentNode, TolledStream>();

  constructor(graph: AgentGraph, agents: WarmedAgents, context: AgentContext) {
    this.#graph = graph;
    this.#agents = agents;
    this.#context = context;
  }

  /** Places the successors and warms what is certain of their prompts already. */
  start(): void {
    if (this.#graph.incrementalPrefill.mode === "off") return;
    for (const node of this.#graph.agents) if (node.reads.length > 0) this.#startFor(node);
    for (const [agent, readers] of this.#readers) {
      const { warmControl } = this.#agents.target(agent);
      const stream = new TolledStream(
        this.#context.clock,
        warmControl.worth.toll,
        (worker) => warmControl.warmedOn(worker),
      );
      this.#streams.set(agent, stream);
      for (const call of this.#agents.of(agent)) {
        call.log.subscribe((tokens) => {
          stream.wrote(tokens, call.worker);
          for (const reader of readers) reader.grew(agent.id, tokens);
        });
      }
    }
    for (const [node, warmer] of this.#warmers) {
      // The first words of a step do not say that the whole prompt was read.
      if (!this.#agents.climbs(node)) {
        for (const { log } of this.#agents.of(node)) {
          log.subscribe((tokens) => {
            if (tokens === log.tokens) this.answered(node);
          });
        }
      }
      warmer.start();
    }
  }

  /** An agent has ended, or was dropped. */
  ended(node: AgentNode): void {
    this.#streams.get(node)?.end();
    for (const warmer of this.#readers.get(node) ?? []) warmer.poke();
  }

  /** All of an agent's precursors have ended: its warming is over. */
  close(node: AgentNode): void {
    const warmer = this.#warmers.get(node);
    if (warmer === undefined) return;
    this.#sent.set(node, warmer.close().tokens);
    this.#note("warm_stopped", node, warmer.summary());
  }

  /** The whole prompt begins with fewer of the tokens that were warmed: answers in it were cut. */
  shortened(node: AgentNode, keptTokens: number): void {
    const sent = this.#sent.get(node);
    if (sent !== undefined) this.#sent.set(node, Math.min(sent, keptTokens));
  }

  /** The key by which an agent's calls go where its warms went; undefined for one that is not warmed. */
  stickyKey(node: AgentNode): string | undefined {
    return this.#warmers.has(node) ? this.#keyOf(node) : undefined;
  }

  /** The key by which the steps of an agent's answer, and its warms, go to the same worker. */
  stepKey(node: AgentNode): string {
    return this.#keyOf(node);
  }

  /** Tokens computed by an agent's warms. */
  computed(node: AgentNode): number {
    return this.#warmers.get(node)?.computed ?? 0;
  }

  /** An agent's call has its first token, or has ended: a warm that is still under way is of no use. */
  answered(node: AgentNode): void {
    this.#warmers.get(node)?.abort(new Error("The prompt itself was answered"));
  }

  /** An agent's call has ended well: its first token tells what warming it was worth. */
  measure(call: AgentCall): void {
    const warmedTokens = this.#sent.get(call.node);
    const usage = call.usage();
    const { firstTokenMs } = call;
    if (warmedTokens === undefined || usage === undefined || firstTokenMs === undefined) return;
    // Its first word did not wait for the whole prompt.
    if (call.record().steps !== undefined) return;
    const { promptTokens, cachedTokens } = usage;
    const { warmControl } = this.#agents.target(call.node);
    warmControl.answered({
      promptTokens,
      cachedTokens,
      warmedTokens,
      firstTokenMs,
    });
    this.#weigh(call, { promptTokens, firstTokenMs, control: warmControl });
  }

  /** What warms cost the precursors of a prompt, and what they saved it. */
  #weigh(call: AgentCall, { control, ...times }: {
    readonly control: WarmControl;
    readonly promptTokens: number;
    readonly firstTokenMs: number;
  }): void {
    if (!this.#held.has(control) || !this.#warmers.has(call.node)) return;
    const streams = call.node.reads.flatMap(({ agents }) =>
      agents.flatMap((agent) => this.#streams.get(agent) ?? [])
    );
    if (!streams.some(({ worker }) => worker === call.worker)) return;
    const last = streams.reduce((a, b) => b.lastMs > a.lastMs ? b : a);
    control.worth.answered({
      ...times,
      held: this.#held.get(control) !== undefined,
      delayingTokens: last.worker === call.worker ? last.warmedMeanwhile : 0,
    });
  }

  /** Asked once for each model: all its prompts of a run are warmed alike, so that what they save can be compared. */
  #heldBy(control: WarmControl): JsonObject | undefined {
    if (!this.#held.has(control)) this.#held.set(control, control.worth.begin());
    return this.#held.get(control);
  }

  /** Ends all warms. */
  abort(reason: unknown): void {
    for (const stream of this.#streams.values()) stream.end();
    for (const warmer of this.#warmers.values()) warmer.abort(reason);
  }

  #startFor(node: AgentNode): void {
    const { served, warmControl, sampling } = this.#agents.target(node);
    const { capabilities } = served.engine;
    const settings = this.#graph.incrementalPrefill;
    if (capabilities.warm === "none") {
      return this.#off(node, { reason: "the engine cannot prefill a prefix" });
    }
    if (settings.mode === "auto") {
      const off = warmControl.off;
      if (off !== undefined) return this.#off(node, off);
      if (warmControl.takeControl(capabilities.cachedTokens)) {
        this.#sent.set(node, 0);
        return this.#off(node, { reason: "left cold to compare with" });
      }
    }
    const prompt = this.#agents.growing(node);
    if ("refusal" in prompt) return this.#off(node, { reason: prompt.refusal });
    const warmer = new Warmer({
      agent: node.id,
      model: served,
      control: warmControl,
      settings,
      held: settings.mode === "auto" && settings.chunkTokens === undefined
        ? this.#heldBy(warmControl)
        : undefined,
      prompt,
      sampling,
      limitTokens: promptLimit({ served, sampling }),
      stickyKey: this.#keyOf(node),
      context: this.#context,
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
    return `${this.#context.runId}/${node.id}`;
  }

  #note(type: string, node: AgentNode, data: JsonObject): void {
    this.#context.trace.add(type, { agent: node.id, data });
  }
}
