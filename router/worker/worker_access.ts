import process from "node:process";
import type { ModelConfig } from "../../cfgs/schema/config.ts";
import { targetOf } from "../transport/target.ts";

/** One of a server's data-parallel ranks, each of which has a cache of its own. */
export interface WorkerRank {
  /** From 0. */
  readonly index: number;
  /** Ranks of the server. */
  readonly of: number;
}

/** A worker's address as SGLang's routers write it: `http://host:30000@1` for a rank. */
export function shownUrl({ url, rank }: Pick<WorkerAccess, "url" | "rank">): string {
  return rank === undefined ? url : `${url}@${rank.index}`;
}

/** Address of one worker, and its key. */
export interface WorkerAccess {
  /** Without a name and password, as logs, errors and lists show it. */
  readonly url: string;
  /** The `authorization` header for the name and password that its URL was written with; a key goes before it. */
  readonly authorization?: string | undefined;
  /** Sent as bearer token to this worker; overrides the model's. */
  readonly apiKey?: string | undefined;
  /** Its half of the work; absent for a server that does both. */
  readonly role?: "prefill" | "decode" | undefined;
  /** A prefill server's bootstrap registry as decode servers reach it; by default the host of `url`. */
  readonly bootstrapHost?: string | undefined;
  /** The registry's port; absent: the decode server's own default. */
  readonly bootstrapPort?: number | undefined;
  /** One of the server's data-parallel ranks, which is a place of its own; absent: the server itself chooses. */
  readonly rank?: WorkerRank | undefined;
  /** True for a worker that somebody added over HTTP: it gets `apiKey`, and nothing of the model's configuration. */
  readonly stranger?: boolean | undefined;
}

/** The address that a URL names: what may be shown of it, and apart from that the name and password in it. */
export function workerAddress(written: string): Pick<WorkerAccess, "url" | "authorization"> {
  const url = plainUrl(written);
  return url.length + 1 >= written.length ? { url } : { url, authorization: targetOf(written).authorization };
}

/** A server's URL without a name, a password and a last slash. */
export function plainUrl(written: string): string {
  return written.replace(/^(https?:\/\/)[^/?#]*@/i, "$1").replace(/\/+$/, "");
}

/**
 * The headers that every request to a worker carries: the model's own ones and the worker's bearer token
 * (the worker's `api_key`, else the name and password in its URL, else the model's `api_key`, else the value of
 * `api_key_env`). Lower-case names.
 */
export function workerHeaders(config: ModelConfig, access: WorkerAccess): Record<string, string> {
  const headers: Record<string, string> = {};
  if (access.stranger !== true) {
    for (const [name, value] of Object.entries(config.headers)) headers[name.toLowerCase()] = value;
  }
  const authorization = authorizationFor(config, access);
  if (authorization !== undefined) headers["authorization"] = authorization;
  return headers;
}

function authorizationFor(
  { api_key, api_key_env }: ModelConfig,
  { apiKey, authorization, stranger }: WorkerAccess,
): string | undefined {
  if (apiKey !== undefined) return bearer(apiKey);
  if (authorization !== undefined || stranger === true) return authorization;
  return bearer(api_key ?? (api_key_env === undefined ? undefined : process.env[api_key_env]));
}

function bearer(key: string | undefined): string | undefined {
  return key === undefined || key === "" ? undefined : `Bearer ${key}`;
}

/** The plain URLs of a model's configured servers. */
export function configuredUrls({ workers }: Pick<ModelConfig, "workers">): string[] {
  return workers.flatMap((worker) => {
    if (typeof worker === "string") return [worker];
    return "url" in worker ? [worker.url] : [worker.prefill, worker.decode];
  }).map(plainUrl);
}

/** URLs made lately, by base and path: each is one text for all requests, which whoever looks it up has hashed before. */
const URLS = new Map<string, Map<string, string>>();
const MAX_BASES = 256;
const MAX_PATHS = 64;

/** The URL of `path` on a worker; a base URL that ends in `/v1`, as OpenAI clients have it, is understood. */
export function workerUrl(base: string, path: string): string {
  let urls = URLS.get(base);
  if (urls === undefined) {
    if (URLS.size >= MAX_BASES) URLS.clear();
    URLS.set(base, urls = new Map());
  }
  let url = urls.get(path);
  if (url === undefined) {
    if (urls.size >= MAX_PATHS) urls.clear();
    urls.set(path, url = madeUrl(base, path));
  }
  return url;
}

function madeUrl(base: string, path: string): string {
  const trimmed = base.endsWith("/") ? base.replace(/\/+$/, "") : base;
  return trimmed.endsWith("/v1") && (path === "/v1" || path.startsWith("/v1/"))
    ? trimmed + path.slice(3)
    : trimmed + path;
}
