import type { Clock } from "../../../base/clock.ts";
import type { PriceConfig } from "../../../cfgs/schema/config.ts";
import { costOfTokens, type PaidTokens } from "../record/cost.ts";
import type { RunLimits } from "../graph/run_input.ts";
import type { Trace } from "../record/trace.ts";
import type { AgentUsage, Spent } from "../record/usage.ts";

/** A limit of a budget. */
type Limit = Spent["endedBy"];

/** Options of a `RunBudget`. */
export interface RunBudgetOptions {
  readonly limits: RunLimits;
  /** Tokens that an answer is expected to have, unless its `max_tokens` are fewer. */
  readonly answerTokens: number;
  /** Of a model, by its key. */
  readonly priceOf: (model: string) => PriceConfig | undefined;
  /** Of everything that engines have done for the run so far; of one agent's models the present one last. */
  readonly usages: () => readonly AgentUsage[];
  readonly clock: Clock;
  readonly trace: Trace;
  /** True once the answer is written, though a slow reader may have yet to read it: no limit ends it any more. */
  readonly isWritten: () => boolean;
  /** Called once: a limit is reached. */
  readonly onSpent: (limit: NonNullable<Limit>) => void;
}

/** An agent that is to start. */
export interface PlannedAgent {
  readonly id: string;
  readonly model: string;
  /** Estimate of its prompt's tokens. */
  readonly promptTokens: number;
  readonly maxTokens: number | undefined;
}

interface Cost {
  readonly tokens: number;
  readonly cost: number;
}

/** Limits of one run: which agents may start, when it has to end, and what it has spent. */
export class RunBudget {
  readonly #options: RunBudgetOptions;
  readonly #planned = new Map<string, PlannedAgent>();
  /** Agents that have started and not ended. */
  readonly #working = new Set<string>();
  #endedBy: Limit;
  #isOver = false;
  #cancelTimer = () => {};

  constructor(options: RunBudgetOptions) {
    this.#options = options;
  }

  /** Its time begins. */
  start(): void {
    const { limits: { latencyMs }, clock } = this.#options;
    if (latencyMs !== undefined) {
      this.#cancelTimer = clock.timer(latencyMs, () => this.#reached("latency_ms"));
    }
  }

  /** True for an agent that may start: the first one, and those whose prompt and expected answer fit into what is left. */
  admits(agent: PlannedAgent): boolean {
    const { limits, trace } = this.#options;
    const spent = this.#total();
    const open = [...this.#working].map((id) => this.#rest(id));
    const { model, promptTokens } = agent;
    const own = this.#costOf(model, { promptTokens, completionTokens: this.#answerOf(agent) });
    const sum = (of: (cost: Cost) => number) =>
      of(spent) + of(own) + open.reduce((all, one) => all + of(one), 0);
    const limit = this.#planned.size === 0
      ? undefined
      : sum(({ tokens }) => tokens) > (limits.tokens ?? Infinity)
      ? "tokens"
      : sum(({ cost }) => cost) > (limits.cost ?? Infinity)
      ? "cost"
      : undefined;
    if (limit !== undefined) {
      this.#endedBy ??= limit;
      trace.add("budget_refused", {
        agent: agent.id,
        data: { limit, spent_tokens: spent.tokens, planned_tokens: own.tokens },
      });
      return false;
    }
    this.#planned.set(agent.id, agent);
    this.#working.add(agent.id);
    return true;
  }

  /** An agent has ended. */
  ended(id: string): void {
    this.#working.delete(id);
  }

  /** Something has been written. */
  check(): void {
    const { limits: { tokens = Infinity, cost = Infinity } } = this.#options;
    if (this.#isOver || tokens === Infinity && cost === Infinity) return;
    const spent = this.#total();
    if (spent.tokens >= tokens) this.#reached("tokens");
    else if (spent.cost >= cost) this.#reached("cost");
  }

  /** What was spent until `atMs` from the run's start. */
  spent(atMs: number): Spent {
    const { tokens, cost } = this.#total();
    const priced = this.#options.limits.cost !== undefined;
    return { latencyMs: atMs, tokens, cost: priced ? cost : undefined, endedBy: this.#endedBy };
  }

  /** The run is over. */
  close(): void {
    this.#isOver = true;
    this.#cancelTimer();
  }

  #reached(limit: NonNullable<Limit>): void {
    if (this.#isOver || this.#options.isWritten()) return;
    this.#endedBy ??= limit;
    this.close();
    this.#options.onSpent(limit);
  }

  #total(): Cost {
    let tokens = 0;
    let cost = 0;
    const usages = this.#options.usages();
    const present = new Set(new Map(usages.map((usage) => [usage.agent, usage])).values());
    for (const usage of usages) {
      const { agent, model, calls } = usage;
      // An engine that has not ended yet mostly has not said how long its prompt is.
      const promptTokens = usage.promptTokens === 0 && calls > 0 && present.has(usage)
        ? this.#planned.get(agent)?.promptTokens ?? 0
        : usage.promptTokens;
      const own = this.#costOf(model, { ...usage, promptTokens });
      tokens += own.tokens;
      cost += own.cost;
    }
    return { tokens, cost };
  }

  /** Expected tokens that an agent at work has yet to cost. */
  #rest(id: string): Cost {
    const agent = this.#planned.get(id)!;
    const own = this.#options.usages().findLast((usage) => usage.agent === id);
    const promptTokens = own === undefined || own.calls === 0 ? agent.promptTokens : 0;
    const completionTokens = Math.max(0, this.#answerOf(agent) - (own?.completionTokens ?? 0));
    return this.#costOf(agent.model, { promptTokens, completionTokens });
  }

  #answerOf({ maxTokens = Infinity }: PlannedAgent): number {
    return Math.min(maxTokens, this.#options.answerTokens);
  }

  #costOf(model: string, paid: PaidTokens): Cost {
    const price = this.#options.priceOf(model);
    return {
      tokens: paid.promptTokens + paid.completionTokens,
      cost: price === undefined ? 0 : costOfTokens(price, paid),
    };
  }
}
