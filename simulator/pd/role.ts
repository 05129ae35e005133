import type { Choice } from "../engine/choice.ts";
import type { EngineSequence } from "../engine/sequence.ts";

/** What timers of a leg are cancelled by: nobody reads it, and an error of its own for each would cost a stack. */
export const LEG_OVER = new Error("The leg has ended");

/** Meeting place of a request's two halves, as the request says. */
export interface Bootstrap {
  readonly rid: string;
  readonly host: string | undefined;
  readonly port: number | undefined;
  readonly room: number | undefined;
  /** Index of the sample in its request; 0 unless `n` is more than 1. */
  readonly sample: number;
  /** Samples of the request. */
  readonly samples: number;
  /** It continues a session: SGLang forgets the room of such a request. */
  readonly session?: boolean;
}

/** The part of a prefill or decode server around its scheduler. */
export interface PdRole {
  readonly role: "prefill" | "decode";
  /** Requests in each queue of the role. */
  readonly queues: PdQueues;
  /** Takes a request in; the scheduler gets it when its time has come. */
  submit(sequence: EngineSequence, choice: Choice, bootstrap: Bootstrap): void;
  /** Stops a request wherever it is. */
  abort(sequence: EngineSequence): void;
  /** Memory has become free. */
  freed(): void;
  /** The process is gone. */
  close(): void;
}

/** Lengths of a role's queues, and what its transfers took. */
export interface PdQueues {
  readonly bootstrap: number;
  readonly inflight: number;
  readonly prealloc: number;
  readonly transfer: number;
  readonly bootstrapFailed: number;
  readonly transferFailed: number;
}

/** The address that stands for "no decode server". */
export const FAKE_BOOTSTRAP_HOST = "2.2.2.2";

/** Default port of a registry. */
export const BOOTSTRAP_PORT = 8998;

/** A room as log messages show it: all digits. */
export function roomText(room: number | undefined): string {
  if (room === undefined) return "None";
  return Number.isSafeInteger(room) ? String(room) : BigInt(Math.trunc(room)).toString();
}
