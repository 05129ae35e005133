import type { IncomingResponse, Transport } from "../../base/transport.ts";
import type { HubKind } from "./cache.ts";

const MAX_REDIRECTS = 5;

/** Refusal of a request for a model or a data set by the Hub. */
export class HubError extends Error {
  override readonly name = "HubError";

  constructor(
    readonly endpoint: string,
    readonly status: number,
    /** The Hub's own word, such as GatedRepo, RepoNotFound. */
    readonly hubCode: string | undefined,
    readonly hasToken: boolean,
    url: string,
  ) {
    super(`${url} answered ${status}`);
  }
}

/** A model or a data set on the Hub, and the way to it. */
export interface HubOptions {
  readonly transport: Transport;
  /** Such as https://huggingface.co. */
  readonly endpoint: string;
  readonly id: string;
  /** `model` by default. */
  readonly kind?: HubKind | undefined;
  /** Branch, tag or commit. */
  readonly revision: string;
  readonly token: string | undefined;
  readonly signal: AbortSignal;
}

/** Facts about a file, from its HTTP headers. */
export interface HubFile {
  /** The commit that the revision is at; undefined where a mirror does not say. */
  readonly commit: string | undefined;
  /** SHA-256 of large files, git's SHA-1 of the others; names the file in the cache. */
  readonly etag: string | undefined;
  /** Bytes. */
  readonly size: number | undefined;
}

/** The files of one model or data set on the Hub. Nothing is retried; all methods throw `HubError` and `TransportError`. */
export class HubClient {
  readonly #options: HubOptions;

  constructor(options: HubOptions) {
    this.#options = options;
  }

  addressOf(name: string): string {
    const { endpoint, id, revision, kind } = this.#options;
    const path = name.split("/").map(encodeURIComponent).join("/");
    return `${endpoint}/${pageOf(id, kind)}/resolve/${encodeURIComponent(revision)}/${path}`;
  }

  /** Address of the list of the files. */
  get infoAddress(): string {
    const { endpoint, id, revision, kind = "model" } = this.#options;
    return `${endpoint}/api/${kind}s/${id}/revision/${encodeURIComponent(revision)}`;
  }

  /** The answer to a request, redirects followed; undefined when the model has no such file. */
  async get(
    url: string,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<IncomingResponse | undefined> {
    let at = url;
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const response = await this.#send("GET", at, url, headers);
      const next = await redirectOf(response, at);
      if (next === undefined) return await this.#isThere(response, url) ? response : undefined;
      at = next;
    }
    throw new Error(`${url} redirects more than ${MAX_REDIRECTS} times`);
  }

  /** Facts about a file; undefined when the model has no such file. */
  async head(name: string): Promise<HubFile | undefined> {
    const url = this.addressOf(name);
    let at = url;
    for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
      const response = await this.#send("HEAD", at, url, {});
      const { headers } = response;
      const next = await redirectOf(response, at);
      // Large files lie in a storage elsewhere; the Hub describes them in its redirect, the storage does not.
      if (next !== undefined && headers["x-linked-etag"] === undefined && sameOrigin(next, url)) {
        at = next;
        continue;
      }
      if (!await this.#isThere(response, url)) return undefined;
      const size = Number(
        headers["x-linked-size"] ?? (next === undefined ? headers["content-length"] : undefined),
      );
      return {
        commit: headers["x-repo-commit"],
        etag: (headers["x-linked-etag"] ?? headers["etag"])?.replace(/^W\//, "").replaceAll('"', ""),
        size: Number.isSafeInteger(size) ? size : undefined,
      };
    }
    throw new Error(`${url} redirects more than ${MAX_REDIRECTS} times`);
  }

  #send(
    method: "GET" | "HEAD",
    url: string,
    first: string,
    headers: Readonly<Record<string, string>>,
  ): Promise<IncomingResponse> {
    const { transport, token, signal } = this.#options;
    const all: Record<string, string> = {
      // A packed answer has another length than the file.
      "accept-encoding": "identity",
      ...headers,
    };
    // The token is for the Hub alone, not for the storage that it redirects to.
    if (token !== undefined && sameOrigin(url, first)) all["authorization"] = `Bearer ${token}`;
    return transport.send({ method, url, headers: all }, signal);
  }

  async #isThere(response: IncomingResponse, url: string): Promise<boolean> {
    if (response.status < 400) return true;
    await discard(response);
    const hubCode = response.headers["x-error-code"];
    const other = hubCode === "RepoNotFound" || hubCode === "RevisionNotFound";
    if (response.status === 404 && !other) return false;
    const { endpoint, token } = this.#options;
    throw new HubError(endpoint, response.status, hubCode, token !== undefined, url);
  }
}

/** Path of the page of a model or a data set on the Hub. */
export function pageOf(id: string, kind: HubKind = "model"): string {
  return kind === "model" ? id : `datasets/${id}`;
}

/** Closes the connection of a response whose body is not wanted. */
export async function discard(response: IncomingResponse): Promise<void> {
  await response.body[Symbol.asyncIterator]().return?.();
}

async function redirectOf(response: IncomingResponse, url: string): Promise<string | undefined> {
  const { location } = response.headers;
  if (response.status < 300 || response.status >= 400 || location === undefined) return undefined;
  await discard(response);
  return new URL(location, url).href;
}

function sameOrigin(a: string, b: string): boolean {
  return new URL(a).origin === new URL(b).origin;
}
