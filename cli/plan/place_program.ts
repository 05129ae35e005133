import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { programFile } from "../../ml/program_files.ts";
import type { Io } from "../kit/io.ts";

/**
 * Puts this program beside a container file, as `canopy`, where it is a binary; else says what is to be put there. One
 * that is there is kept.
 */
export function placeProgram(folder: string, io: Pick<Io, "out" | "err">): void {
  const target = join(folder, "canopy");
  if (existsSync(target)) return;
  const isBinary = programFile("libonnxruntime") !== undefined && process.platform === "linux";
  if (!isBinary) {
    io.err.write(
      `The image needs Canopy's binary for Linux as ${target}: "bun run compile" makes dist/canopy\n`,
    );
    return;
  }
  copyFileSync(process.execPath, target);
  io.out.write(`${target}\n`);
}
