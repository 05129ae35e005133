import type { StopSignal } from "../../base/stop_signal.ts";
import type { IncomingResponse, OutgoingRequest, Transport } from "../../base/transport.ts";

/** A transport in whose place another one can come; requests in flight stay with the one that sent them. */
export class ChangingTransport implements Transport {
  #current: Transport;

  constructor(first: Transport) {
    this.#current = first;
  }

  /** Sends by another one from now on; gives the one before, which is its owner's to close. */
  use(next: Transport): Transport {
    const before = this.#current;
    this.#current = next;
    return before;
  }

  send(request: OutgoingRequest, signal: StopSignal): Promise<IncomingResponse> {
    return this.#current.send(request, signal);
  }

  close(): Promise<void> {
    return this.#current.close();
  }
}
