import type { Choice, Collector } from "../engine/choice.ts";
import { SGLANG, versionNumber } from "../engine/sglang_version.ts";
import type { Backend, Generation } from "../server/backend.ts";
import type { ServedRequest } from "../server/reply.ts";
import { GenerateRefusal } from "./errors.ts";

/** Interval at which a request without a stream looks whether its client is still there. */
const POLL_MS = 4000;
/** Until 0.5.17 the abort of an abandoned stream waits so long. */
const LATE_ABORT_MS = 2000;
/** Until then a request without a stream is also looked at with every output, of which there is one per 50 tokens. */
const OUTPUT_MS = 300;

/** Moment at which an abandoned stream is stopped on the engine. */
export type StreamCloseAbort = "at_once" | "late" | "never";

/**
 * Effect of closing a stream, by version: before 0.5.18 an abort 2 s later; in 0.5.18 nothing, since the front end
 * forgets the request before its own abort; from 0.5.23 an abort at once.
 */
export function streamCloseAbort(version: string): StreamCloseAbort {
  const number = versionNumber(version);
  if (number >= SGLANG.newest) return "at_once";
  return number >= 5_018 ? "never" : "late";
}

interface Live {
  readonly rid: string;
  readonly choice: Choice;
  /** False once the front end has forgotten it: an abort by its own id is not passed on any more. */
  known: boolean;
}

/** The sequences that a SGLang server works on, by request id. */
export class SglangRequests {
  readonly #backend: Backend;
  readonly #live = new Map<string, Live>();
  readonly #arriving = new Set<string>();

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** Throws the 400 of an id in use. */
  checkFree(rids: readonly string[]): void {
    for (const rid of rids) {
      if (this.#arriving.has(rid) || this.#live.get(rid)?.known === true) {
        throw new GenerateRefusal(`Duplicate request ID detected: ${rid}`);
      }
    }
  }

  /**
   * Starts answers after the request's time in the front end, unless the client has left by then.
   * The client's leaving later does what the version does.
   */
  async enter(
    request: ServedRequest,
    rids: readonly string[],
    stream: boolean,
    start: () => void,
  ): Promise<void> {
    for (const rid of rids) this.#arriving.add(rid);
    let gone = false;
    request.onClose = () => {
      gone = true;
    };
    await this.#backend.arrive();
    for (const rid of rids) this.#arriving.delete(rid);
    if (gone) return;
    this.#watch(request, rids, stream);
    start();
  }

  start(rid: string, collector: Collector, generation: Generation): Choice {
    const choice = this.#backend.start(collector, generation);
    this.#sweep();
    this.#live.set(rid, { rid, choice, known: true });
    return choice;
  }

  /** Forgets requests whose answers were delivered. */
  done(rids: readonly string[]): void {
    for (const rid of rids) if (this.#live.get(rid)?.choice.finish !== undefined) this.#live.delete(rid);
  }

  /**
   * `/abort_request`: the front end passes on ids that it knows; the scheduler then stops everything whose id starts
   * so.
   */
  abort(rid: string): void {
    if (rid === "" || this.#live.get(rid)?.known !== true) return;
    for (const live of this.#live.values()) if (live.rid.startsWith(rid)) this.#stop(live);
  }

  abortAll(): void {
    for (const live of this.#live.values()) this.#stop(live);
  }

  /** Sets what the client's leaving does to these sequences. */
  #watch(request: ServedRequest, rids: readonly string[], stream: boolean): void {
    const startedMs = this.#backend.options.clock.now();
    request.onClose = () => {
      const behaviour = stream ? streamCloseAbort(this.#backend.version) : "polled";
      if (behaviour === "at_once") return this.#stopAll(rids);
      if (behaviour === "never") {
        for (const rid of rids) {
          const live = this.#live.get(rid);
          if (live !== undefined) live.known = false;
        }
        return;
      }
      const { clock, speedup = 1 } = this.#backend.options;
      const sinceMs = (clock.now() - startedMs) * speedup;
      const decodes = rids.some((rid) => (this.#live.get(rid)?.choice.ids.length ?? 0) > 0);
      const seesOutput = decodes && versionNumber(this.#backend.version) < SGLANG.sparseShapes;
      const delayMs = behaviour === "late"
        ? LATE_ABORT_MS
        : seesOutput
        ? OUTPUT_MS
        : POLL_MS - sinceMs % POLL_MS;
      this.#backend.pause(delayMs).then(() => this.#stopAll(rids), () => {});
    };
  }

  #stopAll(rids: readonly string[]): void {
    for (const rid of rids) {
      const live = this.#live.get(rid);
      if (live !== undefined) this.#stop(live);
    }
  }

  #stop(live: Live): void {
    if (live.choice.sequence !== undefined) this.#backend.abort(live.choice.sequence);
  }

  /** Drops ended sequences that nobody fetched. */
  #sweep(): void {
    if (this.#live.size < 2 * this.#backend.load + 64) {
      return;
    }
    for (const [rid, live] of this.#live) if (live.choice.finish !== undefined) this.#live.delete(rid);
  }
}
