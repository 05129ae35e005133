import type { Buffer } from "node:buffer";
import type { SocketOwner } from "./worker_socket.ts";
import { type Clock, SystemClock } from "../../base/clock.ts";

/** A socket that takes part in a turn. */
export interface TurnSocket {
  readonly owner: Pick<SocketOwner, "receiver" | "onData">;
  /** Writes what waits. */
  flush(): void;
}

/**
 * A turn of the event loop, as far as sockets go. What all of them have read is taken at its end, one after
 * the other, and so is what is written: a worker that is woken finds more than one request, the work of a kind follows
 * itself in the processor's caches, and a relayed request costs a fifth less where many are under way. Where one is,
 * its turn ends at once.
 */
export class Turn {
  readonly #clock: Clock;
  #readers: TurnSocket[] = [];
  #read: Buffer[] = [];
  /** Whose answer was awaited when it came: the next request of a socket may be written before it is taken. */
  #receivers: (object | undefined)[] = [];
  #writers: TurnSocket[] = [];
  #ends = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Has the socket's owner take bytes at the end of the turn. */
  read(socket: TurnSocket, data: Buffer): void {
    this.#readers.push(socket);
    this.#read.push(data);
    this.#receivers.push(socket.owner.receiver);
    this.#end();
  }

  /** Has the socket write at the end of the turn. */
  write(socket: TurnSocket): void {
    this.#writers.push(socket);
    this.#end();
  }

  /** Has all owners take what their sockets have read by now: what a connection says of its end comes behind its bytes. */
  takeNow(): void {
    const readers = this.#readers;
    const read = this.#read;
    const receivers = this.#receivers;
    if (readers.length === 0) return;
    this.#readers = [];
    this.#read = [];
    this.#receivers = [];
    for (let i = 0; i < readers.length; i++) readers[i]!.owner.onData(read[i]!, receivers[i]);
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

/** That of all sockets of this thread, to workers and clients: sockets are real, whatever the clock. */
export const SOCKET_TURN = new Turn(new SystemClock());
