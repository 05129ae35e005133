import { existsSync, mkdirSync, readFileSync, realpathSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { CanopyError } from "../../base/errors.ts";
import { DOCKERFILE } from "../../launcher/emit/container_file.ts";
import type { EmittedFile } from "../../launcher/emit/emitted.ts";
import type { Io } from "./io.ts";

/** Prints files one behind the other, each under its name where there are several. */
export function printEmitted(files: readonly EmittedFile[], io: Pick<Io, "out">): void {
  for (const { path, text } of files) {
    io.out.write(files.length === 1 ? text : `# --- ${path}\n${text}\n`);
  }
}

/** Where files go. */
export interface EmitPlace {
  readonly folder: string;
  /** A file that is never overwritten, and its name in a sentence: `the configuration`. */
  readonly input: { readonly path: string; readonly what: string } | undefined;
  readonly force: boolean;
}

/**
 * Writes all files, or none: what is there and says something else is kept unless `force`, `input` always. Throws 500
 * `cannot_write`.
 */
export function writeEmitted(
  files: readonly EmittedFile[],
  { folder, input, force }: EmitPlace,
  io: Pick<Io, "out">,
): void {
  const targets = files.map(({ path, text }) => ({ path, text, target: join(folder, path) }))
    .filter(({ path, target }) => path !== DOCKERFILE.path || !existsSync(target));
  for (const { text, target } of targets) {
    if (input !== undefined && isSame(target, input.path)) {
      throw cannotWrite(target, `it is ${input.what} itself: give another --out`);
    }
    if (!force && textAt(target) !== undefined && textAt(target) !== text) {
      throw cannotWrite(target, "it is there already: give another --out, or --force to overwrite it");
    }
  }
  for (const { text, target } of targets) {
    try {
      mkdirSync(dirname(target), { recursive: true });
      writeFileSync(target, text);
    } catch (cause) {
      throw cannotWrite(target, `${messageOfIo(cause)}: give another --out`, cause);
    }
    io.out.write(`${target}\n`);
  }
}

function cannotWrite(target: string, why: string, cause?: unknown): CanopyError {
  return new CanopyError(`Cannot write ${target}: ${why}`, { code: "cannot_write", status: 500, cause });
}

/** True when both paths lead to one file. */
function isSame(a: string, b: string): boolean {
  return existsSync(a) && existsSync(b) && realpathSync(a) === realpathSync(b);
}

/** What is at a path; "" where it is not a file that can be read, undefined where there is nothing. */
function textAt(path: string): string | undefined {
  if (!existsSync(path)) return undefined;
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}

function messageOfIo(cause: unknown): string {
  return cause instanceof Error && "code" in cause ? String(cause.code) : String(cause);
}
