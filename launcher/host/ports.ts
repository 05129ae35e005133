import { CanopyError } from "../../base/errors.ts";

/** Tries whether this host could listen on a port; a sentence that says why not, else undefined. */
export type PortProbe = (host: string, port: number) => Promise<string | undefined>;

/** A probe for hosts that cannot be looked at: everything is free. */
export const allPortsFree: PortProbe = () => Promise.resolve(undefined);

/** Most ports that are tried in a row before the search is given up. */
const MAX_TRIES = 2_000;

/** Hands out ports of one host, each once, leaving out those that are taken. */
export class Ports {
  readonly #host: string;
  readonly #probe: PortProbe;
  readonly #given = new Set<number>();
  readonly #skipped = new Set<number>();

  constructor(host: string, probe: PortProbe) {
    this.#host = host;
    this.#probe = probe;
  }

  /** Ports that were found taken while free ones were looked for. */
  get skipped(): readonly number[] {
    return [...this.#skipped];
  }

  /** Keeps a port from being handed out, such as the router's. */
  reserve(port: number): void {
    this.#given.add(port);
  }

  /** Takes a port that the configuration names. Throws 409 `port_taken`. */
  async claim(port: number, engine: string): Promise<number> {
    const why = this.#given.has(port)
      ? `port ${port} is given to another engine, or to the router`
      : await this.#probe(this.#host, port);
    if (why !== undefined) {
      throw new CanopyError(
        `Cannot plan engine ${engine} on port ${port}: ${why.replace(/\.$/, "")}; ` +
          `or let free ports be found with --base-port ${this.#suggestion(port)}`,
        { code: "port_taken", status: 409 },
      );
    }
    this.#given.add(port);
    return port;
  }

  /** The first of `count` free ports in a row, from `base` on. Throws 409 `port_taken` when there are none. */
  async next(base: number, count = 1): Promise<number> {
    let first = base;
    for (let port = base; port < Math.min(base + MAX_TRIES, 65_536); port++) {
      if (this.#given.has(port) || this.#skipped.has(port)) first = port + 1;
      else if (await this.#probe(this.#host, port) !== undefined) {
        this.#skipped.add(port);
        first = port + 1;
      }
      if (port - first + 1 < count) continue;
      for (let given = first; given <= port; given++) this.#given.add(given);
      return first;
    }
    throw new CanopyError(
      `Cannot plan: no ${count === 1 ? "free port" : `${count} free ports in a row`} from ${base} on: ` +
        `give another --base-port`,
      { code: "port_taken", status: 409 },
    );
  }

  #suggestion(port: number): number {
    return port + 1_000 <= 65_000 ? port + 1_000 : 30_000;
  }
}
