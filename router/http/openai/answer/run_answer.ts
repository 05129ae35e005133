import type { CanopyError } from "../../../../base/errors.ts";
import type { JsonObject } from "../../../../base/json.ts";
import type { Run, RunEvent } from "../../../moa/run/run.ts";

/** The runs behind an answer, as they are now. */
export interface RunsSoFar {
  /** In the order of their start. */
  readonly runs: readonly Run[];
  /** OpenAI's `usage` of all of them. */
  usage(): JsonObject;
  /** `{canopy}` with what the request's `canopy.include` asks for; empty without one. */
  canopy(): JsonObject;
}

/** The answer of one request for a graph in the form of one API. Keeps what it has seen: one per request. */
export interface RunAnswer {
  /** Content type of a stream. */
  readonly streamType: string;
  /** Takes an event in for `whole`. */
  add(event: RunEvent): void;
  /** The answer of a request without `stream`. */
  whole(runs: RunsSoFar): JsonObject;
  /** The pieces of a stream that an event becomes. */
  written(event: RunEvent, runs: RunsSoFar): Iterable<Uint8Array>;
  /** The pieces behind the last event. */
  closing(runs: RunsSoFar): Iterable<Uint8Array>;
  /** The pieces of a stream that breaks off. */
  failed(error: CanopyError, runs: RunsSoFar): Iterable<Uint8Array>;
}
