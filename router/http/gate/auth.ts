import type { Buffer } from "node:buffer";
import { createHash, timingSafeEqual } from "node:crypto";
import { CanopyError } from "../../../base/errors.ts";
import { isLoopback } from "../../../base/hosts.ts";
import { apiKeysOf, type LimitsConfig } from "../../../cfgs/schema/limits.ts";
import type { ClientCredentials } from "../../relay/relay_types.ts";

/**
 * The callers that a route lets in. `open`: anyone. `api`: holders of an API key or of the admin key, when there are API keys.
 * `owner`: holders of any key, when there is one; the route itself looks whose things they ask for (`mayTouch`).
 * `admin`: only the holder of the admin key; anyone where no key at all is configured.
 * `control`: as `admin`, but without any key only from this host.
 */
export type Access = "open" | "api" | "owner" | "admin" | "control";

/** The settings of a server that say which keys open it. */
export interface KeysConfig {
  readonly api_keys: readonly string[];
  readonly limits?: Pick<LimitsConfig, "keys"> | undefined;
  readonly admin_key?: string | undefined;
  readonly admin_keys?: readonly string[] | undefined;
  /** Address that it listens on. */
  readonly host?: string | undefined;
  /** Hosts of workers that may be added; where some are named, other hosts need no key for changes if there is none. */
  readonly worker_hosts?: readonly string[] | undefined;
}

/** The caller, as `Keys.callerOf` names it, where there are no API keys. */
export const EVERYBODY: string = keyHash("");

/** Checks bearer tokens. Without configured keys everything is allowed, an empty `Bearer` included. */
export class Keys {
  readonly #api: readonly Uint8Array[];
  readonly #admin: readonly Uint8Array[];
  readonly #local: boolean;

  constructor(config: KeysConfig) {
    const { host = "localhost", admin_key: admin, admin_keys: admins = [] } = config;
    this.#local = isLoopback(host) || (config.worker_hosts ?? []).length > 0;
    this.#api = apiKeysOf(config).map(hash);
    this.#admin = (admin === undefined ? admins : [admin, ...admins]).map(hash);
  }

  /** Throws `invalid_api_key` (401) or `admin_key_required` (403). `fromHere`: a program on this host asks. */
  check(access: Access, authorization: string | undefined, fromHere = false): void {
    if (access === "open") return;
    const adminOnly = access === "admin" || access === "control";
    if (access === "control" && this.#keyless && !this.#local && !fromHere) {
      throw adminKeyRequired(
        "From another host this route needs an admin key, and none is configured: set server.admin_key, or name the " +
          "hosts of workers that anybody may add in server.worker_hosts",
      );
    }
    if (this.#keyless || (access === "api" && this.#api.length === 0)) return;
    const given = hash(bearerToken(authorization));
    if (this.#isAdmin(given)) return;
    if (!this.#isKnown(given)) {
      throw new CanopyError("The API key is missing or wrong: send it as `Authorization: Bearer KEY`", {
        code: "invalid_api_key",
        status: 401,
        param: "authorization",
      });
    }
    if (!adminOnly) return;
    throw this.#admin.length === 0
      ? noAdminKey()
      : adminKeyRequired("This route needs the admin key: an API key is not enough");
  }

  /** The caller, by a name that only comparing makes sense of; undefined without an API key. */
  ownerOf(authorization: string | undefined): string | undefined {
    if (this.#api.length === 0) return undefined;
    const given = hash(bearerToken(authorization));
    return this.#isKnown(given) ? given.toString("hex") : undefined;
  }

  /** The caller whose limits count, by the hash of the key: undefined for the admin, `EVERYBODY` without API keys. */
  callerOf(authorization: string | undefined): string | undefined {
    if (this.#admin.length > 0 && this.mayTouchAll(authorization)) return undefined;
    return this.#api.length === 0 ? EVERYBODY : this.ownerOf(authorization);
  }

  /**
   * The credentials that a caller sends for the workers: where no API key guards this router, what is no admin key of
   * ours. Undefined where a key of ours is asked for: the workers then know the router alone.
   */
  forWorkers(authorization: string | undefined): ClientCredentials | undefined {
    if (this.#api.length > 0) return undefined;
    const ours = this.#admin.length > 0 && this.#isAdmin(hash(bearerToken(authorization)));
    return { authorization: ours ? undefined : authorization };
  }

  /** The beginning of the hash of a caller's key, for logs; undefined without a key. */
  nameOf(authorization: string | undefined): string | undefined {
    const token = bearerToken(authorization);
    return token === "" ? undefined : hash(token).toString("hex").slice(0, 8);
  }

  /** True when the caller may see and end what belongs to `owner`: the owner, the admin, anyone where no key is configured. */
  mayTouch(owner: string | undefined, authorization: string | undefined): boolean {
    return this.mayTouchAll(authorization) ||
      (owner !== undefined && owner === this.ownerOf(authorization));
  }

  /** True when the caller may see and end what belongs to anybody. */
  mayTouchAll(authorization: string | undefined): boolean {
    return this.#keyless || this.#isAdmin(hash(bearerToken(authorization)));
  }

  /** The refusal of what belongs to somebody else; `what` begins its sentence. */
  notYours(what: string): CanopyError {
    return adminKeyRequired(
      `${what} was started with another key: it takes that one or the admin key${
        this.#admin.length === 0 ? ", and none is configured: set server.admin_key" : ""
      }`,
    );
  }

  get #keyless(): boolean {
    return this.#admin.length === 0 && this.#api.length === 0;
  }

  #isAdmin(given: Uint8Array): boolean {
    return isOneOf(given, this.#admin);
  }

  #isKnown(given: Uint8Array): boolean {
    return isOneOf(given, this.#api);
  }
}

function isOneOf(given: Uint8Array, keys: readonly Uint8Array[]): boolean {
  // Every key is compared, so that the time does not tell which one was near.
  let known = false;
  for (const key of keys) if (timingSafeEqual(given, key)) known = true;
  return known;
}

function noAdminKey(): CanopyError {
  return adminKeyRequired("This route needs an admin key, and none is configured: set server.admin_key");
}

function adminKeyRequired(message: string): CanopyError {
  return new CanopyError(message, { code: "admin_key_required", status: 403, param: "authorization" });
}

/** The token of `Bearer TOKEN`; empty when there is none (HTTP libraries trim the blank of an empty one). */
export function bearerToken(authorization: string | undefined): string {
  return /^bearer(?:\s+(\S*))?\s*$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** The hash of a key, in hexadecimal digits. */
export function keyHash(key: string): string {
  return hash(key).toString("hex");
}

/** Hashes have one length, as a constant-time comparison needs. */
function hash(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
