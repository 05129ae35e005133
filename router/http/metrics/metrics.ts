import type { Clock } from "../../../base/clock.ts";
import {
  Counter,
  type DistributionValues,
  type FamilyValues,
  Histogram,
  type MetricsText,
} from "../../../base/prometheus.ts";
import { byModel, type Counts } from "./by_model.ts";
import { type ExitCounts, ExitMetrics } from "./exit_metrics.ts";
import { type HttpCounts, HttpMetrics } from "./http_metrics.ts";
import { type ModelCounts, ModelMetrics } from "./model_metrics.ts";
import { ReloadMetrics } from "./reload_metrics.ts";
import { type RetryCounts, RetryMetrics } from "./retry_metrics.ts";
import type { RunRecord } from "../../moa/record/run_record.ts";
import type { Run } from "../../moa/run/run.ts";

/** Upper bounds in seconds of the duration histogram. */
const DURATION_BUCKETS_S = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640];

/** Upper bounds in seconds of the time between two tokens: from small models on a processor to large ones under load. */
const TOKEN_BUCKETS_S = [
  0.001,
  0.0025,
  0.005,
  0.01,
  0.015,
  0.02,
  0.03,
  0.04,
  0.05,
  0.075,
  0.1,
  0.15,
  0.2,
  0.3,
  0.5,
  1,
  2.5,
];

/** What `Metrics` has counted, as another thread can be sent it. */
export interface MetricsCounts {
  readonly requests: FamilyValues<number>;
  readonly refusals: FamilyValues<number>;
  readonly fallbacks: FamilyValues<number>;
  readonly agentCalls: FamilyValues<number>;
  readonly failovers: FamilyValues<number>;
  readonly warmsHeld: FamilyValues<number>;
  readonly tokens: FamilyValues<number>;
  readonly cost: FamilyValues<number>;
  readonly runSeconds: FamilyValues<DistributionValues>;
  readonly tokenSeconds: FamilyValues<DistributionValues>;
  readonly exits: ExitCounts;
  readonly http: HttpCounts;
  readonly models: ModelCounts;
  readonly retries: RetryCounts;
}

/** Numbers of one thread, of a router that has several. */
export interface ThreadCounts {
  /** False for the sum of those that have died. */
  readonly alive: boolean;
  readonly metrics: MetricsCounts;
  readonly requestsInFlight: number;
  /** Requests that got a place, and those that were turned away. */
  readonly places: { readonly allowed: number; readonly rejected: number };
  /** By model: who makes the tokens of its prompts. */
  readonly tokensBy: readonly (readonly [model: string, by: string])[];
  /** Whether what replicas count together can be reached; undefined where there is no such thing. */
  readonly keyStoreUp?: boolean | undefined;
}

/**
 * Counts of requests and runs for GET /metrics. Labels are names from the config and a few fixed words, so the number
 * of series is bounded.
 */
