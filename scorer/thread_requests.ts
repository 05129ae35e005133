import { messageOf } from "../base/errors.ts";
import type { IncomingResponse, OutgoingRequest, Transport } from "../base/transport.ts";
import { MAX_ANSWER_BYTES } from "./embedders/http_wire.ts";
import type { ToWorker } from "./worker_messages.ts";

type Outcome = Extract<ToWorker, { kind: "answered" | "unanswered" }>;

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
      const body = await bodyOf(response);
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

/** In memory of its own, which can be handed to the thread. */
async function bodyOf({ body }: IncomingResponse): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > MAX_ANSWER_BYTES) throw new Error(`its answer is longer than ${MAX_ANSWER_BYTES} bytes`);
    chunks.push(chunk);
  }
  const whole = new Uint8Array(bytes);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}
