import { isJsonObject, type Json, type JsonObject } from "../../base/json.ts";
import type { Io } from "../kit/io.ts";
import { type DrawnAgent, type DrawnRun, drawRun } from "../kit/run_view/tree_view.ts";
import { colorsOf, LiveRegion } from "../kit/terminal.ts";
import { tokensByAgent } from "./agents_printer.ts";
import type { FollowedRun } from "./followed_run.ts";

const STATES: readonly string[] = ["waiting", "queued", "running", "done", "failed", "cancelled"];

/** Draws on the terminal what a run's agents do until its answer begins. */
export class LiveTree {
  readonly #region: LiveRegion;
  readonly #run: FollowedRun;

  constructor(run: FollowedRun, io: Io) {
    this.#run = run;
    this.#region = new LiveRegion(io.out);
    const startMs = io.clock.now();
    const colors = colorsOf(io.out, io.env);
    run.follow((record) => {
      const nowMs = io.clock.now() - startMs;
      const drawn = drawnRunOf(record);
      this.#region.draw(drawRun(drawn, { columns: io.out.columns, colors, nowMs, timeScale: 1 }));
    });
  }

  /** Takes the drawing away. */
  async end(): Promise<void> {
    await this.#run.end();
    this.#region.clear();
  }
}

/** A run's record, as `GET /v1/runs/ID` gives it, for the terminal. */
export function drawnRunOf(run: JsonObject): DrawnRun {
  const tokens = tokensByAgent(run);
  const agents = Array.isArray(run.agents) ? run.agents.filter(isJsonObject) : [];
  return {
    graph: String(run.graph),
    durationMs: numberOf(run.duration_ms),
    tokens: [...tokens.values()].reduce((sum, count) => sum + count, 0),
    agents: agents.map((agent): DrawnAgent => ({
      id: String(agent.id),
      model: String(agent.model),
      reads: [],
      state: STATES.includes(String(agent.state)) ? String(agent.state) as DrawnAgent["state"] : "waiting",
      text: typeof agent.text === "string" ? agent.text : "",
      error: typeof agent.error === "string" ? agent.error : undefined,
      tokens: tokens.get(String(agent.id)) ?? 0,
      startedAtMs: numberOf(agent.started_at_ms),
      firstTokenAtMs: numberOf(agent.first_token_at_ms),
      endedAtMs: numberOf(agent.ended_at_ms),
    })),
  };
}

function numberOf(value: Json | undefined): number | undefined {
  return typeof value === "number" ? value : undefined;
}
