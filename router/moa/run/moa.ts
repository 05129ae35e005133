import type { Clock } from "../../../base/clock.ts";
import { CanopyError, messageOf } from "../../../base/errors.ts";
import type { Random } from "../../../base/random.ts";
import type { Spans } from "../../tracing/spans.ts";
import type { Config } from "../../../cfgs/schema/config.ts";
import type { EarlyExitConfig } from "../../../cfgs/schema/early_exit.ts";
import { HedgeControl } from "../agent/hedge_control.ts";
import { type EarlyExitServices, ExitPolicies } from "../exit/exit_policies.ts";
import { buildGraphs } from "../graph/build_graph.ts";
import type { AgentGraph, Graph } from "../graph/graph_types.ts";
import type { RunInput } from "../graph/run_input.ts";
import type { RunRecord } from "../record/run_record.ts";
import { beginRunSpan, endRunSpan } from "../record/run_spans.ts";
import { RunStore } from "../record/run_store.ts";
import { EndedRun } from "./ended_run.ts";
import { MoaRun } from "./moa_run.ts";
import type { Run } from "./run.ts";
import type { ModelAccess } from "../warm/model_access.ts";
import { WarmControl } from "../warm/warm_control.ts";
import type { Arrivals } from "../../pool/arrivals.ts";
import { fallbacksOf } from "../../served/fallbacks.ts";
import type { ServedModel } from "../../served/served_model.ts";

/** Characters of each text in a listing of runs. */
const LISTED_TEXT_LENGTH = 400;

/** Options of `createMoa`. */
export interface MoaOptions {
  readonly config: Config;
  /** Built already; by default all graphs of the config are built. */
  readonly graphs?: ReadonlyMap<string, Graph> | undefined;
  readonly clock: Clock;
  readonly random: Random;
  readonly models: ReadonlyMap<string, ServedModel>;
  /** Shared with the relay: requests wait in the order in which they reach the router. */
  readonly arrivals: Arrivals;
  /** Without them every cluster waits for all its members, and a graph that asks for early exit is refused. */
  readonly earlyExit?: EarlyExitServices | undefined;
  /** Traces of runs. */
  readonly spans?: Spans | undefined;
  /** Ended runs whose records are kept; by default what the config says. */
  readonly maxRunsKept?: number | undefined;
  /** Called with the record of each run that has ended. */
  readonly onRunEnded?: ((record: RunRecord) => void) | undefined;
  /** Called with the record of each ended run that is kept here, wherever it has run. */
  readonly onRunKept?: ((record: RunRecord) => void) | undefined;
}

/** Makes the part that runs graphs. Throws 400 `invalid_config` for a graph that cannot be run. */
export function createMoa(options: MoaOptions): Moa {
  return new GraphRunner(options);
}

class GraphRunner implements Moa {
  #graphs: ReadonlyMap<string, Graph>;
  readonly #exitPolicies: ExitPolicies;
  readonly #clock: Clock;
  readonly #random: Random;
  /** Replaced as models change: a run keeps those with which it began. */
  #models: ReadonlyMap<string, ModelAccess> = new Map();
  readonly #running = new Map<string, MoaRun>();
  readonly #store: RunStore;
  readonly #arrivals: Arrivals;
  readonly #spans: Spans | undefined;
  readonly #onRunEnded: ((record: RunRecord) => void) | undefined;
  readonly #onRunKept: ((record: RunRecord) => void) | undefined;
  #closed = false;

  constructor(options: MoaOptions) {
    const { config, clock, random, models } = options;
    this.#exitPolicies = new ExitPolicies(options.earlyExit);
    this.#graphs = this.#checked(options.graphs ?? buildGraphs(config));
    this.#clock = clock;
    this.#random = random.stream("moa");
    this.#arrivals = options.arrivals;
    this.#spans = options.spans;
    this.#onRunEnded = options.onRunEnded;
    this.#onRunKept = options.onRunKept;
    for (const served of models.values()) this.addModel(served);
    this.#store = new RunStore(options.maxRunsKept ?? runsInMemory(config));
  }

  get graphs(): ReadonlyMap<string, Graph> {
    return this.#graphs;
  }

  addModel(served: ServedModel): void {
    const access = {
      served,
      warmControl: new WarmControl(this.#clock, served.pool.gate),
      hedgeControl: new HedgeControl(() => served.config.hedge),
    };
    this.#models = new Map([...this.#models, [served.name, access]]);
  }

  removeModel(name: string): void {
    this.#models = new Map([...this.#models].filter(([key]) => key !== name));
  }

  prepare(config: Config): { commit(): void } {
    const graphs = this.#checked(buildGraphs(config));
    return {
      commit: () => {
        this.#graphs = graphs;
        this.#store.setMaxRuns(runsInMemory(config));
      },
    };
  }

  #checked(graphs: ReadonlyMap<string, Graph>): ReadonlyMap<string, Graph> {
    const all = [...graphs.values()].flatMap((graph) => [graph, ...Object.values(graph.efforts ?? {})]);
    for (const { clusters } of all) {
      for (const { earlyExit } of clusters) this.checkEarlyExit(earlyExit);
    }
    return graphs;
  }

