import { type IncomingResponse, type OutgoingRequest, TransportError } from "../../base/transport.ts";
import type { Events, ServedRequest } from "./reply.ts";
import { Utf8Arena } from "./utf8.ts";

const utf8 = new Utf8Arena();
const fromUtf8 = new TextDecoder();

/** An answer whose body is not bytes yet. */
export interface ServedResponse {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Events;
}

/** The server behind a connection. */
export interface ConnectionServer {
  answer(request: OutgoingRequest, served: ServedRequest): Promise<ServedResponse>;
  /** Functions that reset an open connection each. */
  readonly connections: Set<() => void>;
}

/** Runs one request under the transport's contract. */
export async function connect(
  request: OutgoingRequest,
  signal: AbortSignal,
  { answer, connections }: ConnectionServer,
): Promise<IncomingResponse> {
  signal.throwIfAborted();
  const served = takeApart(request);
  let leave: (reason: unknown) => void = () => {};
  const left = new Promise<never>((_, reject) => leave = reject);
  left.catch(() => {});
  let open = true;
  /** Ends the connection; `early` when the client did not get everything. */
  const end = (early: boolean) => {
    if (!open) return;
    open = false;
    connections.delete(onReset);
    signal.removeEventListener("abort", onAbort);
    if (early) served.onClose?.();
  };
  const onAbort = () => {
    end(true);
    leave(signal.reason);
  };
  signal.addEventListener("abort", onAbort, { once: true });
  let stage: "reset_before_head" | "reset_in_body" = "reset_before_head";
  let reset: TransportError | undefined;
  const onReset = () => {
    end(false);
    reset = new TransportError(stage, request.url);
    leave(reset);
  };
  connections.add(onReset);
  let response: ServedResponse;
  try {
    response = await Promise.race([answer(request, served), left]);
  } catch (error) {
    end(true);
    throw error;
  }
  stage = "reset_in_body";
  const source = response.body;
  const body: AsyncIterator<Uint8Array> = {
    next() {
      if (signal.aborted) return Promise.reject(signal.reason);
      if (reset !== undefined) return Promise.reject(reset);
      if (!open) return Promise.resolve({ done: true, value: undefined });
      return new Promise((resolve, reject) => {
        // Replaces the reader of the previous chunk: a race per chunk would pile up on `left`.
        leave = reject;
        source.next().then(({ done, value }) => {
          if (done === true) {
            end(false);
            resolve({ done, value: undefined });
          } else resolve({ done: false, value: typeof value === "string" ? utf8.encode(value) : value });
        }, (error) => {
          end(true);
          reject(error);
        });
      });
    },
    return() {
      end(true);
      return Promise.resolve({ done: true, value: undefined });
    },
  };
  return { status: response.status, headers: response.headers, body: { [Symbol.asyncIterator]: () => body } };
}

function takeApart(request: OutgoingRequest): ServedRequest {
  const url = new URL(request.url);
  const { body } = request;
  return {
    method: request.method,
    path: url.pathname,
    query: url.searchParams,
    headers: request.headers,
    text: body === undefined ? "" : typeof body === "string" ? body : fromUtf8.decode(body),
    onClose: undefined,
  };
}
