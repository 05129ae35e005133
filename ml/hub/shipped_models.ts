import { rmSync } from "node:fs";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { programCache, programFile, temporaryFolder } from "../program_files.ts";
import { isFolder } from "./cache.ts";
import { unpackTo } from "./model_pack.ts";

/** Families of models that come with the program; each is a folder of `models`. */
const FAMILIES = ["laboratory"];

let root: Promise<string> | undefined;

/** The folder of a model that comes with the program, such as `laboratory/l`; undefined for all others. */
export async function shippedFolder(id: string): Promise<string | undefined> {
  const [family = "", name, ...more] = id.split("/");
  if (!FAMILIES.includes(family) || name === undefined || !/^\w+$/.test(name) || more.length > 0) return;
  const folder = join(await shippedRoot(), family, name);
  return await isFolder(folder) ? folder : undefined;
}

/** Ids of the models that come with the program. */
export async function shippedModels(): Promise<string[]> {
  const folder = await shippedRoot();
  const ids = await Promise.all(FAMILIES.map(async (family) => {
    const entries = await readdir(join(folder, family), { withFileTypes: true }).catch(() => []);
    return entries.filter((entry) => entry.isDirectory()).map(({ name }) => `${family}/${name}`);
  }));
  return ids.flat().sort();
}

/** The folder `models` of the sources, or what was packed of it into the program, once it is unpacked. */
function shippedRoot(): Promise<string> {
  root ??= unpackedRoot();
  return root;
}

async function unpackedRoot(): Promise<string> {
  const file = programFile("models");
  if (file === undefined) return fileURLToPath(new URL("../../models/", import.meta.url));
  const pack = new Uint8Array(await file.arrayBuffer());
  const cached = programCache(file);
  try {
    unpackTo(cached, pack);
    return cached;
  } catch {
    const folder = temporaryFolder();
    process.on("exit", () => rmSync(folder, { recursive: true, force: true }));
    unpackTo(join(folder, "models"), pack);
    return join(folder, "models");
  }
}
