import {
  Counter,
  type DistributionValues,
  type FamilyValues,
  Histogram,
  type MetricsText,
} from "../../../base/prometheus.ts";
import type { RunRecord } from "../../moa/record/run_record.ts";

/** Upper bounds in seconds of the time that a decision takes. */
const DECISION_BUCKETS_S = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2, 0.3, 0.5, 1, 2, 5];

/** Calls and agents of a model, and those of them that were needed. */
interface ModelShare {
  calls: number;
  agents: number;
  done: number;
}

/** What `ExitMetrics` has counted, as another thread can be sent it. */
export interface ExitCounts {
  readonly decisions: FamilyValues<number>;
  readonly late: FamilyValues<number>;
  readonly seconds: FamilyValues<DistributionValues>;
  readonly roots: FamilyValues<number>;
  readonly agents: FamilyValues<number>;
  readonly audits: FamilyValues<number>;
  readonly rewrites: FamilyValues<number>;
  readonly efforts: FamilyValues<number>;
  readonly budgets: FamilyValues<number>;
  readonly loops: FamilyValues<number>;
  readonly cuts: FamilyValues<number>;
  readonly hedges: FamilyValues<number>;
  readonly off: readonly (readonly [graph: string, off: boolean])[];
  readonly auditShares: readonly (readonly [graph: string, share: number])[];
  readonly shares: readonly (readonly [model: string, share: Readonly<ModelShare>])[];
}

