/**
 * The least that a router on Bun does: `Bun.serve` in front of pooled raw sockets, no policy, health, limit, count or
 * check. What a router costs over this is its own.
 *
 *     bun bench/micro/peers/floor.ts PORT DECODE_PORT [PREFILL_PORT]
 */
import { Buffer } from "node:buffer";
import process from "node:process";

interface Socket {
  readonly data: Upstream;
  write(bytes: Uint8Array): number;
}

/** Bun's own socket and server, as far as they are used. */
interface BunRuntime {
  connect(options: {
    hostname: string;
    port: number;
    data: Upstream;
    socket: { data(socket: Socket, bytes: Buffer): void; close(socket: Socket): void };
  }): Promise<Socket>;
  serve(options: {
    hostname: string;
    port: number;
    idleTimeout: number;
    fetch: (request: Request) => Promise<Response>;
  }): object;
}

interface Head {
  readonly whole: Buffer<ArrayBuffer> | undefined;
  readonly stream: ReadableStream<Uint8Array<ArrayBuffer>> | undefined;
}

const { Bun } = globalThis as typeof globalThis & { Bun: BunRuntime };
const [port = 0, decodePort = 0, prefillPort = 0] = process.argv.slice(2).map(Number);
let rooms = 0;
const pools = new Map<number, Upstream[]>([[decodePort, []], [prefillPort, []]]);

/** One kept socket, which carries one request at a time. */
class Upstream {
  socket: Socket | undefined;
  readonly #port: number;
  #resolve: (head: Head) => void = () => {};
  #stream: ReadableStreamDefaultController<Uint8Array<ArrayBuffer>> | undefined;
  #drop = false;
  #rest = Buffer.alloc(0);

  constructor(port: number) {
    this.#port = port;
  }

  send(bytes: Uint8Array, drop: boolean): Promise<Head> {
    this.#drop = drop;
    return new Promise((resolve) => {
      this.#resolve = resolve;
      this.socket!.write(bytes);
    });
  }

  take(bytes: Buffer): void {
    if (bytes[0] !== 0x48 /* H */) return this.#takeChunks(bytes);
    const end = bytes.indexOf("\r\n\r\n") + 4;
    const head = bytes.toString("latin1", 0, end);
    const length = /content-length: (\d+)/.exec(head)?.[1];
    if (length !== undefined) {
      // The mock sends such answers in one piece.
      this.#free();
      return this.#resolve({ whole: Buffer.from(bytes.subarray(end)), stream: undefined });
    }
    if (this.#drop) this.#resolve({ whole: undefined, stream: undefined });
    else {
      const stream = new ReadableStream<Uint8Array<ArrayBuffer>>({
        start: (controller) => void (this.#stream = controller),
        // The clients have left: what still comes goes nowhere.
        cancel: () => void (this.#stream = undefined),
      });
      this.#resolve({ whole: undefined, stream });
    }
    if (bytes.length > end) this.#takeChunks(bytes.subarray(end));
  }

  #takeChunks(read: Buffer): void {
    const bytes = this.#rest.length === 0 ? read : Buffer.concat([this.#rest, read]);
    let from = 0;
    while (from < bytes.length) {
      const line = bytes.indexOf("\r\n", from);
      const size = line < 0 ? NaN : parseInt(bytes.toString("latin1", from, line), 16);
      const next = line + 2 + size + 2;
      if (!(next <= bytes.length)) break;
      if (size === 0) return this.#end();
      this.#stream?.enqueue(new Uint8Array(bytes.subarray(line + 2, next - 2)));
      from = next;
    }
    this.#rest = Buffer.from(bytes.subarray(from));
  }

  #end(): void {
    this.#stream?.close();
    this.#stream = undefined;
    this.#rest = Buffer.alloc(0);
    this.#free();
  }

  #free(): void {
    pools.get(this.#port)!.push(this);
  }
}

async function upstream(at: number): Promise<Upstream> {
  const free = pools.get(at)!.pop();
  if (free !== undefined) return free;
  const made = new Upstream(at);
  made.socket = await Bun.connect({
    hostname: "127.0.0.1",
    port: at,
    data: made,
    socket: { data: (socket, bytes) => socket.data.take(bytes), close: () => {} },
  });
  return made;
}

function requestBytes(at: number, body: Uint8Array, more: string): Buffer {
  const length = body.length + more.length;
  const head =
    `POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:${at}\r\ncontent-type: application/json\r\ncontent-length: ${length}\r\n\r\n`;
  if (more === "") return Buffer.concat([Buffer.from(head), body]);
  return Buffer.concat([Buffer.from(head), body.subarray(0, -1), Buffer.from(more), Buffer.from("}")]);
}

Bun.serve({
  hostname: "127.0.0.1",
  port,
  idleTimeout: 0,
  fetch: async (request) => {
    const body = new Uint8Array(await request.arrayBuffer());
    const room = ++rooms;
    const more = prefillPort === 0
      ? ""
      : `,"bootstrap_host":"127.0.0.1","bootstrap_port":8998,"bootstrap_room":${room}`;
    if (prefillPort !== 0) {
      void (await upstream(prefillPort)).send(requestBytes(prefillPort, body, more), true);
    }
    const { whole, stream } = await (await upstream(decodePort)).send(
      requestBytes(decodePort, body, more),
      false,
    );
    const headers = { "content-type": stream === undefined ? "application/json" : "text/event-stream" };
    return new Response(stream ?? whole, { headers });
  },
});
