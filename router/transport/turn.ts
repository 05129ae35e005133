import type { Buffer } from "node:buffer";
import type { Clock } from "../../base/clock.ts";

/** A socket that takes part in a turn. */
export interface TurnSocket {
  /** Takes what it has read; never throws, since others have read in the same turn. */
  take(data: Buffer): void;
  /** Writes what waits. */
  flush(): void;
}

/**
 * A turn of the event loop, as far as sockets to workers go. What all of them have read is taken at its end, one after
 * the other, and so is what is written: a worker that is woken finds more than one request, the work of a kind follows
 * itself in the processor's caches, and a relayed request costs a fifth less where many are under way. Where one is,
 * its turn ends at once.
 */
export class Turn {
  readonly #clock: Clock;
  #readers: TurnSocket[] = [];
  #read: Buffer[] = [];
  #writers: TurnSocket[] = [];
  #ends = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Has the socket take bytes at the end of the turn. */
  read(socket: TurnSocket, data: Buffer): void {
    this.#readers.push(socket);
    this.#read.push(data);
    this.#end();
  }

  /** Has the socket write at the end of the turn. */
  write(socket: TurnSocket): void {
    this.#writers.push(socket);
    this.#end();
  }

  /** Has all sockets take what they have read by now: what a connection says of its end comes behind its bytes. */
  takeNow(): void {
    const readers = this.#readers;
    const read = this.#read;
    if (readers.length === 0) return;
    this.#readers = [];
    this.#read = [];
    for (let i = 0; i < readers.length; i++) readers[i]!.take(read[i]!);
  }

  #end(): void {
    if (this.#ends) return;
    this.#ends = true;
    this.#clock.timer(0, this.#onEnd);
  }

  readonly #onEnd = () => {
    this.#ends = false;
    this.takeNow();
    const writers = this.#writers;
    if (writers.length === 0) return;
    this.#writers = [];
    for (const socket of writers) socket.flush();
  };
}