/** Counts of early exit for GET /metrics: decisions, and how much of each model was needed. */
export class ExitMetrics {
  readonly #decisions = new Counter(
    "canopy_exit_decisions_total",
    "Decisions on early exit, by what was decided: exit or wait.",
  );
  readonly #late = new Counter(
    "canopy_exit_decisions_late_total",
    "Decisions for which a similarity or a verdict was not there in time.",
  );
  readonly #seconds = new Histogram(
    "canopy_exit_decision_seconds",
    "Time from an answer to the decision on it.",
    DECISION_BUCKETS_S,
  );
  readonly #roots = new Counter("canopy_roots_skipped_total", "Runs answered without their root.");
  readonly #agents = new Counter(
    "canopy_agents_total",
    "Agents of runs that ended well, by what became of them; skipped: their answer was not needed.",
  );
  readonly #audits = new Counter(
    "canopy_exit_audits_total",
    "Exits that were held back to see the whole run, by what it answered: the same, or another answer.",
  );
  readonly #rewrites = new Counter(
    "canopy_rewrites_total",
    "Agreed answers that a model was to write up, by what was given: the rewrite, or the text of one that agrees.",
  );
  readonly #efforts = new Counter(
    "canopy_efforts_total",
    "Runs by the effort that their requests asked for.",
  );
  readonly #budgets = new Counter(
    "canopy_budgets_total",
    "Runs with a budget, by the limit that ended them or kept agents from starting; none: they stayed below.",
  );
  readonly #loops = new Counter(
    "canopy_agents_looped_total",
    "Agents that were ended because they repeated themselves.",
  );
  readonly #cuts = new Counter(
    "canopy_agents_cut_total",
    "Agents that were ended because their votes could not matter any more.",
  );
  readonly #hedges = new Counter(
    "canopy_hedges_total",
    "Second attempts at agents' answers, by outcome: won (it was the agent's answer), lost or failed.",
  );
  /** By graph: true where the audit has switched exits off. */
  readonly #off = new Map<string, boolean>();
  /** By graph: share of the exits that is audited. */
  readonly #auditShares = new Map<string, number>();
  /** By model. */
  readonly #shares = new Map<string, ModelShare>();

  /** Counts a run that has ended. */
  add(
    graph: string,
    { state, exits, usage, agents, audit, effort, rewrite, cuts, rootSkipped }: RunRecord,
  ): void {
    if (usage.spent !== undefined) this.#budgets.add({ graph, limit: usage.spent.endedBy ?? "none" });
    if (effort !== undefined) this.#efforts.add({ graph, effort });
    if (audit !== undefined) {
      this.#off.set(graph, audit.off);
      this.#auditShares.set(graph, audit.share);
    }
    if (audit?.found !== undefined) this.#audits.add({ graph, found: audit.found });
    for (const { cluster, metric, exit, late, ms } of exits) {
      const labels = { graph, layer: layerOf(cluster), metric };
      this.#decisions.add({ ...labels, decision: exit ? "exit" : "wait" });
      if (late) this.#late.add(labels);
      this.#seconds.observe({ metric }, ms / 1000);
    }
    for (const { model, calls } of usage.parts) this.#of(model).calls += calls;
    for (const { model, endedFor, hedge } of agents) {
      if (endedFor !== undefined) this.#loops.add({ model });
      if (hedge !== undefined) this.#hedges.add({ model, outcome: hedge.outcome ?? "lost" });
    }
    for (const { agent } of cuts ?? []) {
      this.#cuts.add({ graph, model: agents.find(({ id }) => id === agent)?.model ?? "" });
    }
    if (state !== "done") return;
    if (rootSkipped) this.#roots.add({ graph });
    if (rewrite !== undefined) this.#rewrites.add({ graph, given: rewrite.given });
    for (const agent of agents) {
      const became = agent.state === "done" ? "done" : agent.state === "failed" ? "failed" : "skipped";
      this.#agents.add({ model: agent.model, became });
      const share = this.#of(agent.model);
      share.agents++;
      if (became === "done") share.done++;
    }
  }

  values(): ExitCounts {
    return {
      decisions: this.#decisions.values(),
      late: this.#late.values(),
      seconds: this.#seconds.values(),
      roots: this.#roots.values(),
      agents: this.#agents.values(),
      audits: this.#audits.values(),
      rewrites: this.#rewrites.values(),
      efforts: this.#efforts.values(),
      budgets: this.#budgets.values(),
      loops: this.#loops.values(),
      cuts: this.#cuts.values(),
      hedges: this.#hedges.values(),
      off: [...this.#off],
      auditShares: [...this.#auditShares],
      shares: [...this.#shares],
    };
  }

  absorb(
    {
      decisions,
      late,
      seconds,
      roots,
      agents,
      audits,
      rewrites,
      efforts,
      budgets,
      loops,
      cuts,
      hedges,
      off,
      auditShares,
      shares,
    }: ExitCounts,
  ): void {
    this.#audits.absorb(audits);
    this.#rewrites.absorb(rewrites);
    this.#efforts.absorb(efforts);
    this.#budgets.absorb(budgets);
    this.#loops.absorb(loops);
    this.#cuts.absorb(cuts);
    this.#hedges.absorb(hedges);
    for (const [graph, isOff] of off) this.#off.set(graph, isOff || this.#off.get(graph) === true);
    for (const [graph, share] of auditShares) {
      this.#auditShares.set(graph, Math.max(share, this.#auditShares.get(graph) ?? 0));
    }
    this.#decisions.absorb(decisions);
    this.#late.absorb(late);
    this.#seconds.absorb(seconds);
    this.#roots.absorb(roots);
    this.#agents.absorb(agents);
    for (const [model, { calls, agents, done }] of shares) {
      const own = this.#of(model);
      own.calls += calls;
      own.agents += agents;
      own.done += done;
    }
  }

  write(text: MetricsText): void {
    const families = [this.#decisions, this.#late, this.#seconds, this.#roots, this.#agents, this.#audits];
    const others = [this.#rewrites, this.#efforts, this.#budgets, this.#loops, this.#cuts, this.#hedges];
    for (const family of [...families, ...others]) family.write(text);
    text.gauge(
      "canopy_exits_switched_off",
      "1 where audited exits answered too often other than whole runs, so that there are none any more.",
      [...this.#off].map(([graph, off]) => [{ graph }, off ? 1 : 0] as const),
    );
    text.gauge(
      "canopy_exit_audit_share",
      "Share of the exits that is held back now to see the whole run: all of them, 1, while there is a doubt.",
      [...this.#auditShares].map(([graph, share]) => [{ graph }, share] as const),
    );
    const shares = [...this.#shares];
    const calls = shares.reduce((sum, [, share]) => sum + share.calls, 0);
    text.gauge(
      "canopy_call_share",
      "Share of a model in all engine calls of runs.",
      shares.map(([model, share]) => [{ model }, calls && share.calls / calls] as const),
    );
    text.gauge(
      "canopy_activation_share",
      "Of the agents of a model, in runs that ended well: the share that answered.",
      shares.filter(([, { agents }]) => agents > 0)
        .map(([model, { agents, done }]) => [{ model }, done / agents] as const),
    );
  }

  #of(model: string): ModelShare {
    let share = this.#shares.get(model);
    if (share === undefined) this.#shares.set(model, share = { calls: 0, agents: 0, done: 0 });
    return share;
  }
}

/** The layer in a cluster's id; in a graph without layers `none`. */
function layerOf(cluster: string): string {
  if (cluster === "run") return "run";
  return /^l(\d{1,4})\.c\d+$/.exec(cluster)?.[1] ?? "none";
}
