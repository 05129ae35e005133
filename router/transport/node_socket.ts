import net from "node:net";
import tls from "node:tls";
import type { Target } from "./target.ts";
import type { SocketOwner, TlsClientOptions, WorkerSocket } from "./worker_socket.ts";

/** A connection by `node:net` or `node:tls`. */
export class NodeSocket implements WorkerSocket {
  readonly #socket: net.Socket;

  constructor(target: Target, owner: SocketOwner, options: TlsClientOptions | undefined) {
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
    socket.once(target.tls ? "secureConnect" : "connect", () => owner.onConnect());
    socket.on("data", (data) => typeof data === "string" ? undefined : owner.onData(data));
    socket.on("end", () => owner.onEnd());
    socket.on("error", (error) => owner.onError(error));
    socket.on("close", () => owner.onClose());
    this.#socket = socket;
  }

  get unsent(): boolean {
    return this.#socket.writableLength > 0;
  }

  write(pieces: readonly (string | Uint8Array)[]): void {
    for (const piece of pieces) {
      if (typeof piece === "string") this.#socket.write(piece, "utf8");
      else this.#socket.write(piece);
    }
  }

  pause(): void {
    this.#socket.pause();
  }

  resume(): void {
    this.#socket.resume();
  }

  destroy(): void {
    this.#socket.destroy();
  }
}

function tlsOptions({ ca, moreCa = [], cert, key }: TlsClientOptions = {}): tls.ConnectionOptions {
  const trusted = moreCa.length === 0 ? ca : [...tls.rootCertificates, ...moreCa];
  return {
    ...(trusted === undefined ? {} : { ca: trusted }),
    ...(cert === undefined || key === undefined ? {} : { cert, key }),
  };
}
