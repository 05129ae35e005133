import type { Clock } from "../../../base/clock.ts";
import type { AgentNode } from "../graph/graph_types.ts";
import type { Trace } from "../record/trace.ts";

/** Options of a `StagedStart`. */
export interface StagedStartOptions {
  /** The agents that read nobody, in the order in which they start. */
  readonly stages: readonly (readonly AgentNode[])[];
  /** Longest wait for the answers of a stage, in ms. */
  readonly stageMs: number;
  readonly clock: Clock;
  readonly trace: Trace;
  /** False where it has ended already, without having begun. */
  readonly launch: (node: AgentNode) => boolean;
}

/** Starts a run's leaves stage by stage: the next one when all of a stage have answered or failed, or took too long. */
export class StagedStart {
  readonly #options: StagedStartOptions;
  readonly #working = new Set<AgentNode>();
  #next = 0;
  #cancelTimer = () => {};

  constructor(options: StagedStartOptions) {
    this.#options = options;
  }

  /** Starts the first stage. */
  start(): void {
    this.#startNext("start");
  }

  /** Starts everything that has not been started. */
  startAll(): void {
    while (this.#next < this.#options.stages.length) this.#startNext("all");
  }

  /** An agent has answered or failed, and that did not end the run. */
  ended(node: AgentNode): void {
    if (this.#working.delete(node) && this.#working.size === 0) this.#startNext("ended");
  }

  /** The run is over. */
  close(): void {
    this.#cancelTimer();
    this.#next = this.#options.stages.length;
  }

  #startNext(reason: "start" | "ended" | "late" | "all"): void {
    this.#cancelTimer();
    const { stages, stageMs, clock, trace, launch } = this.#options;
    const stage = stages[this.#next++];
    if (stage === undefined) return;
    trace.add("stage_started", { data: { stage: this.#next, agents: stage.map(({ id }) => id), reason } });
    for (const node of stage) this.#working.add(node);
    if (this.#next < stages.length) this.#cancelTimer = clock.timer(stageMs, () => this.#startNext("late"));
    const ended = stage.filter((node) => !launch(node));
    for (const node of ended) this.ended(node);
  }
}

/** Leaves by model, the smallest model first; `bySize`: keys of models, the largest first. */
export function stagesOf(leaves: readonly AgentNode[], bySize: readonly string[]): AgentNode[][] {
  return [...bySize].reverse().map((model) => leaves.filter((leaf) => leaf.model === model))
    .filter((stage) => stage.length > 0);
}
