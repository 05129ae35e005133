import { readFile, stat } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import type { IncomingResponse, Transport } from "../../base/transport.ts";

/** Default of `HF_ENDPOINT`, where model files are fetched from. */
const DEFAULT_ENDPOINT = "https://huggingface.co";
const MAX_FILE_BYTES = 256 * 1024 * 1024;
const MAX_REDIRECTS = 5;

/** The parsed files of a tokenizer. */
export interface TokenizerFiles {
  /** `tokenizer.json` */
  readonly tokenizer: JsonObject;
  /** `tokenizer_config.json`; empty if there is none. */
  readonly config: JsonObject;
  /** `chat_template.jinja`, which comes before the config's `chat_template`. */
  readonly chatTemplate: string | undefined;
}

/** Where a model's files are looked for. */
export interface ModelFilesOptions {
  readonly transport: Transport;
  readonly signal: AbortSignal;
  /** `HF_HOME`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE`, `HF_ENDPOINT`, `HF_TOKEN`; the process's environment by default. */
  readonly env?: Readonly<Record<string, string | undefined>>;
}

/** Reads one file of a model; undefined when the model has no such file. */
type ReadModelFile = (name: string) => Promise<string | undefined>;

/** The files of one model, in one place. */
export interface ModelFiles {
  readonly read: ReadModelFile;
  /** Bytes of a file, without reading it; undefined when there is none, or when the Hub does not say. */
  size(name: string): Promise<number | undefined>;
  /** The folder, or the address of the Hub. */
  readonly place: string;
}

/** The Hub refused a request for a model. */
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

/**
 * Finds a tokenizer's files: in a folder, in the Hub's cache on this machine, or on the Hub.
 * Throws 500 `tokenizer_unavailable`, saying where it looked.
 */
export async function loadTokenizerFiles(
  source: string,
  options: ModelFilesOptions,
): Promise<TokenizerFiles> {
  let files: ModelFiles;
  try {
    files = await openModelFiles(source, options, "tokenizer.json");
  } catch (cause) {
    throw unavailable(source, messageOf(cause), cause);
  }
  return await readAll(source, files.read, `${files.place} has no tokenizer.json for it`);
}

/**
 * Finds a model: in a folder, in the Hub's cache on this machine if `file` is there, else on the Hub, which is asked
 * only when a file is read. Throws an error that says where it looked; reading throws a `HubError`.
 */
export async function openModelFiles(
  source: string,
  options: ModelFilesOptions,
  file = "config.json",
): Promise<ModelFiles> {
  const env = options.env ?? process.env;
  if (await isFolder(source)) return { ...folderFiles(source), place: `the folder ${source}` };
  const match = /^([\w.-]+\/[\w.-]+)(?:@([\w./-]+))?$/.exec(source);
  if (match?.[1] === undefined) throw new Error("it is neither a folder nor a Hub id");
  const id = match[1];
  const revision = match[2] ?? "main";
  const cache = env.HF_HUB_CACHE ?? join(env.HF_HOME ?? join(homedir(), ".cache", "huggingface"), "hub");
  const snapshot = await snapshotOf(join(cache, `models--${id.replace("/", "--")}`), revision);
  if (snapshot !== undefined) {
    const files = folderFiles(snapshot);
    if (await files.size(file) !== undefined) return { ...files, place: `the cache ${cache}` };
  }
  if (isTrue(env.HF_HUB_OFFLINE)) {
    throw new Error(`it is not in the cache ${cache}, and HF_HUB_OFFLINE forbids to fetch it`);
  }
  const endpoint = (env.HF_ENDPOINT ?? DEFAULT_ENDPOINT).replace(/\/+$/, "");
  return { ...hubFiles(endpoint, id, revision, env.HF_TOKEN, options), place: endpoint };
}

async function readAll(source: string, read: ReadModelFile, missing: string): Promise<TokenizerFiles> {
  try {
    const tokenizer = await read("tokenizer.json");
    if (tokenizer === undefined) throw unavailable(source, missing);
    const config = await read("tokenizer_config.json");
    const chatTemplate = await read("chat_template.jinja") ?? await legacyTemplate(read);
    return {
      tokenizer: parse(source, "tokenizer.json", tokenizer),
      config: config === undefined ? {} : parse(source, "tokenizer_config.json", config),
      chatTemplate,
    };
  } catch (cause) {
    if (CanopyError.is(cause)) throw cause;
    throw unavailable(source, messageOf(cause), cause);
  }
}

