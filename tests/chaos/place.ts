import type { Clock } from "../../base/clock.ts";
import { type IncomingResponse, type OutgoingRequest, TransportError } from "../../base/transport.ts";
import type { ProcessChange, SimulatedWorker } from "../simulation/world.ts";

const DEFAULT_CONNECT_MS = 10_000;

/** A simulated worker behind a network and a process that can be broken. */
export class Place {
  readonly worker: SimulatedWorker;
  readonly clock: Clock;
  readonly #links = new Set<Link>();
  /** Connections that the router has closed and whose end has not arrived. */
  readonly #unheard = new Set<Link>();
  #paused: PromiseWithResolvers<void> | undefined;
  #cut = false;
  /** Time by which everything comes late. */
  delayMs = 0;

  constructor(worker: SimulatedWorker, clock: Clock) {
    this.worker = worker;
    this.clock = clock;
  }

  /** Resolves when the process runs; undefined while it does. */
  get paused(): Promise<void> | undefined {
    return this.#paused?.promise;
  }

  async handle(request: OutgoingRequest, signal: AbortSignal): Promise<IncomingResponse> {
    if (this.#cut) {
      await this.clock.sleep(request.connectTimeoutMs ?? DEFAULT_CONNECT_MS, signal);
      throw new TransportError("connect_failed", request.url);
    }
    const link = new Link(this, request.url);
    this.#links.add(link);
    signal.addEventListener("abort", () => this.#close(link), { once: true });
    try {
      // A process that stands still reads nothing.
      await link.pass(Promise.resolve());
      const response = await link.pass(this.worker.simulator.handle(request, link.server.signal));
      link.stage = "reset_in_body";
      return { ...response, body: this.#passed(link, response.body) };
    } catch (error) {
      this.#links.delete(link);
      throw error;
    }
  }

  /** The process ends. */
  kill(): void {
    this.worker.simulator.crash();
    this.reset();
    this.resume();
  }

  restart(change?: ProcessChange): void {
    this.worker.restart(change);
  }

  pause(): void {
    this.#paused ??= Promise.withResolvers<void>();
  }

  resume(): void {
    this.#paused?.resolve();
    this.#paused = undefined;
    this.#hear();
  }

  /** All connections are reset; those that the network has forgotten hear nothing of it. */
  reset(): void {
    for (const link of [...this.#links]) {
      link.break();
      this.#links.delete(link);
    }
  }

  /** The network is gone, and what was under way is never heard of again. */
  cut(): void {
    this.#cut = true;
    for (const link of this.#links) link.dead = true;
  }

  mend(): void {
    this.#cut = false;
    this.#hear();
  }

  #close(link: Link): void {
    this.#links.delete(link);
    this.#unheard.add(link);
    this.#hear();
  }

  #hear(): void {
    if (this.#cut || this.#paused !== undefined) return;
    for (const link of this.#unheard) link.server.abort(new Error("The client has closed the connection"));
    this.#unheard.clear();
  }

  async *#passed(link: Link, body: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    const source = body[Symbol.asyncIterator]();
    try {
      while (true) {
        const read = await link.pass(source.next());
        if (read.done === true) return;
        yield read.value;
      }
    } finally {
      this.#close(link);
    }
  }
}

/** One connection. */
class Link {
  /** The server's side: aborts when it hears that the client has gone. */
  readonly server = new AbortController();
  stage: "reset_before_head" | "reset_in_body" = "reset_before_head";
  /** Nothing comes through any more. */
  dead = false;
  readonly #place: Place;
  readonly #url: string;
  readonly #broken = Promise.withResolvers<never>();

  constructor(place: Place, url: string) {
    this.#place = place;
    this.#url = url;
    this.#broken.promise.catch(() => {});
  }

  break(): void {
    if (this.dead) return;
    this.#broken.reject(new TransportError(this.stage, this.#url));
    this.server.abort(new Error("The connection was reset"));
  }

  /** What the server says, when it arrives. */
  async pass<T>(said: Promise<T>): Promise<T> {
    said.catch(() => {});
    const outcome = await this.#unlessBroken(said.then((value) => () => value, (error) => () => {
      throw error;
    }));
    if (this.#place.delayMs > 0) await this.#unlessBroken(this.#place.clock.sleep(this.#place.delayMs));
    while (this.#place.paused !== undefined) await this.#unlessBroken(this.#place.paused);
    if (this.dead) await new Promise<never>(() => {});
    return outcome();
  }

  #unlessBroken<T>(said: Promise<T>): Promise<T> {
    return Promise.race([said, this.#broken.promise]);
  }
}
