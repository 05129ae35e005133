import type { CanopyError } from "../../base/errors.ts";
import type { Logger } from "../../base/log.ts";
import { errorEventAt } from "../wire/error_form.ts";
import { brokenAnswer } from "../worker/answer_failure.ts";
import type { PlacementOutcome } from "../worker/placement.ts";
import type { AnswerOwner } from "./answer_body.ts";
import { refusalEvents } from "./refusal_body.ts";
import { logFailure, noteCached, release, type Tried } from "./tried.ts";

/** What is known of an answer when its passing on begins. */
export interface PassedAnswerOptions {
  /** Path of the request. */
  readonly path: string;
  readonly requestId: string;
  /** What an answer that comes to its end counts as. */
  readonly wellEnded: PlacementOutcome;
  /** The stream begins with an error of the client's own. */
  readonly isRefused: boolean;
  readonly log: Logger;
}

/** An attempt whose answer is passed on. It knows nothing of the request's body: prompts are long, and answers last. */
export class PassedAnswer implements AnswerOwner {
  readonly #attempt: Tried;
  readonly #options: PassedAnswerOptions;

  constructor({ call, lease, ids, forget, first }: Tried, options: PassedAnswerOptions) {
    this.#attempt = { call, lease, ids, forget, first };
    this.#options = options;
  }

  clean(events: Uint8Array): Uint8Array {
    return refusalEvents(this.#attempt.call.worker, events);
  }

  describe(error: unknown): CanopyError {
    const { log, requestId } = this.#options;
    const described = brokenAnswer(this.#attempt.call.worker, error);
    logFailure(log, requestId, described);
    return described;
  }

  event(error: CanopyError): Uint8Array {
    return errorEventAt(this.#options.path, error);
  }

  onLast(events: Uint8Array): void {
    noteCached(this.#attempt, events);
  }

  onEnd(outcome: PlacementOutcome): void {
    const { wellEnded, isRefused } = this.#options;
    if (outcome !== "aborted" && isRefused) release(this.#attempt, "rejected");
    else release(this.#attempt, outcome === "ok" ? wellEnded : outcome);
  }
}
