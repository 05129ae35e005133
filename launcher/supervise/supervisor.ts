import { join } from "node:path";
import { CanopyError } from "../../base/errors.ts";
import type { LaunchPlan, PlannedEngine } from "../plan/launch_plan.ts";
import type { EngineStatus } from "./engine_status.ts";
import { type EngineSupervision, EngineSupervisor } from "./engine_supervisor.ts";
import { StartGate } from "./start_gate.ts";

/** Options of `Supervisor`. */
export interface SupervisorOptions
  extends Omit<EngineSupervision, "engine" | "inside" | "gate" | "logFile" | "onUp" | "onDown"> {
  readonly plan: LaunchPlan;
  /** Folder of the engines' logs. */
  readonly logFolder: string;
  readonly freeHostBytes: () => number;
}

/** Listener for engines that come and go after the start. */
export interface UpsAndDowns {
  up(engine: PlannedEngine): void;
  down(engine: PlannedEngine, reason: string): void;
}

/** All engines of a plan: started as far as possible at once, kept running, stopped together. */
export class Supervisor {
  readonly #engines: readonly EngineSupervisor[];
  readonly #stop = new AbortController();
  #running: Promise<unknown> | undefined;
  #listener: UpsAndDowns | undefined;
  /** Engines that are down, with the reason. */
  readonly #down = new Map<PlannedEngine, string>();

  constructor(options: SupervisorOptions) {
    const { plan, freeHostBytes, logFolder } = options;
    const far = plan.engines.find((engine) => engine.nodes > 1);
    if (far !== undefined) {
      throw new CanopyError(
        `${far.name} spans ${far.nodes} hosts, which cannot be started from here: use canopy plan --emit kubernetes or slurm`,
        { code: "cannot_launch", status: 500 },
      );
    }
    const gate = new StartGate(freeHostBytes);
    this.#engines = plan.engines.filter((engine) => engine.within === undefined).map((engine) =>
      new EngineSupervisor({
        ...options,
        engine,
        inside: plan.engines.filter((other) => other.within === engine.name),
        gate,
        logFile: join(logFolder, `${engine.name}.log`),
        onUp: (one) => {
          this.#down.delete(one);
          this.#listener?.up(one);
        },
        onDown: (one, reason) => {
          this.#down.set(one, reason);
          this.#listener?.down(one, reason);
        },
      })
    );
  }

  get statuses(): readonly EngineStatus[] {
    return this.#engines.map((engine) => engine.status);
  }

  /** Starts all engines; resolves when all are ready. Rejects with the first one's failure, or the signal's reason. */
  async start(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    this.#running = Promise.all(this.#engines.map((engine) => engine.run(this.#stop.signal)));
    const aborted = Promise.withResolvers<never>();
    const onAbort = () => aborted.reject(signal.reason);
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      await Promise.race([Promise.all(this.#engines.map((engine) => engine.ready)), aborted.promise]);
    } finally {
      signal.removeEventListener("abort", onAbort);
    }
  }

  /** Tells from now on who comes and goes; those that are down already at once. */
  tell(listener: UpsAndDowns): void {
    this.#listener = listener;
    for (const [engine, reason] of this.#down) listener.down(engine, reason);
  }

  /** Asks all engines to end and waits until none of their processes is left. */
  async stop(): Promise<void> {
    this.#stop.abort(new Error("The launch is being stopped"));
    await this.#running;
  }
}
