import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { zstdDecompressSync } from "node:zlib";
import { programCache, type ProgramFile, programFile, temporaryFolder } from "../program_files.ts";
import { foreignFunctions } from "./foreign_functions.ts";

/** The name by which the binding looks for the library, and under which a loaded one is found again. */
const LIBRARY_NAME = "libonnxruntime.so.1";

/**
 * Opens ONNX Runtime's library when it is compiled into the program (`bun build --compile`). Bun unpacks the binding
 * by itself, but not the library that it needs; the system finds a library that is already open by its name. To be
 * called on the thread that imports the binding, before that. Does nothing elsewhere.
 */
export async function openEmbeddedLibrary(): Promise<void> {
  const file = programFile("libonnxruntime");
  if (file === undefined) return;
  const { dlopen } = await foreignFunctions();
  const open = (path: string) => dlopen(path, { OrtGetApiBase: { args: [], returns: "ptr" } });
  const cached = await writeToCache(file).catch(() => undefined);
  if (cached !== undefined) return void open(cached);
  // Without a home to write to: a temporary folder, deleted as soon as the library is mapped.
  const folder = temporaryFolder();
  try {
    const path = join(folder, LIBRARY_NAME);
    writeFileSync(path, await unpacked(file));
    open(path);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** The path of the library in the user's cache. */
async function writeToCache(file: ProgramFile): Promise<string> {
  const folder = programCache(file);
  const path = join(folder, LIBRARY_NAME);
  if (existsSync(path)) return path;
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  // Another process may do the same: whole files appear, never parts of them.
  const partial = `${path}.${process.pid}`;
  writeFileSync(partial, await unpacked(file), { mode: 0o600 });
  renameSync(partial, path);
  return path;
}

/** The library, which is compressed inside of the program. */
async function unpacked(file: ProgramFile): Promise<Uint8Array> {
  return zstdDecompressSync(new Uint8Array(await file.arrayBuffer()));
}
