import { createHash, timingSafeEqual } from "node:crypto";
import { CanopyError } from "../../../base/errors.ts";
import { isLoopback } from "../../../base/hosts.ts";

/**
 * The callers that a route lets in. `open`: anyone. `api`: holders of an API key or of the admin key, when keys are configured.
 * `admin`: with an admin key configured only its holder, else as `api` (runs hold other users' prompts).
 * `control`: only the holder of the admin key; anyone where no key at all is configured and only this host can ask.
 */
export type Access = "open" | "api" | "admin" | "control";

/** Checks bearer tokens. Without configured keys everything is allowed, an empty `Bearer` included. */
export class Keys {
  readonly #api: readonly Uint8Array[];
  readonly #admin: Uint8Array | undefined;
  readonly #local: boolean;

  constructor(
    config: { api_keys: readonly string[]; admin_key?: string | undefined; host?: string | undefined },
  ) {
    this.#local = isLoopback(config.host ?? "localhost");
    this.#api = config.api_keys.map(hash);
    this.#admin = config.admin_key === undefined ? undefined : hash(config.admin_key);
  }

  /** Throws `invalid_api_key` (401) or `admin_key_required` (403). */
  check(access: Access, authorization: string | undefined): void {
    if (access === "open") return;
    if (access === "control" && this.#admin === undefined && !(this.#local && this.#api.length === 0)) {
      throw new CanopyError("This route needs an admin key, and none is configured: set server.admin_key", {
        code: "admin_key_required",
        status: 403,
        param: "authorization",
      });
    }
    const adminOnly = (access === "admin" || access === "control") && this.#admin !== undefined;
    if (!adminOnly && this.#api.length === 0) return;
    const given = hash(bearerToken(authorization));
    if (this.#admin !== undefined && timingSafeEqual(given, this.#admin)) return;
    // Every key is compared, so that the time does not tell which one was near.
    let known = false;
    for (const key of this.#api) if (timingSafeEqual(given, key)) known = true;
    if (!known) {
      throw new CanopyError("The API key is missing or wrong: send it as `Authorization: Bearer KEY`", {
        code: "invalid_api_key",
        status: 401,
        param: "authorization",
      });
    }
    if (adminOnly) {
      throw new CanopyError("This route needs the admin key: an API key is not enough", {
        code: "admin_key_required",
        status: 403,
        param: "authorization",
      });
    }
  }
}

/** The token of `Bearer TOKEN`; empty when there is none (HTTP libraries trim the blank of an empty one). */
export function bearerToken(authorization: string | undefined): string {
  return /^bearer(?:\s+(\S*))?\s*$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** Hashes have one length, as a constant-time comparison needs. */
function hash(text: string): Uint8Array {
  return createHash("sha256").update(text).digest();
}
