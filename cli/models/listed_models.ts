import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { sizeText } from "../kit/units.ts";
import { cachedModels, snapshotFolder } from "../../ml/hub/cache.ts";
import { type Environment, hubCache } from "../../ml/hub/environment.ts";
import { shippedFolder, shippedModels } from "../../ml/hub/shipped_models.ts";

/** Rows of id, bytes on disk and place: the program's own models, then those in the Hub's cache with an ONNX file. */
export async function listedModels(env: Environment): Promise<string[][]> {
  const rows: string[][] = [];
  for (const id of await shippedModels()) {
    const folder = await shippedFolder(id);
    if (folder !== undefined) rows.push([id, sizeText(await bytesOf(folder)), "comes with Canopy"]);
  }
  const cache = hubCache(env);
  for (const id of await cachedModels(cache)) {
    const folder = await snapshotFolder(cache, id, "main");
    if (folder !== undefined && await hasOnnx(folder)) {
      rows.push([id, sizeText(await bytesOf(folder)), folder]);
    }
  }
  return rows;
}

async function filesOf(folder: string): Promise<string[]> {
  return (await readdir(folder, { recursive: true })).map((name) => join(folder, name));
}

async function hasOnnx(folder: string): Promise<boolean> {
  return (await filesOf(folder)).some((name) => name.endsWith(".onnx"));
}

async function bytesOf(folder: string): Promise<number> {
  const sizes = (await filesOf(folder)).map(async (path) => {
    const found = await stat(path).catch(() => undefined);
    return found?.isFile() ? found.size : 0;
  });
  return (await Promise.all(sizes)).reduce((sum, size) => sum + size, 0);
}
