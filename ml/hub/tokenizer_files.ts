import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { CanopyError, messageOf } from "../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../base/json.ts";
import { readText } from "../../base/read_body.ts";
import type { Transport } from "../../base/transport.ts";
import { isFolder, isHubId, snapshotFolder } from "./cache.ts";
import { HubClient } from "./client.ts";
import { type Environment, hubCache, hubEndpoint, hubIsOffline } from "./environment.ts";

const MAX_FILE_BYTES = 256 * 1024 * 1024;

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
  readonly env?: Environment;
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
  const at = source.indexOf("@");
  const id = at < 0 ? source : source.slice(0, at);
  const revision = at < 0 ? "main" : source.slice(at + 1);
  if (!id.includes("/") || !isHubId(id) || !/^[\w./-]+$/.test(revision)) {
    throw new Error("it is neither a folder nor a Hub id");
  }
  const cache = hubCache(env);
  const snapshot = await snapshotFolder(cache, id, revision);
  if (snapshot !== undefined) {
    const files = folderFiles(snapshot);
    if (await files.size(file) !== undefined) return { ...files, place: `the cache ${cache}` };
  }
  if (hubIsOffline(env)) {
    throw new Error(`it is not in the cache ${cache}, and HF_HUB_OFFLINE forbids to fetch it`);
  }
  const { transport, signal } = options;
  const endpoint = hubEndpoint(env);
  const client = new HubClient({
    transport,
    signal,
    endpoint,
    id,
    revision,
    token: env["HF_TOKEN"] || undefined,
  });
  return { ...hubFiles(client), place: endpoint };
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

function hubFiles(client: HubClient): Omit<ModelFiles, "place"> {
  return {
    read: async (name) => {
      const url = client.addressOf(name);
      const response = await client.get(url);
      if (response === undefined) return undefined;
      const text = await readText(response.body, MAX_FILE_BYTES, name);
      if (response.status !== 200) throw new Error(`${url} answered ${response.status}`);
      return text;
    },
    size: async (name) => (await client.head(name))?.size,
  };
}

function parse(source: string, name: string, text: string): JsonObject {
  const value: unknown = JSON.parse(text);
  if (!isJsonObject(value)) throw unavailable(source, `its ${name} is not a JSON object`);
  return value;
}

function unavailable(source: string, why: string, cause?: unknown): CanopyError {
  return new CanopyError(
    `Cannot load the tokenizer of "${source}": ${why}; set \`tokenizer\` to a folder with its files, or to false`,
    { code: "tokenizer_unavailable", status: 500, ...(cause === undefined ? {} : { cause }) },
  );
}
