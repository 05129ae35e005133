import { lookup, resolveSrv } from "node:dns/promises";
import type { Clock } from "../../base/clock.ts";
import { messageOf } from "../../base/errors.ts";
import { logger } from "../../base/log.ts";
import type { Member } from "./membership.ts";

/** Asks the name service. Implementations throw errors with a `code` such as `ENOTFOUND`. */
export interface Resolver {
  /** Addresses of a host name. */
  addresses(name: string): Promise<readonly string[]>;
  /** Hosts and ports of a service name (SRV), such as `_http._tcp.engines.default.svc.cluster.local`. */
  services(name: string): Promise<readonly { readonly name: string; readonly port: number }[]>;
}

/** A name whose addresses all serve a model. */
export interface DnsName {
  readonly model: string;
  readonly name: string;
  /** Undefined for service names, which bring their ports. */
  readonly port: number | undefined;
  readonly role: "prefill" | "decode" | undefined;
  readonly bootstrapPort: number | undefined;
}

/** Options of `followDns`. */
export interface DnsDiscovery {
  readonly names: readonly DnsName[];
  readonly resolver: Resolver;
  readonly clock: Clock;
  readonly intervalMs: number;
  /** Called with all members after each round. */
  readonly onMembers: (members: readonly Member[]) => void;
}

/** The system's name service, /etc/hosts and search domains included. */
export const systemResolver: Resolver = {
  addresses: async (name) => (await lookup(name, { all: true })).map(({ address }) => address),
  services: async (name) => await resolveSrv(name),
};

/**
 * Asks for all names again and again until the signal aborts. A name that does not exist has no members; when the name
 * service itself fails, a name keeps those it had. Never rejects.
 */
export async function followDns(discovery: DnsDiscovery, signal: AbortSignal): Promise<void> {
  const { names, clock, intervalMs, onMembers } = discovery;
  const known = new Map<DnsName, readonly Member[]>();
  const complained = new Set<DnsName>();
  while (!signal.aborted) {
    await Promise.all(names.map(async (name) => {
      try {
        known.set(name, await membersOf(name, discovery.resolver));
        complained.delete(name);
      } catch (error) {
        if (isAbsent(error)) known.set(name, []);
        if (!complained.has(name)) {
          logger("discovery").warning("{name} cannot be resolved: {error}", {
            name: name.name,
            error: messageOf(error),
          });
        }
        complained.add(name);
      }
    }));
    if (signal.aborted) return;
    onMembers(names.flatMap((name) => known.get(name) ?? []));
    await clock.sleep(intervalMs, signal).catch(() => {});
  }
}

async function membersOf(name: DnsName, resolver: Resolver): Promise<Member[]> {
  const found = name.port === undefined
    ? (await resolver.services(name.name)).map((one) => `${one.name}:${one.port}`)
    : (await resolver.addresses(name.name)).map((address) =>
      `${address.includes(":") ? `[${address}]` : address}:${name.port}`
    );
  return [...new Set(found)].sort().map((host): Member => ({
    model: name.model,
    worker: {
      url: `http://${host}`,
      role: name.role,
      bootstrapPort: name.bootstrapPort,
    },
    leaving: false,
  }));
}

function isAbsent(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  return code === "ENOTFOUND" || code === "ENODATA";
}
