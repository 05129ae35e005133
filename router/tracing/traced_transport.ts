import type { StopSignal } from "../../base/stop_signal.ts";
import { messageOf } from "../../base/errors.ts";
import type { Span, Spans } from "./spans.ts";
import type { IncomingResponse, OutgoingRequest, Transport } from "../../base/transport.ts";

/** Gives a span to each request that belongs to a trace: probes and aborts do not. It ends with the answer's body. */
export class TracedTransport implements Transport {
  readonly #transport: Transport;
  readonly #spans: Spans;

  constructor(transport: Transport, spans: Spans) {
    this.#transport = transport;
    this.#spans = spans;
  }

  async send(request: OutgoingRequest, signal: StopSignal): Promise<IncomingResponse> {
    if (request.headers["traceparent"] === undefined) return await this.#transport.send(request, signal);
    const { method, url, headers, phase } = request;
    const { pathname, hostname, port } = new URL(url);
    const span = this.#spans.begin({
      name: `${method} ${pathname}`,
      kind: "client",
      parent: headers,
      attributes: {
        "http.request.method": method,
        "url.full": url,
        "server.address": hostname,
        "server.port": port === "" ? undefined : Number(port),
        "canopy.phase": phase,
      },
    });
    try {
      const response = await this.#transport.send({ ...request, headers: span.carriedBy(headers) }, signal);
      span.set({ "http.response.status_code": response.status });
      return { status: response.status, headers: response.headers, body: spannedBody(response, span) };
    } catch (error) {
      span.end(messageOf(error));
      throw error;
    }
  }

  close(): Promise<void> {
    return this.#transport.close();
  }
}

/** A body at whose end its request's span ends. */
function spannedBody({ status, body }: IncomingResponse, span: Span): AsyncIterable<Uint8Array> {
  return {
    [Symbol.asyncIterator]() {
      const pieces = body[Symbol.asyncIterator]();
      let begun = false;
      return {
        async next() {
          try {
            const read = await pieces.next();
            if (read.done === true) span.end(status >= 400 ? `status ${status}` : undefined);
            else if (!begun) span.event("first_chunk");
            begun = true;
            return read;
          } catch (error) {
            span.end(messageOf(error));
            throw error;
          }
        },
        async return() {
          span.set({ "canopy.left": true });
          span.end();
          return await pieces.return?.() ?? { done: true, value: undefined };
        },
      };
    },
  };
}
