import { CanopyError } from "../../../base/errors.ts";
import { apiKeysOf } from "../../../cfgs/schema/limits.ts";
import type { KeysConfig } from "./auth.ts";
import { hostnameOf, isListedHost, isLoopback } from "../../../base/hosts.ts";

/** The headers of a request by lower-case names. */
type HeaderValues = Readonly<Record<string, string | undefined>>;

/** The settings of a server that say which pages may ask. */
export interface SitesConfig extends Pick<KeysConfig, "api_keys" | "limits"> {
  readonly host: string;
  readonly cors_origins: readonly string[];
  readonly allowed_hosts: readonly string[];
}

/**
 * Keeps foreign web pages out: a browser on this host or in its network asks whatever a page tells it to. Only
 * browsers send `Origin` and `Sec-Fetch-Site`; a page whose own name was bound to our address (DNS rebinding) is
 * known by its `Host`.
 */
export class Sites {
  readonly #config: SitesConfig;
  readonly #local: boolean;
  readonly #hasKeys: boolean;
  /** The last host that was let in: nearly all requests name the same. */
  #lastHost = "";

  constructor(config: SitesConfig) {
    this.#config = config;
    this.#local = isLoopback(config.host);
    this.#hasKeys = apiKeysOf(config).length > 0;
  }

  /** Throws `foreign_host` or `foreign_origin` (403), naming the header and the setting. */
  check(headers: HeaderValues, url: string): void {
    const host = headers["host"] ?? new URL(url).host;
    this.#checkHost(host);
    this.#checkOrigin(headers, host);
  }

  #checkHost(host: string): void {
    const { allowed_hosts: allowed } = this.#config;
    if (host === this.#lastHost || !this.#local && allowed.length === 0) return;
    const name = hostnameOf(host);
    if (name !== undefined && (isLoopback(name) || isListedHost(name, allowed))) {
      this.#lastHost = host;
      return;
    }
    throw refusal(
      "host",
      `The Host ${
        shown(host)
      } is no name of this server: ask for localhost, or list the name in server.allowed_hosts`,
    );
  }

  #checkOrigin(headers: HeaderValues, host: string): void {
    const { cors_origins: origins } = this.#config;
    // A key that a page knows was given to it; what counts for nothing is to come from a browser near us.
    if (!this.#local && this.#hasKeys) return;
    if (origins.includes("*")) return;
    const origin = headers["origin"];
    if (origin === undefined) {
      const site = headers["sec-fetch-site"];
      if (site !== "cross-site" && site !== "same-site") return;
      throw refusal(
        "sec-fetch-site",
        `A page of another site may not ask this server (Sec-Fetch-Site: ${site}): list its origin in ` +
          "server.cors_origins, and let it ask with CORS",
      );
    }
    if (origins.includes(origin) || isOwn(origin, host)) return;
    throw refusal(
      "origin",
      `Pages of the Origin ${shown(origin)} may not ask this server: list it in server.cors_origins`,
    );
  }
}

/** True for the origin of the server's own pages; a proxy in front may speak TLS. */
function isOwn(origin: string, host: string): boolean {
  const page = URL.parse(origin);
  if (page === null || !/^https?:$/.test(page.protocol)) return false;
  const name = hostnameOf(host);
  return name !== undefined && page.host === URL.parse(`${page.protocol}//${host}`)?.host;
}

function refusal(header: string, message: string): CanopyError {
  return new CanopyError(message, {
    code: header === "host" ? "foreign_host" : "foreign_origin",
    status: 403,
    param: header,
  });
}

function shown(text: string): string {
  return JSON.stringify(text.slice(0, 100));
}
