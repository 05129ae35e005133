import {
  type IncomingResponse,
  type OutgoingRequest,
  type Transport,
  TransportError,
} from "../../base/transport.ts";

/** Bun's additions to `RequestInit` that switch off what a router must not have. */
interface BunRequestInit extends RequestInit {
  /** Bun gives up after 360 s without a response head unless this is false. */
  timeout?: false;
  decompress?: false;
  tls?: { readonly ca: string };
}

/**
 * HTTP over the runtime's `fetch`, for Bun only: Deno's `fetch` re-sends a POST when a kept socket turns out to be
 * closed. Bun runs 256 to 512 requests at once unless `BUN_CONFIG_MAX_HTTP_REQUESTS` was in the environment at
 * its start (setting it later has no effect), and does not say whether a socket was used before.
 */
export class FetchTransport implements Transport {
  readonly #inFlight = new Set<FetchBody>();
  readonly #ca: string | undefined;
  #closed: { resolve: () => void; promise: Promise<void> } | undefined;

  /** `ca`: certificates (PEM) to trust instead of the system's. */
  constructor(options: { readonly ca?: string } = {}) {
    this.#ca = options.ca;
  }

  async send(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    signal.throwIfAborted();
    if (this.#closed !== undefined) {
      throw new TransportError("connect_failed", request.url, {
        cause: new Error("The transport is closed"),
      });
    }
    const body = new FetchBody(request.url, signal, () => {
      this.#inFlight.delete(body);
      if (this.#inFlight.size === 0) this.#closed?.resolve();
    });
    this.#inFlight.add(body);
    const init: BunRequestInit = {
      method: request.method,
      headers: { "accept-encoding": "identity", ...request.headers },
      redirect: "manual",
      signal: body.connection.signal,
      timeout: false,
      decompress: false,
      ...(this.#ca === undefined ? {} : { tls: { ca: this.#ca } }),
    };
    if (request.body !== undefined) init.body = request.body as BodyInit;
    let response: Response;
    try {
      response = await fetch(request.url, init);
    } catch (cause) {
      body.end();
      signal.throwIfAborted();
      throw new TransportError(codeOf(cause), request.url, { cause, reusedSocket: false });
    }
    signal.throwIfAborted();
    body.start(response.body);
    return { status: response.status, headers: Object.fromEntries(response.headers), body };
  }

  async close(): Promise<void> {
    if (this.#closed === undefined) {
      this.#closed = Promise.withResolvers<void>();
      if (this.#inFlight.size === 0) this.#closed.resolve();
    }
    await this.#closed.promise;
  }
}

/** The body of one exchange; it owns the connection's controller, and is over when the connection is. */
class FetchBody implements AsyncIterableIterator<Uint8Array> {
  readonly connection = new AbortController();
  readonly #url: string;
  readonly #signal: AbortSignal;
  readonly #over: () => void;
  readonly #onAbort = () => {
    this.#failure = this.#signal.reason;
    this.end();
    this.connection.abort(this.#signal.reason);
  };
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #ended = false;
  #failure: unknown;

  constructor(url: string, signal: AbortSignal, over: () => void) {
    this.#url = url;
    this.#signal = signal;
    this.#over = over;
    signal.addEventListener("abort", this.#onAbort, { once: true });
  }

  start(stream: ReadableStream<Uint8Array> | null): void {
    if (stream === null) this.end();
    else this.#reader = stream.getReader();
  }

  end(): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#signal.removeEventListener("abort", this.#onAbort);
    this.#over();
  }

  async next(): Promise<IteratorResult<Uint8Array>> {
    if (this.#ended || this.#reader === undefined) {
      const failure = this.#failure;
      this.#failure = undefined;
      if (failure !== undefined) throw failure;
      return { done: true, value: undefined };
    }
    try {
      const result = await this.#reader.read();
      if (!result.done) return { done: false, value: result.value };
    } catch (cause) {
      if (this.#failure !== undefined) {
        const failure = this.#failure;
        this.#failure = undefined;
        throw failure;
      }
      if (this.#ended) return { done: true, value: undefined };
      this.end();
      throw new TransportError("reset_in_body", this.#url, { cause, reusedSocket: false });
    }
    this.end();
    return { done: true, value: undefined };
  }

  return(): Promise<IteratorResult<Uint8Array>> {
    if (!this.#ended) {
      this.end();
      this.connection.abort();
    }
    return Promise.resolve({ done: true, value: undefined });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}

function codeOf(error: unknown): "connect_failed" | "reset_before_head" | "invalid_response" {
  const code = typeof error === "object" && error !== null && "code" in error ? String(error.code) : "";
  if (/Refused|FailedToOpenSocket|ENOTFOUND|EAI_|DNS|ETIMEDOUT|UNREACH|CERT/i.test(code)) {
    return "connect_failed";
  }
  if (/Malformed|HTTP|HPE_/i.test(code)) return "invalid_response";
  return "reset_before_head";
}
