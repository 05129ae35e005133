import type { Clock } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import type { ClientRequest } from "./client_request.ts";
import type { Fetches } from "./fetches.ts";
import { type PulledBody, ReadyResponse, type TakePiece } from "./ready_response.ts";
import type { RequestHead } from "./request_parser.ts";
import type { Framing, ResponseHeads } from "./response_head.ts";

const CRLF = "\r\n";
const LAST_CHUNK = "0\r\n\r\n";
const log = logger("http");

/** The connection of an exchange. */
export interface ExchangeConnection {
  /** True while the client takes nothing: it hears `onDrain` when it does again. */
  readonly isFull: boolean;
  /** True when no further request will be read. */
  readonly isLast: boolean;
  write(pieces: readonly (string | Uint8Array)[]): void;
  /** All of the answer was written; `reusable`: another request may follow. */
  answered(reusable: boolean): void;
  /** The answer cannot be written to its end. */
  destroy(): void;
  /** The same, where the connection's end would be taken for the answer's. */
  reset(): void;
}

/** Options of an exchange. */
export interface ExchangeOptions {
  readonly app: Fetches;
  readonly clock: Clock;
  readonly heads: ResponseHeads;
  readonly connection: ExchangeConnection;
  readonly head: RequestHead;
  readonly request: ClientRequest;
}

/** One request and the answer to it, which is written as the client takes it. */
export class ClientExchange {
  readonly request: ClientRequest;
  /** The client waits to be told that its body is wanted. */
  owesContinue: boolean;
  /** All of the answer was written. */
  isAnswered = false;
  readonly #options: ExchangeOptions;
  #hasBegun = false;
  #keepAlive: boolean;
  #left = false;
  /** What is being sent. */
  #body: PulledBody | undefined;
  #reader: ReadableStreamDefaultReader<Uint8Array> | undefined;
  #isChunked = false;
  /** Goes on when the client takes something again. */
  #onDrain: (() => void) | undefined;

  constructor(options: ExchangeOptions) {
    const { head, request } = options;
    this.#options = options;
    this.request = request;
    this.#keepAlive = head.keepAlive;
    this.owesContinue = head.isHttp11 && head.headers["expect"]?.toLowerCase() === "100-continue";
  }

  /** True when a part of the answer was written. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** A part of the body has come. */
  takeBody(chunk: Uint8Array<ArrayBuffer>): void {
    // A client that sends need not be asked to.
    this.owesContinue = false;
    this.request.push(chunk);
  }

  /** The whole body has come. */
  takeEnd(): void {
    this.owesContinue = false;
    this.request.complete();
  }

