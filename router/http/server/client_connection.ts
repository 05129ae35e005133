import { Buffer } from "node:buffer";
import type { Clock } from "../../../base/clock.ts";
import { messageOf } from "../../../base/errors.ts";
import { logger } from "../../../base/log.ts";
import { BunSocket, type RawSocket } from "../../transport/bun_socket.ts";
import type { Turn } from "../../transport/turn.ts";
import type { SocketOwner } from "../../transport/worker_socket.ts";
import { ClientExchange, type ExchangeConnection } from "./client_exchange.ts";
import { ClientRequest, type RequestSource } from "./client_request.ts";
import type { Fetches } from "./fetches.ts";
import { NO_URL, noRequestBody } from "./no_request.ts";
import { type RequestHead, RequestParser } from "./request_parser.ts";
import { requestUrl } from "./request_url.ts";
import type { ResponseHeads } from "./response_head.ts";

/** Bytes of further requests that are kept while one is answered; a client that sends more waits. */
const MAX_PIPELINED_BYTES = 64 * 1024;
/** Longest time for a request's head, from its first byte, in ms. */
const HEAD_MS = 60_000;
/** Longest time in which nothing of a request's body comes, in ms. */
const BODY_MS = 60_000;
/**
 * What is still read behind an answer that came before the request's end: a client that is cut off loses the answer, and
 * most send all of a body that is far too long before they read that it is.
 */
const LINGER = { bytes: 256 * 1024 * 1024, ms: 30_000 };
/** Time in ms after which a client that waits is read a little further: a paused socket does not tell that it has gone. */
const PROBE_MS = 5_000;
/** Bytes that are kept of such a client: it has sent more than a kernel holds for one that has gone. */
const MAX_PROBED_BYTES = 8 * 1024 * 1024;
/** Time in ms in which something must move once the server closes; the kernel tells in leaps of what a slow client takes. */
const STALL_MS = 30_000;
/** Time in ms for a client to close its side behind the end. */
const END_MS = 500;
const log = logger("http");

/** What all connections of a server share. */
export interface ServedBy {
  readonly app: Fetches;
  readonly clock: Clock;
  readonly turn: Turn;
  readonly heads: ResponseHeads;
}

/** A socket that a client has opened. */
export interface ClientSocket extends RawSocket {
  readonly remoteAddress: string;
}

/** A connection from a client: its requests are answered one after the other. */
export class ClientConnection implements SocketOwner, RequestSource, ExchangeConnection {
  readonly receiver = undefined;
  readonly remoteAddress: string;
  readonly #server: ServedBy;
  readonly #socket: BunSocket;
  readonly #parser = new RequestParser();
  /** The request that is being answered. */
  #exchange: ClientExchange | undefined;
  /** Is told when the connection is over. */
  onGone: (() => void) | undefined;
  /** Bytes behind it. */
  #rest: Buffer[] = [];
  #restBytes = 0;
  #paused = false;
  #takesRest = false;
  #state: "open" | "ending" | "closed" = "open";
  /** No further request is read. */
  #last = false;
  /** Bytes that may still be read of a request that was answered before its end. */
  #lingerBytes = 0;
  #cancelTimer: (() => void) | undefined;
  #cancelWatch: (() => void) | undefined;
  #cancelProbe: (() => void) | undefined;

  constructor(server: ServedBy, raw: ClientSocket) {
    this.#server = server;
    this.remoteAddress = raw.remoteAddress;
    this.#socket = new BunSocket(this, server);
    raw.data = this.#socket;
    this.#socket.opened(raw);
  }