export class Metrics {
  readonly #clock: Clock;
  readonly #requests = new Counter("canopy_requests_total", "Requests that ended, by model and outcome.");
  /** Series of `#requests`. */
  readonly #ended = new Map<string, Map<Outcome, { value: number }>>();
  readonly #refusals = new Counter(
    "canopy_key_refusals_total",
    "Requests that were refused because their API key had reached a limit, by the key's name.",
  );
  readonly #fallbacks = new Counter(
    "canopy_fallbacks_total",
    "Requests and agents for which another model was asked because no worker of their own could answer, by reason.",
  );
  readonly #agentCalls = new Counter("canopy_agent_calls_total", "Engine calls of runs, by model.");
  readonly #failovers = new Counter(
    "canopy_agent_failovers_total",
    "Answers of agents that broke off, by model and what came of it: resumed elsewhere, or restarted.",
  );
  readonly #warmsHeld = new Counter(
    "canopy_warms_held_total",
    "Prompts that were not read ahead while their precursors wrote on the same worker, by why.",
  );
  readonly #tokens = new Counter("canopy_tokens_total", "Tokens of runs as the engines counted them.");
  readonly #cost = new Counter(
    "canopy_cost_total",
    "Cost of the prompts and answers of runs, by the prices of their models.",
  );
  readonly #runSeconds = new Histogram(
    "canopy_run_duration_seconds",
    "Time from the start of a run to its end.",
    DURATION_BUCKETS_S,
  );
  readonly #tokenSeconds = new Histogram(
    "canopy_inter_token_seconds",
    "Time between two tokens of a root's answer; of several that come at once, each has its share.",
    TOKEN_BUCKETS_S,
  );
  readonly #exits = new ExitMetrics();
  readonly http: HttpMetrics;
  readonly models: ModelMetrics;
  readonly retries = new RetryMetrics();
  readonly reloads: ReloadMetrics;

  /** `reloads`: those of the router that the numbers of several threads are added up for. */
  constructor(clock: Clock, reloads = new ReloadMetrics(clock)) {
    this.#clock = clock;
    this.http = new HttpMetrics(clock);
    this.models = new ModelMetrics(clock);
    this.reloads = reloads;
  }

  /** Counts a request that has ended. `model`: a configured name, or `unknown`. */
  requestEnded(model: string, outcome: Outcome): void {
    let ended = this.#ended.get(model);
    if (ended === undefined) this.#ended.set(model, ended = new Map());
    let series = ended.get(outcome);
    if (series === undefined) ended.set(outcome, series = this.#requests.series({ model, outcome }));
    series.value++;
  }

  /** Counts a request that was refused by a limit of its key. */
  keyRefused(key: string, limit: "requests" | "tokens" | "concurrent"): void {
    this.#refusals.add({ key, limit });
  }

  /** Counts what was asked of the model `to` instead of another one. */
  fellBack(model: string, to: string, reason: string): void {
    this.#fallbacks.add({ model, to, reason });
  }

  /** Follows a run to its end and counts what it used. */
  followRun(graph: string, run: Run): void {
    const startedMs = this.#clock.now();
    this.#timeTokens(graph, run);
    void run.ended.then(() => {
      this.#runSeconds.observe({ graph }, (this.#clock.now() - startedMs) / 1000);
      const record = run.record();
      this.#exits.add(graph, record);
      this.#countHeld(record);
      for (const { model, resumes, restarts, fallback } of record.agents) {
        if (fallback !== undefined) this.fellBack(model, fallback.model, fallback.reason);
        if (resumes > 0) this.#failovers.add({ model, kind: "resumed" }, resumes);
        if (restarts > 0) this.#failovers.add({ model, kind: "restarted" }, restarts);
      }
      for (const [model, counts] of byModel(run.usage().parts)) {
        this.#agentCalls.add({ model }, counts.calls);
        const kinds = {
          prompt: counts.promptTokens,
          cached: counts.cachedTokens ?? 0,
          completion: counts.completionTokens,
          reasoning: counts.reasoningTokens,
          wasted: counts.wastedTokens,
          warm: counts.warmTokens,
          cut: counts.cutTokens,
          ...splicedKinds(counts),
          saved_estimate: counts.savedTokens,
        };
        for (const [kind, tokens] of Object.entries(kinds)) this.#tokens.add({ model, kind }, tokens);
        if (counts.cost !== undefined) this.#cost.add({ model }, counts.cost);
      }
    });
  }

  #countHeld({ agents, events }: RunRecord): void {
    for (const { type, agent, data } of events) {
      const why = data?.["for"];
      if (type !== "warm_held" || why !== "precursors" && why !== "comparison") continue;
      const model = agents.find(({ id }) => id === agent)?.model;
      if (model !== undefined) this.#warmsHeld.add({ model, for: why });
    }
  }

  /** Observes the time between the tokens of a run's root while it writes. */
  #timeTokens(graph: string, run: Run): void {
    const seconds = this.#tokenSeconds.series({ graph }).value;
    const lastMs = new Map<number, number>();
    run.onRootTokens((index, tokens) => {
      const nowMs = this.#clock.now();
      const beforeMs = lastMs.get(index);
      lastMs.set(index, nowMs);
      if (beforeMs !== undefined) seconds.observe((nowMs - beforeMs) / 1000 / tokens, tokens);
    });
  }

  values(): MetricsCounts {
    return {
      requests: this.#requests.values(),
      refusals: this.#refusals.values(),
      fallbacks: this.#fallbacks.values(),
      agentCalls: this.#agentCalls.values(),
      failovers: this.#failovers.values(),
      warmsHeld: this.#warmsHeld.values(),
      tokens: this.#tokens.values(),
      cost: this.#cost.values(),
      runSeconds: this.#runSeconds.values(),
      tokenSeconds: this.#tokenSeconds.values(),
      exits: this.#exits.values(),
      http: this.http.values(),
      models: this.models.values(),
      retries: this.retries.values(),
    };
  }

  /** Adds what was counted elsewhere. */
  absorb(counts: MetricsCounts): void {
    this.#requests.absorb(counts.requests);
    this.#refusals.absorb(counts.refusals);
    this.#fallbacks.absorb(counts.fallbacks);
    this.#agentCalls.absorb(counts.agentCalls);
    this.#failovers.absorb(counts.failovers);
    this.#warmsHeld.absorb(counts.warmsHeld);
    this.#tokens.absorb(counts.tokens);
    this.#cost.absorb(counts.cost);
    this.#runSeconds.absorb(counts.runSeconds);
    this.#tokenSeconds.absorb(counts.tokenSeconds);
    this.#exits.absorb(counts.exits);
    this.http.absorb(counts.http);
    this.models.absorb(counts.models);
    this.retries.absorb(counts.retries);
  }

  /** Writes what was counted so far. */
  write(text: MetricsText): void {
    const calls = [
      this.#requests,
      this.#refusals,
      this.#fallbacks,
      this.#agentCalls,
      this.#failovers,
      this.#warmsHeld,
      this.#tokens,
      this.#cost,
    ];
    for (const family of [...calls, this.#runSeconds, this.#tokenSeconds, this.#exits]) family.write(text);
    this.http.write(text);
    this.models.write(text);
    this.retries.write(text);
    this.reloads.write(text);
  }
}

/** Spliced tokens and those of them that were cached, or those of which nobody knows. */
function splicedKinds({ splicedTokens, splicedCachedTokens: cached }: Counts): Record<string, number> {
  return cached === undefined
    ? { spliced_unreported: splicedTokens }
    : { spliced: splicedTokens, spliced_cached: cached };
}

/** The end of a request: `cancelled` by the client or the drain; `stream_error` after the head was sent. */
export type Outcome = "ok" | "client_error" | "server_error" | "cancelled" | "stream_error";
