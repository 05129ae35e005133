import { CanopyError } from "../../base/errors.ts";
import { criticalPath, type CriticalStep } from "./critical_path.ts";
import { drawnRun } from "./drawn_run.ts";
import { drawRun } from "../kit/run_view/tree_view.ts";
import { type Server, streamChat } from "../kit/client.ts";
import type { Io } from "../kit/io.ts";
import { colorsOf, LiveRegion } from "../kit/terminal.ts";
import { seconds } from "../kit/units.ts";
import type { Graph } from "../../router/moa/graph/graph_types.ts";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { Router } from "../../router/router.ts";

const REDRAW_MS = 100;

/** One question asked of one graph. */
export interface DemoRun {
  readonly graph: Graph;
  readonly answer: string;
  readonly record: RunRecord;
  /** From the request to the last byte of the answer, as the client saw it, in ms. */
  readonly latencyMs: number;
  /** From the request to the first text of the answer, in ms. */
  readonly firstTextMs: number;
  readonly criticalPath: readonly CriticalStep[];
}

/** The router of a demonstration and its terminal. */
export interface DemoStage {
  readonly io: Io;
  readonly router: Router;
  readonly server: Server;
  /** Shown times are multiplied by this. */
  readonly timeScale: number;
  /** Nothing of a run stays on the screen when it has ended, nor is anything printed where lines cannot be redrawn. */
  readonly passing?: boolean | undefined;
}

/** Asks over HTTP while the terminal shows what every agent does; elsewhere one line is printed per agent. */
export async function askAndShow(stage: DemoStage, graph: Graph, question: string): Promise<DemoRun> {
  const { io, router } = stage;
  const startMs = io.clock.now();
  const before = new Set(router.services.moa.list().map((record) => record.id));
  const end = new AbortController();
  const watch = new RunWatch(stage, graph, before);
  const drawing = watch.follow(end.signal);
  let answer = "";
  let firstTextMs = NaN;
  try {
    const body = { model: graph.name, messages: [{ role: "user", content: question }] };
    for await (const event of streamChat(io.transport, stage.server, body, io.stop)) {
      if (event.type !== "text") continue;
      if (answer === "") firstTextMs = io.clock.now() - startMs;
      answer += event.text;
    }
  } finally {
    end.abort();
    await drawing;
    watch.finish();
  }
  const latencyMs = io.clock.now() - startMs;
  const record = watch.record();
  if (record === undefined) {
    throw new CanopyError(`The run of ${graph.name} cannot be found`, { code: "run_not_found", status: 500 });
  }
  return { graph, answer, record, latencyMs, firstTextMs, criticalPath: criticalPath(graph, record) };
}

/** Follows the run of one question in the router's records. */
class RunWatch {
  readonly #stage: DemoStage;
  readonly #graph: Graph;
  readonly #before: ReadonlySet<string>;
  readonly #region: LiveRegion;
  readonly #ended = new Set<string>();
  #startMs: number;
  #id: string | undefined;

  constructor(stage: DemoStage, graph: Graph, before: ReadonlySet<string>) {
    this.#stage = stage;
    this.#graph = graph;
    this.#before = before;
    this.#region = new LiveRegion(stage.io.out);
    this.#startMs = stage.io.clock.now();
  }

  record(): RunRecord | undefined {
    const { moa } = this.#stage.router.services;
    this.#id ??= moa.list().find((run) => run.graph === this.#graph.name && !this.#before.has(run.id))?.id;
    if (this.#id === undefined) return undefined;
    return moa.get(this.#id)?.record() ?? moa.list().find((run) => run.id === this.#id);
  }

  async follow(signal: AbortSignal): Promise<void> {
    try {
      while (true) {
        await this.#stage.io.clock.sleep(REDRAW_MS, signal);
        this.#draw();
      }
    } catch {
      // The answer is there, or has failed.
    }
  }

  /** Leaves the last picture standing, unless it shall pass. */
  finish(): void {
    if (this.#stage.passing === true) this.#region.clear();
    else this.#draw();
  }

  #draw(): void {
    const { io, timeScale } = this.#stage;
    const record = this.record();
    if (record === undefined) return;
    const colors = colorsOf(io.out, io.env);
    if (this.#region.live) {
      const nowMs = io.clock.now() - this.#startMs;
      this.#region.draw(
        drawRun(drawnRun(this.#graph, record), { columns: io.out.columns, colors, nowMs, timeScale }),
      );
      return;
    }
    if (this.#stage.passing === true) return;
    for (const agent of record.agents) {
      if (agent.endedAtMs === undefined || this.#ended.has(agent.id)) continue;
      this.#ended.add(agent.id);
      const took = seconds(agent.endedAtMs - (agent.startedAtMs ?? agent.endedAtMs), timeScale);
      const tokens = agent.usage?.completionTokens ?? 0;
      // The reason for which a run was given up is told once, at its end.
      const what = agent.state === "done"
        ? `: ${tokens} tokens in ${took}`
        : agent.state === "failed" && agent.error !== undefined
        ? `: ${agent.error}`
        : "";
      this.#region.print(`  ${this.#graph.name} ${agent.id} (${agent.model}) ${agent.state}${what}`);
    }
  }
}
