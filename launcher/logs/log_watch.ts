import type { Clock } from "../../base/clock.ts";
import { type LoggedFailure, loggedFailure, type StartSign, startSign } from "./log_patterns.ts";

/** Lines of the end of a log that are kept: a cause may stand far above what it has caused. */
const KEPT_LINES = 400;

/**
 * Words after which an engine that still runs will not come up: SGLang's front process stays for ever when its port is
 * taken or its scheduler has died.
 */
const DEAD =
  /Received sigquit from a child process|Engine core initialization failed|Scheduler hit an exception/;

/** Watches the log of one start of an engine: progress, hopeless failures, last lines. */
export class LogWatch {
  readonly #clock: Clock;
  readonly #lines: string[] = [];
  #sign: StartSign | undefined;
  #progressAtMs: number;
  #hopelessAtMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#progressAtMs = clock.now();
  }

  /** The last sign of the start. */
  get sign(): StartSign | undefined {
    return this.#sign;
  }

  /** Time of the last progress. */
  get progressAtMs(): number {
    return this.#progressAtMs;
  }

  /** Time when it first showed that the start will not succeed; undefined: it did not. */
  get hopelessAtMs(): number | undefined {
    return this.#hopelessAtMs;
  }

  /** Takes in a line; true when it is a new sign of the start. */
  add(line: string): boolean {
    this.#lines.push(line);
    if (this.#lines.length > KEPT_LINES) this.#lines.shift();
    if (this.#hopelessAtMs === undefined && (DEAD.test(line) || isHopeless(loggedFailure([line])))) {
      this.#hopelessAtMs = this.#clock.now();
    }
    const sign = startSign(line);
    if (sign === undefined) return false;
    const news = sign.phase !== this.#sign?.phase || sign.percent !== this.#sign.percent;
    if (news || sign.phase === "downloading") this.#progressAtMs = this.#clock.now();
    this.#sign = sign;
    return news;
  }

  failure(): LoggedFailure | undefined {
    return loggedFailure(this.#lines);
  }

  tail(count: number): readonly string[] {
    return this.#lines.slice(-count);
  }
}

/** Failures that an engine does not try to get over by itself. */
function isHopeless(failure: LoggedFailure | undefined): boolean {
  switch (failure?.kind) {
    case "port_taken":
    case "no_memory_for_cache":
    case "cache_too_small":
    case "gpu_in_use":
      return true;
    default:
      return false;
  }
}
