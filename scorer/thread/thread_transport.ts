import type { IncomingResponse, OutgoingRequest, Transport } from "../../base/transport.ts";
import type { FromScorerThread, ToScorerThread } from "./worker_messages.ts";

type Outcome = Extract<ToScorerThread, { kind: "answered" | "unanswered" }>;

/** The way to an endpoint out of the scorer's thread: the router sends for it, on its own transport. */
export class ThreadTransport implements Transport {
  readonly #post: (message: Extract<FromScorerThread, { kind: "ask" | "leave" }>) => void;
  readonly #asked = new Map<number, (outcome: Outcome) => void>();
  #requests = 0;

  constructor(post: (message: Extract<FromScorerThread, { kind: "ask" | "leave" }>) => void) {
    this.#post = post;
  }

  /** Resolves when the whole body is there. Rejects with the reason why there is no answer. */
  send(outgoing: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
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

  /** What became of a request; nothing when nobody waits for it any more. */
  take(outcome: Outcome): void {
    const settle = this.#asked.get(outcome.request);
    this.#asked.delete(outcome.request);
    settle?.(outcome);
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}

async function* only(body: Uint8Array): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield body;
}
