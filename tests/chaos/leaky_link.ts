import { once } from "node:events";
import net from "node:net";
import { SystemClock } from "../../base/clock.ts";

const clock = new SystemClock();

/** A connection through a link: the router's end, and the worker's. */
interface Ends {
  readonly near: net.Socket;
  readonly far: net.Socket;
  dead: boolean;
  /** What the worker has sent arrives in order, however late. */
  arriving: Promise<void>;
}

/** A TCP relay before a worker that can refuse, reset, swallow and delay. */
export class LeakyLink {
  readonly #target: number;
  readonly #onBytes: (bytes: string) => void;
  readonly #open = new Set<Ends>();
  #server: net.Server | undefined;
  #port = 0;
  #cut = false;
  /** Time by which everything comes late. */
  delayMs = 0;

  /** `onBytes`: sees what the router sends, chunk by chunk. */
  constructor(target: number, onBytes: (bytes: string) => void) {
    this.#target = target;
    this.#onBytes = onBytes;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Takes connections, at the same port as before. */
  async listen(): Promise<void> {
    if (this.#server !== undefined) return;
    const server = net.createServer((near) => this.#join(near));
    this.#server = server;
    server.listen(this.#port, "127.0.0.1");
    await once(server, "listening");
    const address = server.address();
    if (address !== null && typeof address === "object") this.#port = address.port;
  }

  /** Refuses connections, and resets those that are open, as the end of a process does. */
  async refuse(): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    const closed = new Promise<void>((resolve) =>
      server === undefined ? resolve() : server.close(() => resolve())
    );
    this.reset();
    for (const { near } of this.#open) near.destroy();
    await closed;
  }

  reset(): void {
    for (const ends of [...this.#open]) {
      if (ends.dead) continue;
      ends.near.resetAndDestroy();
      ends.far.destroy();
    }
  }

  /** Nothing arrives any more, neither bytes nor an end: of what is open, for good. */
  cut(): void {
    this.#cut = true;
    for (const ends of this.#open) this.#kill(ends);
  }

  mend(): void {
    this.#cut = false;
  }

  #join(near: net.Socket): void {
    const far = net.connect({ host: "127.0.0.1", port: this.#target });
    const ends: Ends = { near, far, dead: false, arriving: Promise.resolve() };
    this.#open.add(ends);
    near.on("data", (bytes) => {
      this.#onBytes(bytes.toString("latin1"));
      if (!ends.dead) far.write(bytes);
    });
    far.on("data", (bytes) => this.#pass(ends, () => near.write(bytes)));
    far.on("end", () => this.#pass(ends, () => near.end()));
    near.on("end", () => {
      if (!ends.dead) far.end();
    });
    for (const socket of [near, far]) socket.on("error", () => {});
    near.on("close", () => {
      this.#open.delete(ends);
      // What the network has forgotten the worker learns when the network is there again: here, at once.
      far.destroy();
    });
    far.on("close", () => this.#pass(ends, () => near.destroy()));
    if (this.#cut) this.#kill(ends);
  }

  #kill(ends: Ends): void {
    ends.dead = true;
  }

  #pass(ends: Ends, act: () => void): void {
    const dueMs = clock.now() + this.delayMs;
    ends.arriving = ends.arriving.then(async () => {
      if (dueMs > clock.now()) await clock.sleep(dueMs - clock.now());
      if (!ends.dead && !ends.near.destroyed) act();
    });
  }
}
