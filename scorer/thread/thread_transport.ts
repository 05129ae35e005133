import type { StopSignal } from "../../base/stop_signal.ts";
import { messageOf } from "../../base/errors.ts";
import { readBytes } from "../../base/read_body.ts";
import type { IncomingResponse, OutgoingRequest, Transport } from "../../base/transport.ts";
import { MAX_ANSWER_BYTES } from "../embedders/embedding_endpoint.ts";
import type { FromScorerThread, ToScorerThread } from "./worker_thread.ts";

type Outcome = Extract<ToScorerThread, { kind: "answered" | "unanswered" }>;

/** A transport inside the scorer's thread, which has no sockets: the router sends its requests (`ThreadRequests`). */
export class ThreadTransport implements Transport {
  readonly #post: (message: Extract<FromScorerThread, { kind: "ask" | "leave" }>) => void;
  readonly #asked = new Map<number, (outcome: Outcome) => void>();
  #requests = 0;

  constructor(post: (message: Extract<FromScorerThread, { kind: "ask" | "leave" }>) => void) {
    this.#post = post;
  }

  /** Resolves when the whole body is there. Rejects with the reason why there is no answer. */
  send(outgoing: OutgoingRequest, signal: StopSignal): Promise<IncomingResponse> {
    const request = this.#requests++;
    return new Promise((resolve, reject) => {
      if (signal.aborted) return reject(signal.reason);
      const onAbort = () => {
        this.#asked.delete(request);
        this.#post({ kind: "leave", request });
        reject(signal.reason);
      };
      signal.addEventListener("abort", onAbort, { once: true });
      this.#asked.set(request, (outcome) => {
        signal.removeEventListener("abort", onAbort);
        if (outcome.kind === "unanswered") return reject(new Error(outcome.reason));
        const { status, headers, body } = outcome;
        resolve({ status, headers, body: only(body) });
      });
      this.#post({ kind: "ask", request, outgoing });
    });
  }

  /** Settles a request with its outcome; does nothing when it has been given up. */
  take(outcome: Outcome): void {
    const settle = this.#asked.get(outcome.request);
    this.#asked.delete(outcome.request);
    settle?.(outcome);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

/** The router's side of `ThreadTransport`: sends the thread's requests on the router's transport. */
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

  /** Sends a request and posts its outcome. Never rejects. */
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

  /** Aborts a request that the thread has given up. */
  leave(request: number): void {
    const controller = this.#underWay.get(request);
    this.#underWay.delete(request);
    controller?.abort(new Error("The answer is not compared any more"));
  }

  /** Aborts all requests, when the thread is gone. */
  leaveAll(): void {
    for (const request of this.#underWay.keys()) this.leave(request);
  }
}

async function* only(body: Uint8Array): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield body;
}
