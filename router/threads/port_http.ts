import { CanopyError, messageOf } from "../../base/errors.ts";
import { readBody } from "../http/gate/body.ts";
import { callerAddress } from "../http/gate/caller.ts";
import type { Fetches } from "../http/server/fetches.ts";
import type { HttpMessage } from "./messages.ts";

/** Largest body of a request that another thread answers: about workers and runs, not prompts. */
const MAX_BODY_BYTES = 1024 * 1024;

/** A request that the other thread answers. */
interface Asked {
  readonly head: (response: Response) => void;
  readonly fail: (error: CanopyError) => void;
  controller?: ReadableStreamDefaultController<Uint8Array> | undefined;
  pulled?: (() => void) | undefined;
}

/** A request that this thread answers for the other one. */
interface Answering {
  readonly gone: AbortController;
  reader?: ReadableStreamDefaultReader<Uint8Array> | undefined;
}

type RequestMessage = Extract<HttpMessage, { kind: "request" }>;

/** HTTP between two threads, both ways, piece by piece as the client takes it. */
export class PortHttp {
  readonly #post: (message: HttpMessage) => void;
  readonly #app: Fetches;
  readonly #asked = new Map<number, Asked>();
  readonly #answering = new Map<number, Answering>();
  #calls = 0;

  /** `app`: what answers the other thread's requests. */
  constructor(post: (message: HttpMessage) => void, app: Fetches) {
    this.#post = post;
    this.#app = app;
  }

  /** Has the other thread answer. Rejects with 413 for a body that is too long, with 503 when that thread ends. */
  async fetch(request: Request, env?: object): Promise<Response> {
    const { method, url, signal } = request;
    const bytes = request.body === null
      ? undefined
      : await readBody(request, { maxBytes: MAX_BODY_BYTES, signal });
    const call = this.#calls++;
    const { promise, resolve, reject } = Promise.withResolvers<Response>();
    this.#asked.set(call, { head: resolve, fail: reject });
    const onGone = () => this.#leave(call);
    signal.addEventListener("abort", onGone, { once: true });
    const address = callerAddress(env, request);
    this.#post({ kind: "request", call, method, url, headers: [...request.headers], body: bytes, address });
    return await promise;
  }

  take(message: HttpMessage): void {
    if (message.kind === "request") return void this.#answer(message);
    const { call } = message;
    if (message.kind === "leave") {
      const answering = this.#answering.get(call);
      this.#answering.delete(call);
      answering?.gone.abort(new DOMException("The client has gone", "AbortError"));
      answering?.reader?.cancel().catch(() => {});
    } else if (message.kind === "pull") void this.#send(call);
    else this.#receive(message);
  }

  /** The other thread has ended: what it was to answer fails. */
  close(): void {
    const error = new CanopyError("The thread that was asked has ended: send the request again", {
      code: "thread_ended",
      status: 503,
      retryAfterSeconds: 1,
    });
    for (const { fail, controller } of this.#asked.values()) {
      fail(error);
      controller?.error(error);
    }
    this.#asked.clear();
    for (const call of [...this.#answering.keys()]) this.take({ kind: "leave", call });
  }

  #leave(call: number): void {
    const asked = this.#asked.get(call);
    if (!this.#asked.delete(call)) return;
    asked?.fail(new CanopyError("The client has gone", { code: "client_closed_request", status: 499 }));
    asked?.pulled?.();
    this.#post({ kind: "leave", call });
  }

  #receive(message: Exclude<HttpMessage, RequestMessage | { kind: "leave" | "pull" }>): void {
    const { call } = message;
    const asked = this.#asked.get(call);
    if (asked === undefined) return;
    if (message.kind === "head") return asked.head(this.#responseOf(message, asked));
    if (message.kind === "chunk") asked.controller?.enqueue(message.bytes);
    else {
      this.#asked.delete(call);
      if (message.error === undefined) asked.controller?.close();
      else {
        const error = new CanopyError(message.error, { code: "thread_failed", status: 500 });
        asked.fail(error);
        asked.controller?.error(error);
      }
    }
    asked.pulled?.();
  }

  #responseOf({ call, status, headers }: Extract<HttpMessage, { kind: "head" }>, asked: Asked): Response {
    const init = { status, headers: headers.map(([name, value]): [string, string] => [name, value]) };
    if ([101, 204, 205, 304].includes(status)) return new Response(null, init);
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => void (asked.controller = controller),
      pull: () =>
        new Promise<void>((resolve) => {
          asked.pulled = resolve;
          this.#post({ kind: "pull", call });
        }),
      cancel: () => this.#leave(call),
    }, { highWaterMark: 0 });
    return new Response(body, init);
  }

  async #answer({ call, method, url, headers, body, address }: RequestMessage): Promise<void> {
    const gone = new AbortController();
    const answering: Answering = { gone };
    this.#answering.set(call, answering);
    try {
      const request = new Request(url, {
        method,
        headers: headers.map(([name, value]): [string, string] => [name, value]),
        signal: gone.signal,
        ...(body === undefined ? {} : { body: new Uint8Array(body) }),
      });
      const env = address === undefined ? {} : { remoteAddr: { hostname: address } };
      const response = await this.#app.fetch(request, env);
      answering.reader = response.body?.getReader();
      this.#post({ kind: "head", call, status: response.status, headers: [...response.headers] });
      if (answering.reader === undefined) this.#end(call);
    } catch (error) {
      this.#end(call, messageOf(error));
    }
  }

  async #send(call: number): Promise<void> {
    const reader = this.#answering.get(call)?.reader;
    try {
      const piece = await reader?.read();
      if (piece?.done === false) this.#post({ kind: "chunk", call, bytes: piece.value });
      else this.#end(call);
    } catch (error) {
      this.#end(call, messageOf(error));
    }
  }

  #end(call: number, error?: string): void {
    if (this.#answering.delete(call)) this.#post({ kind: "end", call, error });
  }
}
