import { homedir } from "node:os";
import { join } from "node:path";
import process from "node:process";

/** A file that was compiled into the program (`bun build --compile`), in Bun's terms. */
export interface ProgramFile {
  /** With a hash of the content. */
  readonly name: string;
  readonly size: number;
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
