import { Buffer } from "node:buffer";
import net from "node:net";
import tls from "node:tls";
import type { Target } from "./target.ts";
import {
  KEEP_ALIVE_MS,
  type SocketOwner,
  type TlsClientOptions,
  type WorkerSocket,
} from "./worker_socket.ts";
import type { Turn, TurnSocket } from "./turn.ts";

/** Pieces up to this long together are copied, to leave in one write. */
const ONE_WRITE_BYTES = 64 * 1024;
/** Bytes that are written at once: what the system does not take is copied, of megabytes all in one turn. */
const WRITE_BYTES = 256 * 1024;

/** A connection by `node:net` or `node:tls`. */
export class NodeSocket implements WorkerSocket, TurnSocket {
  readonly #socket: net.Socket;
  readonly owner: SocketOwner;
  readonly #turn: Turn;
  /** What waits for room. */
  readonly #waiting: Uint8Array[] = [];

  constructor(
    target: Target,
    owner: SocketOwner,
    { turn, tls: options }: { turn: Turn; tls?: TlsClientOptions | undefined },
  ) {
    this.owner = owner;
    this.#turn = turn;
    const { host, port } = target;
    const socket = target.tls
      ? tls.connect({
        host,
        port,
        ALPNProtocols: ["http/1.1"],
        ...(net.isIP(host) === 0 ? { servername: host } : {}),
        ...tlsOptions(options),
      })
      : net.connect({ host, port, noDelay: true });
    if (target.tls) socket.setNoDelay(true);
    socket.once("connect", () => socket.setKeepAlive(true, KEEP_ALIVE_MS));
    socket.once(target.tls ? "secureConnect" : "connect", () => owner.onConnect());
    socket.on("drain", () => this.flush());
    socket.on("data", (data) => typeof data === "string" ? undefined : turn.read(this, data));
    socket.on("end", () => {
      turn.takeNow();
      owner.onEnd();
    });
    socket.on("error", (error) => owner.onError(error));
    socket.on("close", () => {
      turn.takeNow();
      owner.onClose();
    });
    this.#socket = socket;
  }

  get unsent(): boolean {
    return this.#waiting.length > 0 || this.#socket.writableLength > 0;
  }

  write(pieces: readonly (string | Uint8Array)[]): void {
    const bytes = pieces.map((piece) => typeof piece === "string" ? Buffer.from(piece) : piece);
    const length = bytes.reduce((sum, piece) => sum + piece.length, 0);
    this.#waiting.push(...(length > ONE_WRITE_BYTES ? bytes : [Buffer.concat(bytes, length)]));
    this.#turn.write(this);
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  destroy(): void {
    this.#waiting.length = 0;
    this.#socket.destroy();
  }

  flush(): void {
    const waiting = this.#waiting;
    for (let piece = waiting.shift(); piece !== undefined; piece = waiting.shift()) {
      if (piece.length > WRITE_BYTES) {
        waiting.unshift(piece.subarray(WRITE_BYTES));
        piece = piece.subarray(0, WRITE_BYTES);
      }
      if (!this.#socket.write(piece)) return;
    }
  }
}

function tlsOptions(
  { ca, moreCa = [], cert, key, anyCertificate }: TlsClientOptions = {},
): tls.ConnectionOptions {
  const trusted = moreCa.length === 0 ? ca : [...tls.rootCertificates, ...moreCa];
  return {
    ...(trusted === undefined ? {} : { ca: trusted }),
    ...(anyCertificate === true ? { rejectUnauthorized: false } : {}),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
}