  /** Has the request answered. */
  serve(): void {
    const { app } = this.#options;
    const { request } = this;
    try {
      const answer = app.fetch(request.asRequest(), request);
      if (answer instanceof Promise) answer.then(this.#respond, this.#fail);
      else this.#respond(answer);
    } catch (error) {
      this.#fail(error);
    }
  }

  /** The client has gone. */
  leave(reason: unknown): void {
    this.#left = true;
    this.#onDrain = undefined;
    this.request.leave(reason);
    if (this.isAnswered) return;
    this.#body?.leave();
    this.#reader?.cancel(reason).catch(() => {});
  }

  /** The client takes something again. */
  onDrain(): void {
    const onDrain = this.#onDrain;
    this.#onDrain = undefined;
    onDrain?.();
  }

  readonly #respond = (response: Response): void => {
    const ready = response instanceof ReadyResponse ? response : undefined;
    const record = ready?.record;
    if (this.#left) return discard(response);
    if (ready === undefined || record === undefined) {
      return void this.#respondBy(response).catch(this.#fail);
    }
    const { content, status } = ready;
    if (content === undefined || content instanceof Uint8Array) {
      return this.#sendWhole({ status, headers: record }, content);
    }
    if (this.#isBodiless(status)) {
      content.leave();
      return this.#sendWhole({ status, headers: record }, undefined);
    }
    this.#sendHead({ status, headers: record }, this.#streamed());
    this.#body = content;
    this.#pump();
  };

  readonly #fail = (error: unknown): void => {
    if (this.#left) return;
    log.error("A request could not be answered: {error}", { error: messageOf(error) });
    const { connection } = this.#options;
    if (this.#hasBegun) return this.#isChunked ? connection.destroy() : connection.reset();
    this.#keepAlive = false;
    this.#sendWhole({ status: 500, headers: {} }, undefined);
  };

  /** Sends what the runtimes' own kind of answer holds. */
  async #respondBy(response: Response): Promise<void> {
    const { status, headers, body } = response;
    if (body === null || this.#isBodiless(status)) {
      if (body !== null) discard(response);
      return this.#sendWhole({ status, headers }, undefined);
    }
    const reader = body.getReader();
    this.#reader = reader;
    let reading = reader.read();
    const first = await this.#atOnce(reading);
    // A stream that is cancelled is over, too.
    if (this.#left) return;
    if (first?.done === true) return this.#sendWhole({ status, headers }, undefined);
    if (first !== undefined) {
      reading = reader.read();
      // What is all there has a length; a stream sends its first part without waiting for the second one.
      const second = await this.#atOnce(reading);
      if (this.#left) return;
      if (second?.done === true) return this.#sendWhole({ status, headers }, first.value);
    }
    if (this.#left) return;
    this.#sendHead({ status, headers }, this.#streamed());
    if (first !== undefined) this.#sendPiece(first.value);
    while (true) {
      const read = await reading;
      if (this.#left) return;
      if (read.done) return this.#sendEnd();
      this.#sendPiece(read.value);
      if (this.#options.connection.isFull) await new Promise<void>((resolve) => this.#onDrain = resolve);
      if (this.#left) return;
      reading = reader.read();
    }
  }

  /** What has been read by the next turn; undefined where that takes longer. */
  async #atOnce<Value>(reading: Promise<Value>): Promise<Value | undefined> {
    return await Promise.race([reading, this.#options.clock.sleep(0).then(() => undefined)]);
  }

  /** Has the next piece sent as soon as the client takes more. */
  readonly #pump = (): void => {
    const body = this.#body;
    if (body === undefined || this.#left) return;
    if (this.#options.connection.isFull) {
      this.#onDrain = this.#pump;
      return;
    }
    try {
      body.pass(this.#take, this.#fail).then(this.#pump, this.#fail);
    } catch (error) {
      // Nobody above would hear of it: not a turn in which all sockets write, nor the promise of the answer.
      this.#fail(error);
    }
  };

  readonly #take: TakePiece = (piece) => {
    if (this.#left) return;
    if (piece.done !== true) return this.#sendPiece(piece.value);
    this.#body = undefined;
    this.#sendEnd();
  };

  #isBodiless(status: number): boolean {
    return this.request.method === "HEAD" || status === 204 || status === 304;
  }

  #streamed(): Framing {
    return this.#options.head.isHttp11 ? "chunked" : "until_close";
  }

  #sendWhole(
    head: { readonly status: number; readonly headers: Readonly<Record<string, string>> | Headers },
    body: Uint8Array | undefined,
  ): void {
    const isBodiless = this.#isBodiless(head.status);
    const bytes = isBodiless ? undefined : body;
    this.#sendHead(head, isBodiless ? "none" : bytes?.length ?? 0, bytes);
    this.#answered();
  }

  #sendHead(
    { status, headers }: {
      readonly status: number;
      readonly headers: Readonly<Record<string, string>> | Headers;
    },
    framing: Framing,
    body?: Uint8Array,
  ): void {
    const { heads, connection, head: { isHttp11 } } = this.#options;
    const asked = headers instanceof Headers ? headers.get("connection") : headers["connection"];
    if (framing === "until_close" || asked === "close" || connection.isLast) this.#keepAlive = false;
    // A client that still waits to be asked for the body may send it, or not: what comes next cannot be told.
    if (this.owesContinue) this.#keepAlive = false;
    this.#hasBegun = true;
    this.#isChunked = framing === "chunked";
    const usual = this.#keepAlive === isHttp11;
    const head = heads.write({
      status,
      headers,
      framing,
      connection: usual ? undefined : this.#keepAlive ? "keep-alive" : "close",
    });
    connection.write(body === undefined || body.length === 0 ? [head] : [head, body]);
  }

  #sendPiece(piece: Uint8Array): void {
    if (piece.length === 0) return;
    const { connection } = this.#options;
    // Pieces whose writing is over when they leave: what is sent is not copied before.
    connection.write(this.#isChunked ? [piece.length.toString(16) + CRLF, piece, CRLF] : [piece]);
  }

  #sendEnd(): void {
    if (this.#isChunked) this.#options.connection.write([LAST_CHUNK]);
    this.#answered();
  }

  #answered(): void {
    this.isAnswered = true;
    this.#body = this.#reader = undefined;
    this.#options.connection.answered(this.#keepAlive);
  }
}

/** Nobody takes an answer any more. */
function discard(response: Response): void {
  const content = response instanceof ReadyResponse ? response.content : undefined;
  if (content === undefined) response.body?.cancel().catch(() => {});
  else if (!(content instanceof Uint8Array)) content.leave();
}
