import { Buffer } from "node:buffer";
import net from "node:net";
import { TransportError } from "../../../base/transport.ts";
import type { MemoryHandler } from "../../../router/transport/memory.ts";

/** One request as a scripted server sees it, and what the server can do about it. */
export interface ServerSide {
  readonly method: string;
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** Requests that came over the same connection before. */
  readonly earlierOnConnection: number;
  /** Resolves when the client has closed the connection. */
  readonly gone: Promise<void>;
  /** Sends the head; the body is chunked unless the headers hold a content-length. */
  head(status: number, headers?: Record<string, string>): void;
  /** Sends one piece of the body; resolves when there is room for more. */
  write(bytes: Uint8Array | string): Promise<void>;
  end(): void;
  /** Breaks the connection. */
  reset(): void;
  /** Closes the connection in an orderly way. */
  close(): void;
  /** Sends bytes as they are. */
  raw(text: string): void;
}

export type ServerScript = (side: ServerSide) => void | Promise<void>;

export interface ScriptedServer {
  readonly url: string;
  /** Requests that arrived. */
  readonly requests: () => number;
  readonly stop: () => Promise<void>;
}

const encoder = new TextEncoder();

/** An HTTP/1.1 server over a real loopback socket, byte for byte under the script's control. */
export async function startNetServer(script: ServerScript): Promise<ScriptedServer> {
  let requests = 0;
  const sockets = new Set<net.Socket>();
  const server = net.createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    const gone = new Promise<void>((resolve) => socket.on("close", () => resolve()));
    socket.on("error", () => {});
    socket.on("close", () => sockets.delete(socket));
    let earlier = 0;
    let received: Buffer = Buffer.alloc(0);
    socket.on("data", (data) => {
      received = Buffer.concat([received, typeof data === "string" ? Buffer.from(data) : data]);
      while (true) {
        const headEnd = received.indexOf("\r\n\r\n");
        if (headEnd < 0) return;
        const [line = "", ...headerLines] = received.subarray(0, headEnd).toString("latin1").split("\r\n");
        const headers: Record<string, string> = {};
        for (const header of headerLines) {
          const colon = header.indexOf(":");
          headers[header.slice(0, colon).toLowerCase()] = header.slice(colon + 1).trim();
        }
        const length = Number(headers["content-length"] ?? 0);
        if (received.length < headEnd + 4 + length) return;
        const body = received.subarray(headEnd + 4, headEnd + 4 + length).toString();
        received = received.subarray(headEnd + 4 + length);
        requests++;
        const [method = "", path = ""] = line.split(" ");
        void script(netSide(socket, gone, { method, path, headers, body, earlierOnConnection: earlier++ }));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", 4096, resolve));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    requests: () => requests,
    stop: () => {
      for (const socket of sockets) socket.destroy();
      return new Promise((resolve) => server.close(() => resolve()));
    },
  };
}

type RequestFacts = Pick<ServerSide, "method" | "path" | "headers" | "body" | "earlierOnConnection">;

function netSide(socket: net.Socket, gone: Promise<void>, facts: RequestFacts): ServerSide {
  let chunked = true;
  const write = (bytes: Uint8Array | string): Promise<void> => {
    const data = typeof bytes === "string" ? encoder.encode(bytes) : bytes;
    const framed = chunked
      ? Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from("\r\n")])
      : data;
    if (socket.destroyed || socket.write(framed)) return Promise.resolve();
    return new Promise((resolve) => {
      socket.once("drain", resolve);
      void gone.then(resolve);
    });
  };
  return {
    ...facts,
    gone,
    head(status, headers = {}) {
      const bodiless = status === 204 || status === 304 || facts.method === "HEAD";
      chunked = !bodiless && headers["content-length"] === undefined;
      const all = chunked ? { ...headers, "transfer-encoding": "chunked" } : headers;
      const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`).join("");
      socket.write(`HTTP/1.1 ${status} Scripted\r\n${lines}\r\n`);
    },
    write,
    end: () => void (chunked && socket.write("0\r\n\r\n")),
    reset: () => socket.destroy(),
    close: () => socket.end(),
    raw: (text) => void socket.write(text),
  };
}

/** The same scripts behind `MemoryTransport`. Raw bytes and reused connections do not exist there. */
export function memoryServer(script: ServerScript): { handler: MemoryHandler; requests: () => number } {
  let requests = 0;
  const handler: MemoryHandler = (request, signal) => {
    requests++;
    const url = new URL(request.url);
    const queue: { bytes: Uint8Array; taken: () => void }[] = [];
    let wake = () => {};
    let ended = false;
    let broken = false;
    const { promise: gone, resolve: leave } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => {
      leave();
      wake();
    }, { once: true });
    async function* body(): AsyncGenerator<Uint8Array> {
      try {
        while (true) {
          const piece = queue.shift();
          if (piece !== undefined) {
            piece.taken();
            yield piece.bytes;
          } else if (broken) throw new TransportError("reset_in_body", request.url);
          else if (ended || signal.aborted) return;
          else await new Promise<void>((resolve) => wake = resolve);
        }
      } finally {
        leave();
        for (const piece of queue) piece.taken();
      }
    }
    return new Promise((resolve, reject) => {
      void script({
        method: request.method,
        path: url.pathname + url.search,
        headers: request.headers,
        body: typeof request.body === "string" ? request.body : new TextDecoder().decode(request.body),
        earlierOnConnection: 0,
        gone,
        head: (status, headers = {}) => resolve({ status, headers, body: body() }),
        write: (bytes) =>
          new Promise((taken) => {
            if (signal.aborted) return taken();
            queue.push({ bytes: typeof bytes === "string" ? encoder.encode(bytes) : bytes, taken });
            wake();
          }),
        end: () => {
          ended = true;
          wake();
        },
        reset: () => {
          broken = true;
          reject(new TransportError("reset_before_head", request.url));
          wake();
        },
        close: () => {},
        raw: () => {
          throw new Error("There are no raw bytes in memory");
        },
      });
    });
  };
  return { handler, requests: () => requests };
}
