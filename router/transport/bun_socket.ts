import { Buffer } from "node:buffer";
import type { Clock } from "../../base/clock.ts";
import type { Target } from "./target.ts";
import type { Turn, TurnSocket } from "./turn.ts";
import { KEEP_ALIVE_MS, type SocketOwner, type WorkerSocket } from "./worker_socket.ts";

/** Bun's own socket, as far as it is used. */
export interface RawSocket {
  data: BunSocket;
  /** Number of bytes that were taken; the others are to be written when it has drained. */
  write(bytes: Uint8Array, from?: number, length?: number): number;
  pause(): void;
  resume(): void;
  close(): void;
  /** Closes it with a reset. */
  terminate(): void;
  /** Sends the end of what is written. */
  shutdown(): void;
  setKeepAlive(enable: boolean, idleMs: number): void;
}

/** What makes Bun's sockets: the runtime itself. */
export interface BunSockets {
  connect(options: {
    hostname: string;
    port: number;
    allowHalfOpen: boolean;
    data: BunSocket;
    socket: typeof BUN_HANDLERS;
  }): Promise<RawSocket>;
}

/** One set for all sockets, as Bun wants it. */
export const BUN_HANDLERS = {
  binaryType: "buffer",
  open: (raw: RawSocket) => raw.data.opened(raw),
  data: (raw: RawSocket, data: Buffer) => raw.data.turn.read(raw.data, data),
  drain: (raw: RawSocket) => raw.data.flush(),
  end: (raw: RawSocket) => raw.data.ended(),
  error: (raw: RawSocket, error: Error) => raw.data.owner.onError(error),
  connectError: (raw: RawSocket, error: Error) => raw.data.failed(error),
  close: (raw: RawSocket, error?: Error) => raw.data.closed(error),
} as const;

/** Where short pieces are put together: of all sockets, as each write is over before the next. */
const SHORT = Buffer.allocUnsafeSlow(64 * 1024);
/** Bytes that are written at once. */
const WRITE_BYTES = 256 * 1024;
/** Bytes that are written in a turn: a worker that reads as fast would take all of a long body. */
const TURN_BYTES = 1024 * 1024;
/** Bytes, about, that may be written before the end of the turn shows whether the other side takes them. */
const FULL_BYTES = 1024 * 1024;

/** A connection by Bun's own sockets, without TLS: a request over them costs some two thirds of one over its `node:net`. */
export class BunSocket implements WorkerSocket, TurnSocket {
  readonly owner: SocketOwner;
  readonly turn: Turn;
  readonly #clock: Clock;
  #raw: RawSocket | undefined;
  /** What did not fit into the kernel's buffer. */
  #waiting: (string | Uint8Array)[] = [];
  /** Bytes that were written since nothing waited, about: texts count by their characters. */
  #written = 0;
  #isFull = false;
  #finishes = false;
  #over = false;

  /** The socket of a connection that is still to come, or came from elsewhere: `opened` tells of it. */
  constructor(owner: SocketOwner, { clock, turn }: { clock: Clock; turn: Turn }) {
    this.owner = owner;
    this.turn = turn;
    this.#clock = clock;
  }

  /** Connects to a worker. */
  static connect(
    { host, port }: Target,
    owner: SocketOwner,
    { sockets = bunSockets(), ...options }: { clock: Clock; turn: Turn; sockets?: BunSockets },
  ): BunSocket {
    const socket = new BunSocket(owner, options);
    sockets.connect({ hostname: host, port, allowHalfOpen: true, data: socket, socket: BUN_HANDLERS })
      // `connectError` has told it, or nobody would.
      .catch((error) => socket.failed(error));
    return socket;
  }

  static get available(): boolean {
    return hasBun(globalThis);
  }

  get unsent(): boolean {
    return this.#waiting.length > 0;
  }

  get unsentBytes(): number {
    return this.#waiting.reduce((sum, { length }) => sum + length, 0);
  }

  /** True from when the kernel takes no more, or much waits for it, until it has taken all: then the owner hears `onDrain`. */
  get isFull(): boolean {
    return this.#isFull;
  }

