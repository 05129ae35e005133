import { Buffer } from "node:buffer";
import { VirtualClock } from "../../../../base/clock.ts";
import { ClientConnection, type ClientSocket } from "../../../../router/http/server/client_connection.ts";
import { ResponseHeads } from "../../../../router/http/server/response_head.ts";
import { BUN_HANDLERS, type BunSocket } from "../../../../router/transport/bun_socket.ts";
import { Turn } from "../../../../router/transport/turn.ts";

/** What answers a request of a `FakeClient`. */
export type Answers = (request: Request, env?: object) => Response | Promise<Response>;

/** The kernel's side of a `FakeClient`. */
class FakeSocket implements ClientSocket {
  data!: BunSocket;
  readonly remoteAddress = "10.0.0.1";
  readonly #client: FakeClient;

  constructor(client: FakeClient) {
    this.#client = client;
  }

  write(bytes: Uint8Array, from = 0, length: number = bytes.length - from): number {
    const count = Math.min(length, this.#client.room);
    this.#client.room -= count;
    // The memory is used again for the next write.
    if (count > 0) this.#client.taken.push(Buffer.from(bytes.slice(from, from + count)));
    return count;
  }

  pause(): void {
    this.#client.isPaused = true;
  }

  resume(): void {
    this.#client.isPaused = false;
  }

  shutdown(): void {
    this.#client.isFinished = true;
  }

  close(): void {
    this.#client.isClosed = true;
  }

  terminate(): void {
    this.#client.isClosed = this.#client.isReset = true;
  }

  setKeepAlive(): void {}
}

/** A client of a `ClientConnection`, without a socket and on a virtual clock. */
export class FakeClient {
  readonly clock = new VirtualClock();
  readonly connection: ClientConnection;
  /** Bytes that the kernel takes at once; the rest waits for `drain`. */
  room = Infinity;
  isPaused = false;
  /** What has been sent is over. */
  isFinished = false;
  isClosed = false;
  /** It was closed so that this side hears of a failure. */
  isReset = false;
  /** The server has forgotten the connection. */
  isForgotten = false;
  readonly taken: Buffer[] = [];
  readonly #raw = new FakeSocket(this);

  constructor(answers: Answers) {
    const { clock } = this;
    const served = { app: { fetch: answers }, clock, turn: new Turn(clock), heads: new ResponseHeads(clock) };
    this.connection = new ClientConnection(served, this.#raw);
    this.connection.onGone = () => void (this.isForgotten = true);
  }

  /** All that has come, as Latin-1. */
  get received(): string {
    return Buffer.concat(this.taken).toString("latin1");
  }

  /** Sends bytes, each text of its own read, and lets all settle that needs no time. */
  async send(...parts: readonly (string | Uint8Array)[]): Promise<string> {
    for (const part of parts) BUN_HANDLERS.data(this.#raw, Buffer.from(part as string));
    await this.settle();
    return this.received;
  }

  /** Lets all settle that needs no more than this time. */
  async settle(ms = 0): Promise<void> {
    await this.clock.advance(this.clock.now() + ms);
  }

  /** The kernel takes so many bytes more. */
  async drain(bytes = Infinity): Promise<void> {
    this.room = bytes;
    BUN_HANDLERS.drain(this.#raw);
    await this.settle();
  }

  /** Closes its side, or both. */
  async leave(how: "half" | "whole" = "whole"): Promise<void> {
    BUN_HANDLERS.end(this.#raw);
    if (how === "whole") BUN_HANDLERS.close(this.#raw);
    await this.settle();
  }
}

/** A POST with a body of a known length. */
export function post(body: string, headers = ""): string {
  return `POST /echo HTTP/1.1\r\nHost: here\r\n${headers}Content-Length: ${
    Buffer.byteLength(body)
  }\r\n\r\n${body}`;
}
