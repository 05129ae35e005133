import type { Clock } from "../../base/clock.ts";
import { CanopyError, messageOf } from "../../base/errors.ts";
import type { Transport } from "../../base/transport.ts";
import { LogWatch } from "../logs/log_watch.ts";
import type { PlannedEngine } from "../plan/launch_plan.ts";
import type { EnginePhase, EngineStatus } from "./engine_status.ts";
import { explainExit, explainFailure, type Explanation } from "./explain_failure.ts";
import type { EngineProcess, Exit, Processes } from "./processes.ts";
import { generatesToken, isHealthy, type ReadinessOptions } from "./readiness.ts";
import type { StartGate } from "./start_gate.ts";
import { restartDelayMs, type SuperviseRules } from "./supervise_rules.ts";

/** Time between two looks at an engine that starts. */
const POLL_MS = 250;
/** Time for an engine that has shown a failure to end by itself. */
const SETTLE_MS = 5_000;
/** Time between two looks at an engine that is ready, and how many may find no answer before it counts as hung. */
const WATCH_MS = 10_000;
const MAX_SILENT_LOOKS = 12;
/** Time for the helpers of an engine that has crashed. */
const CRASH_GRACE_MS = 2_000;
/** Lines of the log that are shown with a failure that is not known. */
const SHOWN_LINES = 15;

/** Options of `EngineSupervisor`. */
export interface EngineSupervision {
  readonly engine: PlannedEngine;
  /** Engines that the same process runs. */
  readonly inside: readonly PlannedEngine[];
  readonly processes: Processes;
  readonly clock: Clock;
  readonly transport: Transport;
  /** Sent with each question to an engine, such as the key that it wants; none by default. */
  readonly headersOf?: ((engine: PlannedEngine) => Readonly<Record<string, string>>) | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly gate: StartGate;
  readonly rules: SuperviseRules;
  readonly logFile: string;
  /** A sentence that says why this host cannot listen there; undefined when it can. */
  readonly portProblem: (host: string, port: number) => Promise<string | undefined>;
  readonly onChange: (status: EngineStatus) => void;
  /** The engine answers, for the first time or again. */
  readonly onUp: (engine: PlannedEngine) => void;
  /** The engine has ended without being asked; called at once. */
  readonly onDown: (engine: PlannedEngine, reason: string) => void;
}

/** Keeps one engine running: starts it, waits until it generates, starts it again when it crashes. */
export class EngineSupervisor {
  readonly #options: EngineSupervision;
  readonly #first = Promise.withResolvers<void>();
  readonly #crashesAtMs: number[] = [];
  #status: EngineStatus;
  #process: EngineProcess | undefined;
  #wasReady = false;
  #lastCrash: string | undefined;

