import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { systemCodeOf } from "../../base/errors.ts";
import { readText } from "../../base/read_body.ts";
import type { Transport } from "../../base/transport.ts";
import { isFolder, isHubId, snapshotFolder } from "./cache.ts";
import { HubClient } from "./client.ts";
import { type Environment, hubCache, hubEndpoint, hubIsOffline } from "./environment.ts";
import { shippedFolder } from "./shipped_models.ts";

const MAX_FILE_BYTES = 256 * 1024 * 1024;

/** The way to a model's files. */
export interface ModelFilesOptions {
  readonly transport: Transport;
  readonly signal: AbortSignal;
  /** `HF_HOME`, `HF_HUB_CACHE`, `HF_HUB_OFFLINE`, `HF_ENDPOINT`, `HF_TOKEN`; the process's environment by default. */
  readonly env?: Environment | undefined;
}

/** The files of one model, in one place. */
export interface ModelFiles {
  /** The text of a file; undefined when the model has no such file. */
  read(name: string): Promise<string | undefined>;
  /** Bytes of a file, without reading it; undefined when there is none, or when the Hub does not say. */
  size(name: string): Promise<number | undefined>;
  /** The folder, or the address of the Hub, as part of a sentence. */
  readonly place: string;
  /** True for files on this host. */
  readonly local: boolean;
}

/**
 * Finds a model: in a folder, in the program, in the Hub's cache on this machine if `file` is there, else on the Hub, which is asked
 * only when a file is read. Throws an error that says where it looked; reading throws a `HubError`.
 */
export async function openModelFiles(
  source: string,
  options: ModelFilesOptions,
  file = "config.json",
): Promise<ModelFiles> {
  const { transport, signal, env = process.env } = options;
  if (await isFolder(source)) return folderFiles(source, `the folder ${source}`);
  const shipped = await shippedFolder(source);
  if (shipped !== undefined) return folderFiles(shipped, "the program");
  const [id, revision] = idAndRevision(source);
  const cache = hubCache(env);
  const snapshot = await snapshotFolder(cache, id, revision);
  if (snapshot !== undefined) {
    const cached = folderFiles(snapshot, `the cache ${cache}`);
    if (await cached.size(file) !== undefined) return cached;
  }
  if (hubIsOffline(env)) {
    throw new Error(`it is not in the cache ${cache}, and HF_HUB_OFFLINE forbids to fetch it`);
  }
  const endpoint = hubEndpoint(env);
  const token = env["HF_TOKEN"] || undefined;
  return hubFiles(new HubClient({ transport, signal, endpoint, id, revision, token }), endpoint);
}

/** The parts of `id@revision`; the revision is `main` by default. */
function idAndRevision(source: string): [id: string, revision: string] {
  const at = source.indexOf("@");
  const id = at < 0 ? source : source.slice(0, at);
  const revision = at < 0 ? "main" : source.slice(at + 1);
  if (!id.includes("/") || !isHubId(id) || !/^[\w./-]+$/.test(revision)) {
    throw new Error("it is neither a folder nor a Hub id");
  }
  return [id, revision];
}

function folderFiles(folder: string, place: string): ModelFiles {
  return {
    place,
    local: true,
    read: async (name) => {
      try {
        return await readFile(join(folder, name), "utf8");
      } catch (error) {
        if (systemCodeOf(error) === "ENOENT") return undefined;
        throw error;
      }
    },
    size: async (name) => await stat(join(folder, name)).then(({ size }) => size, () => undefined),
  };
}

function hubFiles(client: HubClient, place: string): ModelFiles {
  return {
    place,
    local: false,
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
