import { ClientRequest } from "./client_request.ts";

/** What a piece of a streamed body, or its end, is handed to. */
export type TakePiece = (piece: IteratorResult<Uint8Array, unknown>) => void;

/** A body that is made while it is taken. */
export interface PulledBody {
  /** Has the next piece, or the end, handed over, always to the same; settles behind that. One at a time. */
  pass(take: TakePiece, fail: (error: unknown) => void): Promise<void>;
  /** The client has gone: nothing more is wanted. */
  leave(): void;
  /** The same, for those who take what the runtimes make. */
  asStream(): ReadableStream<Uint8Array>;
}

/** Parts of an answer. */
export interface ReadyAnswer {
  readonly status: number;
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array<ArrayBuffer> | PulledBody | undefined;
}

/**
 * An answer as our own server writes it, to a request that it has read: a `Response` of which nothing is made that nobody
 * asks for.
 */
export class ReadyResponse {
  readonly status: number;
  readonly content: ReadyAnswer["body"];
  readonly #record: Readonly<Record<string, string>>;
  #headers: Headers | undefined;
  #body: ReadableStream<Uint8Array> | null | undefined;

  constructor({ status, headers, body }: ReadyAnswer) {
    this.status = status;
    this.#record = headers;
    this.content = body;
  }

  /** Its headers; undefined once they may be others than it was made with, or its body was taken as a stream. */
  get record(): Readonly<Record<string, string>> | undefined {
    return this.#headers === undefined && this.#body === undefined ? this.#record : undefined;
  }

  /** This, for those who take what the runtimes make. */
  asResponse(): Response {
    if (!standsForResponse(this)) throw new TypeError("This is no response");
    return this;
  }

  get ok(): boolean {
    return this.status < 300;
  }

  get headers(): Headers {
    return this.#headers ??= new Headers(this.#record);
  }

  get body(): ReadableStream<Uint8Array> | null {
    if (this.#body !== undefined) return this.#body;
    const { content } = this;
    return this.#body = content === undefined || content instanceof Uint8Array
      ? new Response(content ?? null).body
      : content.asStream();
  }
}

/** An answer in the kind that the server of its request writes. */
export function answerTo(request: object, answer: ReadyAnswer): Response {
  if (request instanceof ClientRequest) return new ReadyResponse(answer).asResponse();
  const { status, headers, body } = answer;
  const init = { status, headers };
  if (body === undefined || body instanceof Uint8Array) return new Response(body ?? null, init);
  return new Response(body.asStream(), init);
}

/** A header of an answer; undefined without it. */
export function headerOf(response: Response, name: string): string | undefined {
  const record = response instanceof ReadyResponse ? response.record : undefined;
  return record === undefined ? response.headers.get(name) ?? undefined : record[name];
}

/** True: it has what handlers and middleware ask of a response. */
function standsForResponse(response: ReadyResponse): response is ReadyResponse & Response {
  return response instanceof ReadyResponse;
}
