import { createHash } from "node:crypto";
import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { copied } from "../../base/bytes.ts";
import { CanopyError } from "../../base/errors.ts";
import { isJsonObject, type Json } from "../../base/json.ts";

/** One file of a pack. */
interface PackedFile {
  /** Relative, with slashes. */
  readonly name: string;
  readonly offset: number;
  readonly length: number;
  readonly sha256: string;
}

/** A folder's files as one: the length of a list (4 bytes), the list in JSON, the files' bytes. */
export function packFolder(folder: string): Uint8Array {
  const names = readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)).replaceAll(sep, "/"))
    .sort();
  const contents = names.map((name) => readFileSync(join(folder, name)));
  let offset = 0;
  const list = contents.map((bytes, index): PackedFile => {
    const file = { name: names[index]!, offset, length: bytes.length, sha256: sha256(bytes) };
    offset += bytes.length;
    return file;
  });
  const head = new TextEncoder().encode(JSON.stringify(list));
  const length = new Uint8Array(4);
  new DataView(length.buffer).setUint32(0, head.length, true);
  return copied([length, head, ...contents]);
}

/**
 * Writes a pack's files below `target` unless they are there, byte for byte. Whole folders appear, never parts of them:
 * several processes may do this at once. Throws 500 `cannot_unpack` for a file that is not what was packed.
 */
export function unpackTo(target: string, pack: Uint8Array): void {
  const { files, bodies } = readPack(pack);
  if (files.every((file) => isThere(join(target, file.name), file))) return;
  mkdirSync(dirname(target), { recursive: true, mode: 0o700 });
  const partial = mkdtempSync(`${target}.`);
  try {
    for (const file of files) writePacked(join(partial, file.name), file, bodies);
    // What is there is damaged.
    rmSync(target, { recursive: true, force: true });
    renameSync(partial, target);
  } catch (error) {
    rmSync(partial, { recursive: true });
    // Another process may have been faster.
    if (!files.every((file) => isThere(join(target, file.name), file))) throw error;
  }
}

function writePacked(
  path: string,
  { name, offset, length, sha256: expected }: PackedFile,
  bodies: Uint8Array,
): void {
  const bytes = bodies.subarray(offset, offset + length);
  if (sha256(bytes) !== expected) {
    throw new CanopyError(`Cannot unpack ${name}: the program's file is damaged; install it again`, {
      code: "cannot_unpack",
      status: 500,
    });
  }
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  writeFileSync(path, bytes, { mode: 0o600 });
}

function readPack(pack: Uint8Array): { readonly files: readonly PackedFile[]; readonly bodies: Uint8Array } {
  const length = new DataView(pack.buffer, pack.byteOffset).getUint32(0, true);
  const list: Json = JSON.parse(new TextDecoder().decode(pack.subarray(4, 4 + length)));
  const files = (Array.isArray(list) ? list : []).filter(isJsonObject).map((file) => ({
    name: String(file["name"]),
    offset: Number(file["offset"]),
    length: Number(file["length"]),
    sha256: String(file["sha256"]),
  }));
  return { files, bodies: pack.subarray(4 + length) };
}

function isThere(path: string, { length, sha256: expected }: PackedFile): boolean {
  try {
    const bytes = readFileSync(path);
    return bytes.length === length && sha256(bytes) === expected;
  } catch {
    return false;
  }
}

function sha256(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
