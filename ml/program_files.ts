import { mkdtempSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import process from "node:process";
import { CanopyError, messageOf } from "../base/errors.ts";

/** A file that was compiled into the program (`bun build --compile`), in Bun's terms. */
export interface ProgramFile {
  /** With a hash of the content. */
  readonly name: string;
  arrayBuffer(): Promise<ArrayBuffer>;
}

/** The file in the program whose name has this part; undefined when the program runs from its sources. */
export function programFile(part: string): ProgramFile | undefined {
  // Bun's own types do not know that an embedded file has a name.
  const bun: unknown = Reflect.get(globalThis, "Bun");
  const files = (bun as { embeddedFiles?: readonly ProgramFile[] } | undefined)?.embeddedFiles;
  return files?.find(({ name }) => name.includes(part));
}

/** A folder in the user's cache for what is unpacked from such a file: one for each content. */
export function programCache({ name }: ProgramFile): string {
  const home = process.env["XDG_CACHE_HOME"] || join(homedir(), ".cache");
  return join(home, "canopy", name.replaceAll(/[^\w.-]/g, "_"));
}

/**
 * Makes a folder for what is unpacked where there is no home to write to, as in a container. Throws 500 `cannot_unpack`
 * where the system's folder for such things cannot be written either.
 */
export function temporaryFolder(): string {
  try {
    return mkdtempSync(join(tmpdir(), "canopy-"));
  } catch (cause) {
    throw new CanopyError(
      "Cannot unpack what models in this process need: neither the cache in the home folder nor " +
        `${tmpdir()} can be written (${messageOf(cause)}): make one of them writable, or set TMPDIR`,
      { code: "cannot_unpack", status: 500, cause },
    );
  }
}
