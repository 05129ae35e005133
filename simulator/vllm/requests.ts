import type { JsonObject } from "../../base/json.ts";
import type { Collector } from "../engine/choice.ts";
import type { Backend } from "../server/backend.ts";
import { emptyReply, Refusal, type ServedRequest } from "../server/reply.ts";
import { busy, ENGINE_DEATH, refuse } from "./errors.ts";

/** The requests that a vLLM server works on. */
export class VllmRequests {
  readonly #backend: Backend;
  readonly #live = new Map<string, Set<Collector>>();

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** The header beats the field; else a random id. */
  idOf(request: ServedRequest, body: JsonObject): string {
    const field = body["request_id"];
    return request.headers["x-request-id"] ??
      (typeof field === "string" ? field : this.#backend.randomHex(16));
  }

  /**
   * Lets a request in after its time in the front end; the client leaving aborts it. Returns what to call at its end.
   * Throws the 503 of a full queue and the 400 of a wrong data-parallel rank.
   */
  async enter(request: ServedRequest, id: string, collector: Collector): Promise<() => void> {
    const rank = request.headers["x-data-parallel-rank"];
    if (rank !== undefined && Number(rank) !== 0) {
      throw refuse(`data_parallel_rank ${rank} is out of range [0, 1).`);
    }
    if (this.#backend.full) {
      this.#backend.metrics.rejected++;
      throw busy();
    }
    let gone = false;
    request.onClose = () => {
      gone = true;
      collector.abort(this.#backend.scheduler);
      release();
    };
    const same = this.#live.get(id) ?? new Set();
    this.#live.set(id, same.add(collector));
    const release = () => {
      same.delete(collector);
      if (same.size === 0 && this.#live.get(id) === same) this.#live.delete(id);
    };
    await this.#backend.arrive();
    if (gone) throw new Refusal(emptyReply(499));
    return release;
  }

  /** Tells all requests that the engine has died. */
  fail(): void {
    for (const same of this.#live.values()) {
      for (const { choices } of same) {
        for (const choice of choices) choice.fail({ status: 500, message: ENGINE_DEATH });
      }
    }
  }

  /** Aborts by id; returns how many requests were found. */
  abort(ids: readonly string[]): number {
    let count = 0;
    for (const id of ids) {
      for (const collector of this.#live.get(id) ?? []) {
        collector.abort(this.#backend.scheduler);
        count++;
      }
    }
    return count;
  }
}
