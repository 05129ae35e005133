import type { Backend } from "./backend.ts";
import type { Reply, ServedRequest } from "./reply.ts";

/** A protocol in front of a backend. */
export interface Protocol {
  readonly backend: Backend;
  /** Answers a request; `Refusal`s that it throws are answers, too. */
  serve(request: ServedRequest): Promise<Reply>;
  /** True for requests that make tokens: the ones that injected faults are meant for. */
  generates(request: ServedRequest): boolean;
  /** The body of a plain 500. */
  failure(status: 500 | 503): Reply;
  /** The engine has died; undefined where requests just hang until the process follows, `deathMs` later. */
  dead?(): void;
  readonly deathMs: number;
}
