import type { Buffer } from "node:buffer";

/** Sides of TLS to workers, all in PEM. */
export interface TlsClientOptions {
  /** Certificates to trust instead of the system's. */
  readonly ca?: string | undefined;
  /** Certificates to trust besides the system's. */
  readonly moreCa?: readonly string[] | undefined;
  /** The certificate that is shown to servers that ask for one, and its key. */
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  /** Certificates are not looked at: for a server of this very machine, whose certificate names another address. */
  readonly anyCertificate?: boolean | undefined;
}

/**
 * Time in ms without a byte after which the system asks (TCP keep-alive) whether the other side still has the
 * connection: one that a machine or a firewall has forgotten breaks, where it would wait for a time limit.
 */
export const KEEP_ALIVE_MS = 15_000;

/** Bytes to and from a worker. */
export interface WorkerSocket {
  /** True while bytes that were written have not left. */
  readonly unsent: boolean;
  /** Texts are encoded in UTF-8; short pieces leave together. */
  write(pieces: readonly (string | Uint8Array)[]): void;
  pause(): void;
  resume(): void;
  /** Closes it at once. */
  destroy(): void;
}

/** What a socket tells its owner; after `destroy` nothing that matters. */
export interface SocketOwner {
  /** Whose answer is awaited; undefined between two requests. */
  readonly receiver: object | undefined;
  onConnect(): void;
  /** What could not be written has left. */
  onDrain?(): void;
  /** The end was sent, where that was asked for. */
  onFinish?(): void;
  /** The bytes are the owner's; `receiver`: whose answer was awaited when they came. Never throws. */
  onData(data: Buffer, receiver: object | undefined): void;
  /** The other side sends nothing more. */
  onEnd(): void;
  /** `onClose` follows. */
  onError(error: Error): void;
  onClose(): void;
}
