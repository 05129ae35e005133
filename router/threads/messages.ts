import type { Config, ModelConfig } from "../../cfgs/schema/config.ts";
import type { ThreadCounts } from "../http/metrics/metrics.ts";
import type { RunRecord } from "../moa/record/run_record.ts";
import type { WorkerReport } from "../pool/pool_share.ts";
import type { AuditEvent } from "../../scorer/audit/exit_audit.ts";
import type { FromScorerThread, ToScorerThread } from "../../scorer/thread/worker_thread.ts";

/** A model as the thread that leads tells the others. */
export interface SharedModel {
  readonly name: string;
  /** Its number in the shared memory. */
  readonly number: number;
  readonly config: ModelConfig;
  readonly members: readonly WorkerReport[];
}

/** From whom a request of a client comes to the thread that answers it, and back. */
export type HttpMessage =
  | {
    readonly kind: "request";
    readonly call: number;
    readonly method: string;
    readonly url: string;
    readonly headers: readonly (readonly [string, string])[];
    readonly body: Uint8Array | undefined;
    /** The client's, as the server has seen it. */
    readonly address: string | undefined;
  }
  /** The client has gone. */
  | { readonly kind: "leave"; readonly call: number }
  /** The next piece of the answer is wanted. */
  | { readonly kind: "pull"; readonly call: number }
  | {
    readonly kind: "head";
    readonly call: number;
    readonly status: number;
    readonly headers: readonly (readonly [string, string])[];
  }
  | { readonly kind: "chunk"; readonly call: number; readonly bytes: Uint8Array }
  /** The answer is complete, or has broken off. */
  | { readonly kind: "end"; readonly call: number; readonly error?: string | undefined };

/** What the audit of exits of this name has seen in one thread, for all others. */
export interface AuditMessage {
  readonly kind: "audit";
  readonly audit: string;
  readonly event: AuditEvent;
}

/** From the thread that leads to one that serves. */
export type ToServingThread =
  | { readonly kind: "http"; readonly message: HttpMessage }
  /** A model, new or known, with all of its workers as they are now. */
  | { readonly kind: "model"; readonly model: SharedModel }
  /** Go on by another configuration, with all models and their workers as they are then. */
  | { readonly kind: "config"; readonly config: Config; readonly models: readonly SharedModel[] }
  /** A place may be free: look whether it is your turn. */
  | { readonly kind: "wake" }
  | { readonly kind: "count"; readonly request: number }
  | { readonly kind: "scorer"; readonly message: FromScorerThread }
  | AuditMessage
  /** Finish what is running, and end. */
  | { readonly kind: "drain" }
  /** End at once. */
  | { readonly kind: "close" }
  /** Throw where nobody catches it, for tests. */
  | { readonly kind: "crash" };

/** From a thread that serves to the one that leads. */
export type FromServingThread =
  | { readonly kind: "http"; readonly message: HttpMessage }
  | { readonly kind: "listening"; readonly url: string }
  | { readonly kind: "failed"; readonly reason: string; readonly code: string; readonly status: number }
  /** A place may be free that is another thread's turn. */
  | { readonly kind: "pass" }
  /** A request to a worker failed: its check is due. */
  | { readonly kind: "poke"; readonly model: string; readonly worker: string }
  /** The record of a run that has ended. */
  | { readonly kind: "run"; readonly record: RunRecord }
  | { readonly kind: "counts"; readonly request: number; readonly counts: ThreadCounts }
  /** The scorer is wanted; then messages for it. */
  | { readonly kind: "open_scorer" }
  | { readonly kind: "scorer"; readonly message: ToScorerThread }
  | AuditMessage
  /** It has drained or closed. */
  | { readonly kind: "ended" };