  constructor(options: EngineSupervision) {
    const { engine, logFile } = options;
    this.#options = options;
    this.#first.promise.catch(() => {});
    this.#status = {
      name: engine.name,
      phase: "waiting",
      percent: undefined,
      pid: undefined,
      startTime: undefined,
      restarts: 0,
      problem: undefined,
      url: urlOf(engine),
      logFile,
    };
  }

  get status(): EngineStatus {
    return this.#status;
  }

  /** Resolves when the engine is ready for the first time; rejects with a `CanopyError` that explains why it never will. */
  get ready(): Promise<void> {
    return this.#first.promise;
  }

  /** Runs the engine until the signal aborts, which ends it, or until it fails for good. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted) {
        const problem = await this.#runOnce(signal);
        await this.#endGroup(signal.aborted ? this.#options.rules.graceMs : CRASH_GRACE_MS);
        if (signal.aborted) break;
        if (!await this.#mayRestart(problem, signal)) return;
      }
    } catch (error) {
      if (!signal.aborted) this.#fail(messageOf(error), messageOf(error));
    } finally {
      await this.#endGroup(this.#options.rules.graceMs);
      if (signal.aborted) this.#set({ phase: "stopped", pid: undefined, startTime: undefined });
      this.#first.reject(new CanopyError("The launch was stopped", { code: "launch_stopped", status: 500 }));
    }
  }

  /** One life of the engine, from its start to its end; says why it ended. */
  async #runOnce(signal: AbortSignal): Promise<Explanation> {
    const { engine, inside, gate, onUp, onDown } = this.#options;
    this.#set({ phase: "waiting", percent: undefined });
    await gate.enter(engine, signal);
    let problem: Explanation | undefined;
    const watch = new LogWatch(this.#options.clock);
    try {
      problem = await this.#bringUp(watch, signal);
    } finally {
      gate.leave(engine);
    }
    if (problem !== undefined) return problem;
    this.#wasReady = true;
    this.#set({ phase: "ready", percent: undefined, problem: this.#lastCrash });
    for (const one of [engine, ...inside]) onUp(one);
    this.#first.resolve();
    const ended = await this.#watchReady(watch, signal);
    if (!signal.aborted) { for (const one of [engine, ...inside]) onDown(one, ended.sentence); }
    return ended;
  }

  /** Starts the process and waits until it generates; undefined when it does. */
  async #bringUp(watch: LogWatch, signal: AbortSignal): Promise<Explanation | undefined> {
    const { engine, inside, processes, clock, env, logFile, portProblem } = this.#options;
    for (const { host, port } of [engine, ...inside]) {
      if (await portProblem(host, port) === undefined) continue;
      return explainFailure({ ...engine, host, port }, { kind: "port_taken", details: [] }, env);
    }
    this.#set({ phase: "starting", problem: undefined });
    let started: EngineProcess;
    try {
      started = await processes.start({
        command: engine.command,
        logFile,
        onLine: (line) => {
          if (watch.add(line) && this.#isStarting()) this.#showSign(watch);
        },
      });
    } catch (error) {
      const way = engine.image === undefined
        ? `name its command in launch.${engine.family}.command`
        : "use no image";
      const sentence = `${engine.name}: ${messageOf(error)}: install it, or ${way}`;
      return { kind: "not_installed", sentence };
    }
    this.#process = started;
    this.#set({ pid: started.pid, startTime: started.startTime });
    return await this.#whileRunning(watch, signal, async (life) => {
      while (true) {
        await clock.sleep(POLL_MS, life);
        if (await this.#answers(life)) return undefined;
        const hopelessAtMs = watch.hopelessAtMs ?? Infinity;
        if (clock.now() - hopelessAtMs > SETTLE_MS) {
          return this.#explain(watch, { code: undefined, signal: undefined });
        }
        if (clock.now() - watch.progressAtMs > this.#options.rules.readyTimeoutMs) {
          return this.#lateness(watch);
        }
      }
    });
  }

  /** Does this with a signal that also aborts when the process ends; its end is then what comes of it. */
  async #whileRunning<T>(
    watch: LogWatch,
    signal: AbortSignal,
    act: (life: AbortSignal) => Promise<T>,
  ): Promise<T | Explanation> {
    const end = new AbortController();
    let exit: Exit | undefined;
    void this.#process?.exited.then((ended) => {
      exit = ended;
      end.abort(new Error("The engine has ended"));
    });
    try {
      return await act(AbortSignal.any([signal, end.signal]));
    } catch (error) {
      signal.throwIfAborted();
      if (exit === undefined) throw error;
      return this.#explain(watch, exit);
    }
  }

  /** True when all that the process serves is healthy, and a whole server has generated a token. */
  async #answers(signal: AbortSignal): Promise<boolean> {
    const { engine, inside } = this.#options;
    for (const one of [engine, ...inside]) {
      if (!await isHealthy(urlOf(one), this.#asking(one), signal)) return false;
    }
    for (const one of [engine, ...inside]) {
      // A half of a pair generates with its other half only.
      if (one.role !== "whole") continue;
      this.#set({ phase: "warming", percent: undefined });
      const problem = await generatesToken(urlOf(one), this.#asking(one), signal);
      if (problem !== undefined) {
        this.#set({ problem: `${one.name}: ${problem}` });
        return false;
      }
    }
    return true;
  }

  #asking(engine: PlannedEngine): ReadinessOptions {
    const { clock, transport, headersOf } = this.#options;
    return { clock, transport, headers: headersOf?.(engine) };
  }

  /** Waits for the end of an engine that is ready; one that has not answered for minutes is taken for ended. */
  async #watchReady(watch: LogWatch, signal: AbortSignal): Promise<Explanation> {
    const { clock, engine } = this.#options;
    return await this.#whileRunning(watch, signal, async (life): Promise<Explanation> => {
      let silent = 0;
      while (silent < MAX_SILENT_LOOKS) {
        await clock.sleep(WATCH_MS, life);
        silent = await isHealthy(urlOf(engine), this.#asking(engine), life) ? 0 : silent + 1;
      }
      const sentence =
        `${engine.name}: the engine runs, but has not answered its health check ${MAX_SILENT_LOOKS} times`;
      return { kind: "unknown", sentence };
    });
  }

  #explain(watch: LogWatch, exit: Exit): Explanation {
    const { engine, env } = this.#options;
    const failure = watch.failure();
    if (failure !== undefined) return explainFailure(engine, failure, env);
    const known = explainExit(engine, exit, this.#wasReady && this.#status.phase === "ready");
    return { ...known, sentence: this.#withTail(known.sentence, watch) };
  }

  #lateness(watch: LogWatch): Explanation {
    const { engine, rules } = this.#options;
    const sentence =
      `${engine.name}: not ready after ${Math.round(rules.readyTimeoutMs / 1000)} s without progress ` +
      `(${this.#status.phase}${this.#status.problem === undefined ? "" : `; ${this.#status.problem}`}): ` +
      "allow more with --ready-timeout";
    return { kind: "unknown", sentence: this.#withTail(sentence, watch) };
  }

  #withTail(sentence: string, watch: LogWatch): string {
    const lines = watch.tail(SHOWN_LINES);
    if (lines.length === 0) return `${sentence}; it wrote nothing to ${this.#options.logFile}`;
    return `${sentence}\nThe end of ${this.#options.logFile}:\n${
      lines.map((line) => `  ${line}`).join("\n")
    }`;
  }

  /** Decides what follows an end; true when the engine is to be started again, after the wait. */
  async #mayRestart(problem: Explanation, signal: AbortSignal): Promise<boolean> {
    const { clock, engine, rules } = this.#options;
    // A person watches the first start, and can change what is wrong. What was in the way of one that has served, such
    // as a full disk, may have gone; if it has not, the crashes are too many soon.
    if (!this.#wasReady) {
      this.#fail(problem.sentence, problem.sentence);
      return false;
    }
    this.#crashesAtMs.push(clock.now());
    const delayMs = restartDelayMs(this.#crashesAtMs, rules);
    if (delayMs === undefined) {
      const often = `${engine.name}: crashed ${rules.maxCrashes} times within ${
        Math.round(rules.windowMs / 60_000)
      } minutes and stays down`;
      this.#fail(`${often}; the last time: ${problem.sentence}`, often);
      return false;
    }
    this.#lastCrash = problem.sentence;
    const restarts = this.#status.restarts + 1;
    this.#set({
      phase: "restarting",
      problem: problem.sentence,
      restarts,
      pid: undefined,
      startTime: undefined,
    });
    await clock.sleep(delayMs, signal);
    return true;
  }

  #fail(problem: string, message: string): void {
    this.#set({ phase: "failed", problem, pid: undefined, startTime: undefined });
    this.#first.reject(new CanopyError(message, { code: "engine_failed", status: 500 }));
  }

  /** Ends whatever is left of the process group: asks first, then kills. */
  async #endGroup(graceMs: number): Promise<void> {
    const { clock } = this.#options;
    const group = this.#process;
    this.#process = undefined;
    if (group === undefined || !group.groupAlive()) return;
    if (this.#status.phase !== "failed") this.#set({ phase: "stopping", percent: undefined });
    group.signal("SIGTERM");
    const giveUpAtMs = clock.now() + graceMs;
    for (
      let waitMs = 20;
      group.groupAlive() && clock.now() < giveUpAtMs;
      waitMs = Math.min(250, 2 * waitMs)
    ) {
      await clock.sleep(waitMs);
    }
    if (!group.groupAlive()) return;
    group.signal("SIGKILL");
    // The memory of its GPUs is free again when the processes are gone, not before.
    for (let waits = 0; group.groupAlive() && waits < 100; waits++) await clock.sleep(50);
  }

  #isStarting(): boolean {
    const phases: readonly EnginePhase[] = ["starting", "downloading", "loading", "capturing"];
    return phases.includes(this.#status.phase);
  }

  #showSign({ sign }: LogWatch): void {
    if (sign !== undefined) this.#set({ phase: sign.phase, percent: sign.percent });
  }

  #set(change: Partial<EngineStatus>): void {
    this.#status = { ...this.#status, ...change };
    this.#options.onChange(this.#status);
  }
}

/** Address at which an engine answers; one that listens everywhere is asked on the loopback. */
export function urlOf({ host, port }: Pick<PlannedEngine, "host" | "port">): string {
  const reachable = host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host;
  return `http://${reachable.includes(":") ? `[${reachable}]` : reachable}:${port}`;
}