/** Some multimodal models keep their template in `chat_template.json`. */
async function legacyTemplate(read: ReadModelFile): Promise<string | undefined> {
  const text = await read("chat_template.json");
  if (text === undefined) return undefined;
  const value: unknown = JSON.parse(text);
  return isJsonObject(value) && typeof value.chat_template === "string" ? value.chat_template : undefined;
}

function folderFiles(folder: string): Omit<ModelFiles, "place"> {
  return {
    read: folderReader(folder),
    size: async (name) => {
      try {
        return (await stat(join(folder, name))).size;
      } catch {
        return undefined;
      }
    },
  };
}

function folderReader(folder: string): ReadModelFile {
  return async (name) => {
    try {
      return await readFile(join(folder, name), "utf8");
    } catch (error) {
      if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
      throw error;
    }
  };
}

function hubFiles(
  endpoint: string,
  id: string,
  revision: string,
  token: string | undefined,
  options: ModelFilesOptions,
): Omit<ModelFiles, "place"> {
  const addressOf = (name: string) => `${endpoint}/${id}/resolve/${encodeURIComponent(revision)}/${name}`;
  // The token is for the Hub alone, not for the storage that it redirects to.
  const send = (method: "GET" | "HEAD", url: string, first: string) => {
    const own = token !== undefined && new URL(url).origin === new URL(first).origin;
    const headers: Record<string, string> = own ? { authorization: `Bearer ${token}` } : {};
    return options.transport.send({ method, url, headers }, options.signal);
  };
  /** False when the model has no such file. */
  const isThere = (response: IncomingResponse, first: string): boolean => {
    const hubCode = response.headers["x-error-code"];
    if (response.status === 404 && hubCode !== "RepoNotFound") return false;
    if (response.status < 400) return true;
    throw new HubError(endpoint, response.status, hubCode, token !== undefined, first);
  };
  return {
    read: async (name) => {
      const first = addressOf(name);
      let url = first;
      for (let hop = 0; hop <= MAX_REDIRECTS; hop++) {
        const response = await send("GET", url, first);
        const location = response.headers.location;
        if (response.status >= 300 && response.status < 400 && location !== undefined) {
          await response.body[Symbol.asyncIterator]().return?.();
          url = new URL(location, url).href;
          continue;
        }
        const text = await textOf(response, name);
        if (!isThere(response, first)) return undefined;
        if (response.status !== 200) throw new Error(`${first} answered ${response.status}`);
        return text;
      }
      throw new Error(`${first} redirects more than ${MAX_REDIRECTS} times`);
    },
    size: async (name) => {
      const first = addressOf(name);
      const response = await send("HEAD", first, first);
      await response.body[Symbol.asyncIterator]().return?.();
      // Large files are elsewhere; the Hub tells their size when it redirects there.
      const size = Number(response.headers["x-linked-size"] ?? response.headers["content-length"]);
      return isThere(response, first) && Number.isFinite(size) ? size : undefined;
    },
  };
}

async function textOf(response: IncomingResponse, name: string): Promise<string> {
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.length;
    if (bytes > MAX_FILE_BYTES) throw new Error(`${name} is larger than ${MAX_FILE_BYTES} bytes`);
    text += decoder.decode(chunk, { stream: true });
  }
  return text + decoder.decode();
}

/** The snapshot folder of a revision in the Hub's cache layout, if it is there. */
async function snapshotOf(folder: string, revision: string): Promise<string | undefined> {
  const commit = (await folderReader(join(folder, "refs"))(revision))?.trim() ?? revision;
  const snapshot = join(folder, "snapshots", commit);
  return await isFolder(snapshot) ? snapshot : undefined;
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}

function parse(source: string, name: string, text: string): JsonObject {
  const value: unknown = JSON.parse(text);
  if (!isJsonObject(value)) throw unavailable(source, `its ${name} is not a JSON object`);
  return value;
}

function isTrue(value: string | undefined): boolean {
  return value !== undefined && /^(1|true|yes|on)$/i.test(value);
}

function unavailable(source: string, why: string, cause?: unknown): CanopyError {
  return new CanopyError(
    `Cannot load the tokenizer of "${source}": ${why}; set \`tokenizer\` to a folder with its files, or to false`,
    { code: "tokenizer_unavailable", status: 500, ...(cause === undefined ? {} : { cause }) },
  );
}
