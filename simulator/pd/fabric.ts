/** The decode half of a request, as the prefill server sees it. */
export interface DecodeLeg {
  /** The room, and which sample of a request it is. */
  readonly key: string;
  /** Tokens of the prompt whose KV it has already. */
  readonly presentTokens: number;
  /** False when its server is gone. */
  readonly alive: boolean;
  /** The KV is there. */
  receive(handOff: KvHandOff): void;
  /** The KV will not come; says at the end of which sentence. */
  fail(reason: string): void;
  /** The prefill server is gone; the heartbeat will notice. */
  lose(): void;
}

/** Message that arrives with the KV of a prompt. */
export interface KvHandOff {
  /** The prompt whose KV it is; undefined: whatever the other half expects. */
  readonly prompt: readonly number[] | undefined;
  readonly firstToken: number;
  readonly cachedTokens: number;
}

/** A prefill server, as decode servers see it. */
export interface PrefillPort {
  /** A decode server has memory for a room. */
  admit(leg: DecodeLeg): void;
  /** A decode server has given a room up. */
  leave(leg: DecodeLeg): void;
}

/** A vLLM server that keeps KV for others. */
export interface KvSource {
  /** Port of its side channel. */
  readonly port: number;
  /** False when it is gone: what was not read by then never is. */
  readonly alive: boolean;
  /** The prompt whose KV is in a request's blocks; undefined once they hold something else. */
  promptOf(requestId: string): readonly number[] | undefined;
  /** The KV was read, or is not wanted any more. */
  notify(requestId: string): void;
}

/** Rooms that are remembered to notice a second use. */
const MAX_ROOMS = 1_000_000;

/** Stands for all names and addresses of a machine, where each registry has a port of its own. */
export const ANY_HOST = "*";

/**
 * Meeting place of the simulated prefill and decode servers of one process: the bootstrap registries by address, and
 * the books of the KV that went from one to another.
 */
export class PdFabric {
  /** `roomsReused`: rooms that a decode server was asked for more than once. */
  readonly stats = { handOffs: 0, transferredTokens: 0, failedTransfers: 0, roomsReused: 0 };
  readonly #registries = new Map<string, PrefillPort>();
  readonly #sources = new Map<string, KvSource>();
  readonly #rooms = new Set<string>();
  #kvServers = 0;

  /** Another number for each vLLM server that is started: its engine id is a new one with each process. */
  nextKvServer(): number {
    return this.#kvServers++;
  }

  /** Opens a registry; call what it returns to close it. Throws when the address is in use. */
  open(host: string, port: number, server: PrefillPort): () => void {
    const address = addressOf(host, port);
    if (this.#registries.has(address)) {
      throw new Error(`A bootstrap registry at ${address} exists already; choose another bootstrap port`);
    }
    this.#registries.set(address, server);
    return () => {
      if (this.#registries.get(address) === server) this.#registries.delete(address);
    };
  }

  /** The prefill server whose registry listens there. */
  find(host: string, port: number): PrefillPort | undefined {
    return this.#registries.get(addressOf(host, port)) ?? this.#registries.get(addressOf(ANY_HOST, port));
  }

  /** Makes a vLLM server's KV reachable; call what it returns to end that. */
  openKv(engineId: string, source: KvSource): () => void {
    this.#sources.set(engineId, source);
    return () => this.#sources.delete(engineId);
  }

  /** The vLLM server with that engine id. */
  findKv(engineId: string): KvSource | undefined {
    return this.#sources.get(engineId);
  }

  /** Books the use of a room with a registry. */
  useRoom(host: string, port: number, key: string): void {
    const room = `${addressOf(host, port)}/${key}`;
    if (this.#rooms.has(room)) this.stats.roomsReused++;
    else if (this.#rooms.size < MAX_ROOMS) this.#rooms.add(room);
  }
}

/** One spelling for all names of the own machine. */
function addressOf(host: string, port: number): string {
  const name = host.replace(/^\[|\]$/g, "").toLowerCase();
  const local = name === "localhost" || name === "::1" || name === "0.0.0.0" || name === "::";
  return `${local ? "127.0.0.1" : name}:${port}`;
}