  /** Ends the connection behind what is being answered; at once between two requests. */
  close(): void {
    // What has come by now is answered.
    this.#server.turn.takeNow();
    this.#last = true;
    if (this.#exchange === undefined && this.#state === "open") {
      if (!this.#socket.unsent) return this.destroy();
      this.#end();
    }
    if (this.#state !== "closed") this.#watch(this.#socket.unsentBytes);
  }

  /** A client that sends no more of its request, or takes nothing of its answer, would keep the server for ever. */
  #watch(unsentBytes: number): void {
    this.#cancelWatch?.();
    this.#cancelWatch = this.#server.clock.timer(STALL_MS, () => {
      const now = this.#socket.unsentBytes;
      const sendsNoMore = this.#exchange?.hasBegun === false && !this.#parser.complete;
      if (sendsNoMore || now > 0 && now === unsentBytes) this.destroy();
      else this.#watch(now);
    });
  }

  /** Closes it at once. */
  destroy(): void {
    if (this.#state === "closed") return;
    this.#socket.destroy();
    this.onClose();
  }

  /** Closes it so that its client does not take what has come for all. */
  reset(): void {
    if (this.#state === "closed") return;
    this.#socket.reset();
    this.onClose();
  }

  get isLast(): boolean {
    return this.#last;
  }

  get isFull(): boolean {
    return this.#socket.isFull;
  }

  write(pieces: readonly (string | Uint8Array)[]): void {
    this.#socket.write(pieces);
  }

  onConnect(): void {}

  onData(data: Buffer): void {
    try {
      if (this.#state !== "open") this.#spend(data.length);
      else if (this.#mustWait) this.#keep(data);
      else this.#take(data);
    } catch (error) {
      log.error("A connection was given up: {error}", { error: messageOf(error), cause: error });
      this.destroy();
    }
  }

  onDrain(): void {
    if (this.#exchange !== undefined) this.#exchange.onDrain();
    else if (this.#state === "open") this.#takeRest();
  }

  onFinish(): void {
    this.#setTimer(END_MS);
  }

  onEnd(): void {
    // Half-closed and gone cannot be told apart, and no engine may work for somebody who has gone. What has been
    // answered still leaves.
    const works = this.#exchange?.isAnswered === false;
    if (works || !this.#socket.unsent) this.destroy();
    else if (this.#state === "open") this.#end();
  }

  onError(_error: Error): void {}

  onClose(): void {
    if (this.#state === "closed") return;
    this.#state = "closed";
    this.#setTimer(undefined);
    this.#cancelWatch?.();
    this.#cancelProbe?.();
    this.#parser.free();
    this.#rest = [];
    const exchange = this.#exchange;
    this.#exchange = undefined;
    exchange?.leave(new Error("The client has gone"));
    this.onGone?.();
  }

  onRead(): void {
    const exchange = this.#exchange;
    if (exchange === undefined || this.#state !== "open") return;
    if (exchange.owesContinue && !exchange.request.isUnread) {
      exchange.owesContinue = false;
      if (!exchange.hasBegun && !this.#parser.complete) this.write(["HTTP/1.1 100 Continue\r\n\r\n"]);
    }
    this.#pauseOrResume();
  }

  answered(reusable: boolean): void {
    if (!reusable) this.#last = true;
    // The rest of the request has come, or will not come.
    if (this.#parser.complete || this.#exchange?.owesContinue === true) return this.#next();
    // A client that is cut off while it sends loses the answer.
    this.#lingerBytes = LINGER.bytes;
    this.#setTimer(LINGER.ms);
    this.#exchange?.request.drop();
  }

  #next(): void {
    this.#exchange = undefined;
    if (this.#last) return this.#end();
    this.#parser.begin();
    this.#takeRest();
  }

  /** True while what comes belongs to further requests, and cannot be answered yet. */
  get #mustWait(): boolean {
    return this.#parser.complete || this.#exchange === undefined && this.#socket.isFull;
  }

  /** Takes what has come behind the last request, once the client takes answers: who only asks would fill the memory. */
  #takeRest(): void {
    // It comes here again for each request that is answered at once: thousands of them would fill the stack.
    if (this.#takesRest) return;
    this.#takesRest = true;
    while (this.#restBytes > 0 && this.#state === "open" && !this.#mustWait) {
      const rest = this.#rest.length === 1 ? this.#rest[0]! : Buffer.concat(this.#rest);
      this.#rest = [];
      this.#restBytes = 0;
      this.#take(rest);
    }
    this.#takesRest = false;
    // A body that nobody read had its client wait: the next request is to be read.
    this.#pauseOrResume();
  }

  /** The client reads what was written, and then the end. */
  #end(): void {
    this.#state = "ending";
    this.#lingerBytes = LINGER.bytes;
    this.#setTimer(undefined);
    if (this.#paused) this.#socket.resume();
    this.#socket.finish();
  }

  #take(data: Buffer): void {
    const parser = this.#parser;
    const at = parser.parse(data, 0);
    const head = parser.takeHead();
    if (head !== undefined && !this.#begin(head)) return;
    if (at < 0) return this.#refuse(parser.problemStatus, parser.problem);
    const exchange = this.#exchange;
    for (const chunk of parser.takeChunks()) exchange?.takeBody(chunk);
    if (at < data.length) this.#keep(data.subarray(at));
    if (exchange === undefined) {
      if (this.#cancelTimer === undefined) this.#setTimer(HEAD_MS);
    } else if (exchange.isAnswered) {
      if (parser.complete) this.#endOfBody();
      else this.#spend(data.length);
    } else {
      if (parser.complete) exchange.takeEnd();
      this.#setTimer(parser.complete ? undefined : BODY_MS, this.#onBodyLate);
      if (head !== undefined) exchange.serve();
      this.#pauseOrResume();
    }
  }

  /** A client that sends nothing more of its request would keep what it has sent, and its place, for ever. */
  readonly #onBodyLate = (): void => {
    const exchange = this.#exchange;
    if (this.#state !== "open" || exchange === undefined || exchange.hasBegun) return;
    // It is we who have it wait.
    if (exchange.request.isFull || exchange.owesContinue) return this.#setTimer(BODY_MS, this.#onBodyLate);
    this.#refuse(408, `nothing more of its body came for ${BODY_MS / 1000} s`);
  };

  #begin(head: RequestHead): boolean {
    this.#setTimer(undefined);
    const { app, clock, heads } = this.#server;
    const url = requestUrl(head.target, head.headers["host"] ?? "");
    if (url === undefined) {
      this.#refuse(400, NO_URL);
      return false;
    }
    const request = new ClientRequest(head, url, this);
    this.#exchange = new ClientExchange({ app, clock, heads, connection: this, head, request });
    return true;
  }

  /** A request that was answered before its end has come to it. */
  #endOfBody(): void {
    this.#setTimer(undefined);
    this.#next();
  }

  #keep(data: Buffer): void {
    this.#rest.push(data);
    this.#restBytes += data.length;
    this.#pauseOrResume();
  }

  /** Bytes that nobody wants. */
  #spend(bytes: number): void {
    this.#lingerBytes -= bytes;
    if (this.#lingerBytes < 0) this.destroy();
  }

  #pauseOrResume(): void {
    const pause = this.#restBytes > MAX_PIPELINED_BYTES || this.#exchange?.request.isFull === true;
    if (pause === this.#paused || this.#state !== "open") return;
    this.#paused = pause;
    if (!pause) return this.#socket.resume();
    this.#socket.pause();
    this.#cancelProbe ??= this.#server.clock.timer(PROBE_MS, this.#probe);
  }

  readonly #probe = (): void => {
    this.#cancelProbe = undefined;
    if (!this.#paused || this.#state !== "open") return;
    const exchange = this.#exchange;
    const works = exchange?.isAnswered === false;
    const kept = this.#restBytes + (exchange?.request.bufferedBytes ?? 0);
    if (!works || kept > MAX_PROBED_BYTES) {
      this.#cancelProbe = this.#server.clock.timer(PROBE_MS, this.#probe);
      return;
    }
    // More of it has the socket paused again.
    this.#paused = false;
    this.#socket.resume();
  };

  /** Answers what is no request, and ends the connection. */
  #refuse(status: number, problem: string): void {
    const exchange = this.#exchange;
    // An answer is under way: nothing can be said in its place.
    if (exchange?.hasBegun === true) return this.destroy();
    this.#exchange = undefined;
    exchange?.leave(new Error(problem));
    const body = Buffer.from(noRequestBody(status, problem));
    const headers = { "content-type": "application/json" };
    const head = { status, headers, framing: body.length, connection: "close" } as const;
    this.write([this.#server.heads.write(head), body]);
    this.#end();
  }

  readonly #onLate = (): void => this.destroy();

  #setTimer(ms: number | undefined, onDue = this.#onLate): void {
    this.#cancelTimer?.();
    this.#cancelTimer = ms === undefined ? undefined : this.#server.clock.timer(ms, onDue);
  }
}
