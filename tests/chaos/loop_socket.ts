import { Buffer } from "node:buffer";
import { EventEmitter } from "node:events";
import net from "node:net";

/** The far end of a socket that is none. */
export interface LoopPeer {
  /** The worker's bytes arrive. */
  write(bytes: Uint8Array): void;
  /** The worker closes the connection. */
  end(): void;
}

/** A socket of `node:net`, as far as the transport uses it, whose other end is in this process. */
class LoopSocket extends EventEmitter {
  readonly writableLength = 0;
  #destroyed = false;
  readonly #onBytes: (bytes: Uint8Array, peer: LoopPeer, socket: object) => void;

  constructor(onBytes: (bytes: Uint8Array, peer: LoopPeer, socket: object) => void) {
    super();
    this.#onBytes = onBytes;
    queueMicrotask(() => this.#destroyed || this.emit("connect"));
  }

  write(bytes: string | Uint8Array): boolean {
    this.#onBytes(typeof bytes === "string" ? Buffer.from(bytes) : bytes, {
      write: (answer) => {
        if (!this.#destroyed) this.emit("data", Buffer.from(answer));
      },
      end: () => {
        if (!this.#destroyed) this.emit("end");
      },
    }, this);
    return true;
  }

  setNoDelay(): this {
    return this;
  }

  setKeepAlive(): this {
    return this;
  }

  pause(): this {
    return this;
  }

  resume(): this {
    return this;
  }

  destroy(): this {
    if (this.#destroyed) return this;
    this.#destroyed = true;
    queueMicrotask(() => this.emit("close"));
    return this;
  }
}

/** Lets `node:net` connect to this process while `use` runs. */
export async function withLoopSockets<T>(
  onBytes: (bytes: Uint8Array, peer: LoopPeer, socket: object) => void,
  use: () => Promise<T>,
): Promise<T> {
  const { connect } = net;
  Reflect.set(net, "connect", () => new LoopSocket(onBytes));
  try {
    return await use();
  } finally {
    Reflect.set(net, "connect", connect);
  }
}
