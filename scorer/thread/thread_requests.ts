import { messageOf } from "../../base/errors.ts";
import { readBytes } from "../../base/read_body.ts";
import type { OutgoingRequest, Transport } from "../../base/transport.ts";
import { MAX_ANSWER_BYTES } from "../embedders/http_wire.ts";
import type { ToScorerThread } from "./worker_messages.ts";

type Outcome = Extract<ToScorerThread, { kind: "answered" | "unanswered" }>;

/** Requests that are sent for the scorer's thread, see `ThreadTransport`. */
export class ThreadRequests {
  readonly #transport: Transport;
  readonly #post: (outcome: Outcome, transfer: readonly ArrayBuffer[]) => void;
  readonly #underWay = new Map<number, AbortController>();

  constructor(
    transport: Transport,
    post: (outcome: Outcome, transfer: readonly ArrayBuffer[]) => void,
  ) {
    this.#transport = transport;
    this.#post = post;
  }

  /** Sends a request and posts what became of it. Never rejects. */
  async send(request: number, outgoing: OutgoingRequest): Promise<void> {
    const controller = new AbortController();
    this.#underWay.set(request, controller);
    try {
      const response = await this.#transport.send(outgoing, controller.signal);
      const body = await readBytes(response.body, MAX_ANSWER_BYTES, "its answer");
      const { status, headers } = response;
      if (this.#underWay.delete(request)) {
        this.#post({ kind: "answered", request, status, headers, body }, [body.buffer]);
      }
    } catch (error) {
      if (!this.#underWay.delete(request)) return;
      this.#post({ kind: "unanswered", request, reason: messageOf(error) }, []);
    }
  }

  /** The thread does not wait for it any more. */
  leave(request: number): void {
    const controller = this.#underWay.get(request);
    this.#underWay.delete(request);
    controller?.abort(new Error("The answer is not compared any more"));
  }

  /** The thread is gone. */
  leaveAll(): void {
    for (const request of this.#underWay.keys()) this.leave(request);
  }
}
