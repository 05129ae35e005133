import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";

/** A model on the Hub: `owner/name`, or `name` alone for the oldest ones. */
const HUB_ID = /^(?:[\w.-]+\/)?[\w.-]+$/;

/** True for what can be a model's id on the Hub. */
export function isHubId(text: string): boolean {
  return HUB_ID.test(text) && !text.split("/").some((part) => /^\.+$/.test(part));
}

/** Kind of a repository on the Hub. */
export type HubKind = "model" | "dataset";

/** Folder of a model or a data set in the Hub's cache, with `blobs`, `refs` and `snapshots`. */
export function hubFolder(cache: string, id: string, kind: HubKind = "model"): string {
  return join(cache, `${kind}s--${id.replace("/", "--")}`);
}

/** Ids of the models that have a folder in the cache. */
export async function cachedModels(cache: string): Promise<string[]> {
  const names = await readdir(cache).catch(() => []);
  return names.flatMap((name) => name.startsWith("models--") ? [name.slice(8).replace("--", "/")] : [])
    .sort();
}

/** The folder with the files of one revision (branch, tag or commit), if it is in the cache. */
export async function snapshotFolder(
  cache: string,
  id: string,
  revision: string,
  kind: HubKind = "model",
): Promise<string | undefined> {
  const folder = hubFolder(cache, id, kind);
  const commit = await readFile(join(folder, "refs", revision), "utf8").catch(() => revision);
  const snapshot = join(folder, "snapshots", commit.trim());
  return await isFolder(snapshot) ? snapshot : undefined;
}

/** True when the path is a folder, or a link to one. */
export async function isFolder(path: string): Promise<boolean> {
  return await stat(path).then((found) => found.isDirectory(), () => false);
}