  write(pieces: readonly (string | Uint8Array)[]): void {
    for (const piece of pieces) {
      this.#waiting.push(piece);
      this.#written += piece.length;
    }
    // Who makes bytes without a wait would come to the end of the memory before the end of the turn.
    if (this.#written > FULL_BYTES) this.#isFull = true;
    this.turn.write(this);
  }

  pause(): void {
    this.#raw?.pause();
  }

  resume(): void {
    this.#raw?.resume();
  }

  /** Sends the end behind what was written; nothing more is to be written. */
  finish(): void {
    this.#finishes = true;
    this.turn.write(this);
  }

  destroy(): void {
    this.#over = true;
    this.#waiting = [];
    this.#raw?.close();
  }

  /** As `destroy`; the other side sees that it is no orderly end. */
  reset(): void {
    this.#over = true;
    this.#waiting = [];
    this.#raw?.terminate();
  }

  opened(raw: RawSocket): void {
    this.#raw = raw;
    raw.setKeepAlive(true, KEEP_ALIVE_MS);
    // Nobody wants it any more.
    if (this.#over) raw.close();
    else this.owner.onConnect();
  }

  flush(): void {
    this.#flush();
    const isFull = this.#waiting.length > 0;
    const wasFull = this.#isFull;
    this.#isFull = isFull;
    if (isFull) return;
    this.#written = 0;
    if (wasFull) this.owner.onDrain?.();
    if (!this.#finishes || this.#over || this.#waiting.length > 0) return;
    this.#finishes = false;
    this.#raw?.shutdown();
    this.owner.onFinish?.();
  }

  #flush(): void {
    if (!this.#sendShort()) return;
    const waiting = this.#waiting;
    let sent = 0;
    let left = TURN_BYTES;
    while (sent < waiting.length) {
      if (left <= 0) {
        this.#clock.sleep(0).then(() => this.flush());
        break;
      }
      const piece = bytesOf(waiting[sent]!);
      const part = piece.length > WRITE_BYTES ? piece.subarray(0, WRITE_BYTES) : piece;
      const bytes = Math.max(0, this.#raw?.write(part) ?? 0);
      if (bytes === piece.length) sent++;
      else waiting[sent] = piece.subarray(bytes);
      if (bytes < part.length) break;
      left -= bytes;
    }
    if (sent === waiting.length) waiting.length = 0;
    else if (sent > 0) waiting.splice(0, sent);
  }

  /** Sends the short pieces at the front together, out of memory that is there already; false when not all fitted. */
  #sendShort(): boolean {
    const waiting = this.#waiting;
    let length = 0;
    let pieces = 0;
    for (const piece of waiting) {
      // A UTF-16 unit takes no more than three bytes.
      const most = typeof piece === "string" ? 3 * piece.length : piece.length;
      if (length + most > SHORT.length) break;
      if (typeof piece === "string") length += SHORT.write(piece, length);
      else {
        SHORT.set(piece, length);
        length += piece.length;
      }
      pieces++;
    }
    if (length === 0) return true;
    const sent = Math.max(0, this.#raw?.write(SHORT, 0, length) ?? 0);
    if (pieces === waiting.length) waiting.length = 0;
    else waiting.splice(0, pieces);
    if (sent === length) return true;
    waiting.unshift(Buffer.from(SHORT.subarray(sent, length)));
    return false;
  }

  failed(error: Error): void {
    if (this.#over) return;
    this.owner.onError(error);
    this.closed();
  }

  ended(): void {
    this.turn.takeNow();
    this.owner.onEnd();
  }

  closed(error?: Error): void {
    this.turn.takeNow();
    if (this.#over) return;
    this.#over = true;
    if (error !== undefined) this.owner.onError(error);
    this.owner.onClose();
  }
}

function bytesOf(piece: string | Uint8Array): Uint8Array {
  return typeof piece === "string" ? Buffer.from(piece) : piece;
}

function bunSockets(): BunSockets {
  const runtime: object = globalThis;
  if (!hasBun(runtime)) throw new Error("Cannot use Bun's sockets: this is another runtime");
  return runtime.Bun;
}

function hasBun(scope: object): scope is { Bun: BunSockets } {
  return "Bun" in scope;
}