  checkEarlyExit(settings: EarlyExitConfig): void {
    this.#exitPolicies.of(settings);
  }

  start(graph: AgentGraph, input: RunInput, signal: AbortSignal): Run {
    if (this.#closed) {
      throw new CanopyError("Cannot start a run: the server is shutting down", {
        code: "shutting_down",
        status: 503,
        retryAfterSeconds: 1,
      });
    }
    this.#refuseWithoutRoot(graph);
    const id = `run_${this.#random.hex(32)}`;
    const run = this.#make(id, graph, input, signal);
    this.#running.set(id, run);
    run.ended.then(() => {
      this.#running.delete(id);
      const record = run.record();
      this.keep(record);
      this.#onRunEnded?.(record);
    });
    run.start();
    return run;
  }

  /** Throws as `MoaRun` does for a request that does not fit the graph; its span has then ended. */
  #make(id: string, graph: AgentGraph, input: RunInput, signal: AbortSignal): MoaRun {
    const { headers = {} } = input;
    const span = this.#spans && beginRunSpan(this.#spans, { id, graph: graph.name, headers });
    try {
      return new MoaRun({
        id,
        arrival: this.#arrivals.next(),
        graph,
        input,
        models: this.#models,
        exitPolicies: this.#exitPolicies,
        clock: this.#clock,
        random: this.#random.stream(id),
        spans: this.#spans,
        span,
        signal,
      });
    } catch (error) {
      if (span !== undefined) {
        endRunSpan(span, { state: "failed" }, error instanceof Error ? error : new Error(messageOf(error)));
      }
      throw error;
    }
  }

  /** Nobody need work for an answer that no worker can write. Throws 503 `no_worker`. */
  #refuseWithoutRoot({ name, root }: AgentGraph): void {
    if (root === undefined || this.#models.get(root.model)?.served.pool.ready !== false) return;
    if (fallbacksOf(root.model, (model) => this.#models.get(model)?.served).some(({ pool }) => pool.ready)) {
      return;
    }
    throw new CanopyError(
      `Cannot run ${name}: no worker of model ${root.model}, which writes its answer, can take work; try again later`,
      { code: "no_worker", status: 503, retryAfterSeconds: 1 },
    );
  }

  keep(record: RunRecord): void {
    this.#store.add(record);
    this.#onRunKept?.(record);
  }

  list(): readonly RunRecord[] {
    const running = [...this.#running.values()].map((run) => run.record()).reverse();
    return [...running, ...this.#store.records()].map(withoutTexts);
  }

  get(id: string): Run | undefined {
    const running = this.#running.get(id);
    const record = this.#store.get(id);
    return running ?? (record === undefined ? undefined : new EndedRun(record));
  }

  async close(reason: unknown): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#running.values()].map((run) => run.cancel(reason)));
  }
}

/** Most ended runs that are kept in memory. */
function runsInMemory({ server }: Config): number {
  return server.records.keep ? server.max_runs_kept : 0;
}

/** A record for a listing: long texts cut, prompts and events left out. */
function withoutTexts(record: RunRecord): RunRecord {
  const agents = record.agents.map((agent) => ({
    ...agent,
    prompt: undefined,
    text: agent.text.slice(0, LISTED_TEXT_LENGTH),
    reasoning: agent.reasoning.slice(0, LISTED_TEXT_LENGTH),
  }));
  return { ...record, agents, events: [] };
}

/** Starts runs of graphs and keeps the records of ended ones. */
export interface Moa {
  readonly graphs: ReadonlyMap<string, Graph>;
  /** Lets graphs of requests use one more model. */
  addModel(served: ServedModel): void;
  /** Runs that begin from now on know it no longer. */
  removeModel(name: string): void;
  /** Looks whether these can be the graphs of runs from now on. Throws 400 `invalid_config` for one that cannot be run. */
  prepare(config: Config): { commit(): void };
  /** Throws 400 `invalid_config`, naming the field, for settings of early exit that cannot be followed here. */
  checkEarlyExit(settings: EarlyExitConfig): void;
  /** Starts a run at once. Throws 400 when the request cannot fit the graph. `signal`: the client has gone. */
  start(graph: AgentGraph, input: RunInput, signal: AbortSignal): Run;
  /** Running first, then ended ones, newest first; without texts of more than the store's bound. */
  list(): readonly RunRecord[];
  get(id: string): Run | undefined;
  /** Keeps the record of a run that has ended elsewhere. */
  keep(record: RunRecord): void;
  /** Cancels all runs; resolves when the engines are idle. */
  close(reason: unknown): Promise<void>;
}
