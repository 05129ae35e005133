import { joined } from "../../../base/bytes.ts";
import { Stopper, type StopSignal } from "../../../base/stop_signal.ts";
import { headerRecord } from "../../wire/headers.ts";
import type { RequestHead } from "./request_parser.ts";

/** Bytes of a body that may wait for those who read it, before the client's socket is paused. */
const HIGH_WATER_BYTES = 256 * 1024;

/** What a request tells the connection that it came from. */
export interface RequestSource {
  readonly remoteAddress: string;
  /** Its body is wanted, from the first time on. */
  onRead(): void;
}

/**
 * A client's request as `fetch` handlers take it: a `Request` of which nothing is made that nobody asks for. The runtimes'
 * own objects cost more than all that a relayed request needs of them.
 */
export class ClientRequest {
  readonly method: string;
  readonly url: string;
  /** Lower-case names. */
  readonly headerRecord: Record<string, string>;
  readonly #source: RequestSource;
  readonly #hasBody: boolean;
  readonly #gone = new Stopper();
  #headers: Headers | undefined;
  #chunks: Uint8Array<ArrayBuffer>[] = [];
  #bufferedBytes = 0;
  #state: "open" | "complete" | "broken" = "open";
  /** Somebody reads the body, or takes all of it. */
  #reading: "no" | "pieces" | "all" = "no";
  /** Waits for more of the body. */
  #wake: (() => void) | undefined;
  #stream: ReadableStream<Uint8Array<ArrayBuffer>> | undefined;
  /** There is a copy: what is read comes out of the stream that both share. */
  #isCopied = false;

  constructor({ method, headers }: RequestHead, url: string, source: RequestSource) {
    this.method = method;
    this.url = url;
    this.headerRecord = headers;
    this.#source = source;
    // Those of these are none to the runtimes, either: they make no `Request` with one.
    const mayHave = method !== "GET" && method !== "HEAD";
    this.#hasBody = mayHave &&
      (headers["content-length"] !== undefined || headers["transfer-encoding"] !== undefined);
  }

  /** This, for those who take what the runtimes make. */
  asRequest(): Request {
    if (!standsForRequest(this)) throw new TypeError("This is no request");
    return this;
  }

  /** Aborts when the client has gone. */
  get gone(): StopSignal {
    return this.#gone;
  }

  /** The same in the runtime's own kind, which costs more. */
  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  get headers(): Headers {
    return this.#headers ??= new Headers(this.headerRecord);
  }

  get bodyUsed(): boolean {
    return this.#hasBody && this.#reading !== "no";
  }

  /** The caller's address, under the name by which Bun's own server tells it. */
  requestIP(): { readonly address: string } {
    return { address: this.#source.remoteAddress };
  }

  /** The body, piece by piece; a client who reads slower than it is sent has it wait. Null without one. */
  get body(): ReadableStream<Uint8Array<ArrayBuffer>> | null {
    if (!this.#hasBody) return null;
    return this.#stream ??= new ReadableStream({
      pull: async (controller) => {
        this.#read("pieces");
        while (this.#chunks.length === 0 && this.#state === "open") await this.#more();
        const chunk = this.#chunks.shift();
        if (chunk !== undefined) {
          this.#bufferedBytes -= chunk.length;
          this.#source.onRead();
          controller.enqueue(chunk);
        } else if (this.#state === "complete") controller.close();
        else controller.error(brokenBody());
      },
      cancel: () => this.drop(),
    }, { highWaterMark: 0 });
  }

  /** The whole body. Rejects when it breaks off, and where somebody has begun to read it. */
  async bytes(): Promise<Uint8Array<ArrayBuffer>> {
    if (this.#isCopied) return await this.#asResponse().bytes();
    if (this.bodyUsed) throw new TypeError("The body has been read already");
    this.#read("all");
    while (this.#state === "open") await this.#more();
    if (this.#state === "broken") throw brokenBody();
    const chunks = this.#chunks;
    this.drop();
    return chunks.length === 1 ? chunks[0]! : joined(chunks);
  }

  async arrayBuffer(): Promise<ArrayBuffer> {
    return (await this.bytes()).buffer;
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes());
  }

  async json(): Promise<unknown> {
    return JSON.parse(await this.text());
  }

  async formData(): Promise<FormData> {
    return await this.#asResponse().formData();
  }

  async blob(): Promise<Blob> {
    return await this.#asResponse().blob();
  }

  /** The same in the runtime's own kind, with a body of its own. */
  clone(): Request {
    const { method, headers, signal, body } = this;
    if (body === null) return new Request(this.url, { method, headers, signal });
    const [own, other] = body.tee();
    this.#stream = own;
    this.#isCopied = true;
    return new Request(this.url, { method, headers, signal, body: other });
  }

  /** Bytes of the body that wait for those who read it. */
  get bufferedBytes(): number {
    return this.#bufferedBytes;
  }

  /** True when so much of the body waits that the socket is to be paused. */
  get isFull(): boolean {
    return this.#reading !== "all" && this.#bufferedBytes > HIGH_WATER_BYTES;
  }

  /** True when nobody has asked for the body yet. */
  get isUnread(): boolean {
    return this.#reading === "no";
  }

  /** Takes a part of the body. */
  push(chunk: Uint8Array<ArrayBuffer>): void {
    if (this.#state !== "open") return;
    this.#chunks.push(chunk);
    this.#bufferedBytes += chunk.length;
    this.#notify();
  }

  /** The body is there. */
  complete(): void {
    if (this.#state === "open") this.#state = "complete";
    this.#notify();
  }

  /** Nobody wants the body: what is there, and what still comes. */
  drop(): void {
    this.#chunks = [];
    this.#bufferedBytes = 0;
    if (this.#state === "open") this.#state = "broken";
    this.#source.onRead();
    this.#notify();
  }

  /** The client has gone: a body that is not there will not come. */
  leave(reason: unknown): void {
    if (this.#state === "open") this.#state = "broken";
    this.#gone.abort(reason);
    this.#notify();
  }

  #asResponse(): Response {
    const type = this.headerRecord["content-type"];
    return new Response(this.body, type === undefined ? {} : { headers: { "content-type": type } });
  }

  #read(how: "pieces" | "all"): void {
    if (this.#reading === how) return;
    this.#reading = how;
    this.#source.onRead();
  }

  #more(): Promise<void> {
    return new Promise((resolve) => this.#wake = resolve);
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}

/** True: it has what handlers ask of a request. */
function standsForRequest(request: ClientRequest): request is ClientRequest & Request {
  return request instanceof ClientRequest;
}

/** What aborts when the client of a request has gone. */
export function goneSignal(request: Request): StopSignal {
  return isOurs(request) ? request.gone : request.signal;
}

/** The headers of a request by their lower-case names, for the reader's own use. */
export function headerRecordOf(request: Request): Record<string, string> {
  return isOurs(request) ? request.headerRecord : headerRecord(request.headers);
}

function isOurs(request: object): request is ClientRequest {
  return request instanceof ClientRequest;
}

function brokenBody(): TypeError {
  return new TypeError("The connection was closed before the body was complete");
}
