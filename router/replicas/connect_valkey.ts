import type { StoreConnection } from "./valkey_store.ts";

/** Address and credentials of a Valkey or Redis server. */
export interface ValkeyAddress {
  /** `redis://`, `rediss://` (TLS), or the same with `valkey`; host, port and number of the database. */
  readonly url: string;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

/** Longest pause between two tries to connect, in ms. */
const MAX_PAUSE_MS = 2_000;
const CONNECT_MS = 2_000;

/** Connects, and connects anew whenever the connection breaks; until then commands fail at once. */
export function connectValkey(address: ValkeyAddress): StoreConnection {
  let problem: unknown;
  const connecting = connected(address, (error) => problem = error);
  let closed = false;
  return {
    send: async (command) => {
      const client = await connecting;
      // Why it is not there says more than that it is not: a wrong password, a name that nobody knows.
      if (!client.isReady && problem !== undefined) throw problem;
      return await client.sendCommand([...command]);
    },
    close: () => {
      if (closed) return;
      closed = true;
      connecting.then((client) => client.destroy(), () => {});
    },
  };
}

async function connected(
  { url, username, password }: ValkeyAddress,
  onProblem: (error: unknown) => void,
) {
  // Loaded by those alone who use it.
  const { createClient } = await import("@redis/client");
  const client = createClient({
    url: url.replace(/^valkey/, "redis"),
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    disableOfflineQueue: true,
    socket: {
      connectTimeout: CONNECT_MS,
      reconnectStrategy: (tries) => Math.min(MAX_PAUSE_MS, 50 * 2 ** Math.min(tries, 10)),
    },
  });
  client.on("error", onProblem);
  client.connect().catch(() => {});
  return client;
}
