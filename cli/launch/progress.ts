import type { Io } from "../kit/io.ts";
import { colorsOf, LiveRegion } from "../kit/terminal.ts";
import { engineProblemText, type EngineStatus } from "../../launcher/supervise/engine_status.ts";

const WORDS: Readonly<Record<EngineStatus["phase"], string>> = {
  waiting: "waits for engines before it",
  starting: "starting",
  downloading: "downloading the model",
  loading: "loading the weights",
  capturing: "compiling and capturing graphs",
  warming: "generating its first token",
  ready: "ready",
  restarting: "starts again soon",
  failed: "failed",
  stopping: "stopping",
  stopped: "stopped",
};

/** Phase of an engine in words. */
export function phaseText({ phase, percent }: Pick<EngineStatus, "phase" | "percent">): string {
  return `${WORDS[phase]}${percent === undefined ? "" : `, ${percent} %`}`;
}

/** Shows what the engines do: a picture that changes on a terminal, a line for each step elsewhere. */
export class LaunchProgress {
  readonly #io: Io;
  #region: LiveRegion;
  readonly #startMs: number;
  readonly #shown = new Map<string, EngineStatus>();
  #ended = false;

  constructor(io: Io) {
    this.#io = io;
    this.#region = new LiveRegion(io.out);
    this.#startMs = io.clock.now();
  }

  show(status: EngineStatus): void {
    const before = this.#shown.get(status.name);
    this.#shown.set(status.name, status);
    if (this.#region.live && !this.#ended) this.#draw();
    // All wait for a moment; only those that go on waiting would be worth a line, and they are seen by the others'.
    else if (before?.phase !== status.phase && status.phase !== "waiting") this.#print(status);
  }

  /** Leaves the last picture standing; what comes is printed line by line. */
  end(): void {
    this.#ended = true;
    // A new one has drawn nothing that it would take away.
    this.#region = new LiveRegion(this.#io.out);
  }

  #print(status: EngineStatus): void {
    const seconds = Math.round((this.#io.clock.now() - this.#startMs) / 1000);
    const why = status.problem !== undefined && ["restarting", "failed"].includes(status.phase)
      ? `: ${engineProblemText(status)}`
      : "";
    this.#region.print(`${String(seconds).padStart(4)} s  ${status.name}: ${phaseText(status)}${why}`);
  }

  #draw(): void {
    const colors = colorsOf(this.#io.out, this.#io.env);
    const width = Math.max(...[...this.#shown.keys()].map((name) => name.length));
    this.#region.draw([...this.#shown.values()].map((status) => {
      const text = `  ${status.name.padEnd(width)}  ${phaseText(status)}`;
      if (status.phase === "ready") return colors.green(text);
      return status.phase === "failed" ? colors.red(text) : text;
    }));
  }
}
