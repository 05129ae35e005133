import { mkdirSync } from "node:fs";
import { type FileHandle, open, rename } from "node:fs/promises";
import { dirname } from "node:path";
import { messageOf } from "../../base/errors.ts";
import { logger } from "../../base/log.ts";

/** Bounds of one engine's log on disk. */
export interface LogFileLimits {
  /** A file of this size is set aside. */
  readonly maxBytes: number;
  /** Files that were set aside and are kept. */
  readonly kept: number;
}

const LIMITS: LogFileLimits = { maxBytes: 16 * 1024 * 1024, kept: 3 };
/** Output that waits for the disk; what comes on top of it is not written. */
const MAX_PENDING_BYTES = 4 * 1024 * 1024;

/** A log file that is appended to and rotated: FILE, before that FILE.1, before that FILE.2 … */
export class LogFile {
  readonly path: string;
  readonly #limits: LogFileLimits;
  #handle: FileHandle | undefined;
  #bytes = 0;
  #pending: Uint8Array[] = [];
  #pendingBytes = 0;
  #lostBytes = 0;
  #writing: Promise<void> | undefined;
  #broken = false;

  constructor(path: string, limits: LogFileLimits = LIMITS) {
    this.path = path;
    this.#limits = limits;
    mkdirSync(dirname(path), { recursive: true });
  }

  /** Takes bytes to be written soon. An engine never waits for its log, nor fails with it. */
  write(bytes: Uint8Array): void {
    if (this.#broken) return;
    if (this.#pendingBytes + bytes.length > MAX_PENDING_BYTES) {
      this.#lostBytes += bytes.length;
      return;
    }
    this.#pending.push(bytes);
    this.#pendingBytes += bytes.length;
    this.#writing ??= this.#flush();
  }

  /** Resolves when all is written; the file is closed then. */
  async close(): Promise<void> {
    await this.#writing;
    await this.#handle?.close();
    this.#handle = undefined;
  }

  async #flush(): Promise<void> {
    try {
      while (this.#pending.length > 0) {
        const pieces = this.#pending;
        this.#pending = [];
        this.#pendingBytes = 0;
        for (const piece of pieces) await this.#append(piece);
        if (this.#lostBytes > 0) {
          const lost = this.#lostBytes;
          this.#lostBytes = 0;
          await this.#append(
            new TextEncoder().encode(`\n[${lost} bytes are missing: the disk was too slow]\n`),
          );
        }
      }
    } catch (error) {
      this.#broken = true;
      this.#pending = [];
      logger("launcher").warning("Cannot write {path}, so this log ends here: {error}", {
        path: this.path,
        error: messageOf(error),
      });
    } finally {
      this.#writing = undefined;
    }
  }

  async #append(piece: Uint8Array): Promise<void> {
    if (this.#handle === undefined) {
      this.#handle = await open(this.path, "a");
      this.#bytes = (await this.#handle.stat()).size;
    }
    if (this.#bytes > 0 && this.#bytes + piece.length > this.#limits.maxBytes) {
      await this.#handle.close();
      this.#handle = undefined;
      await rotate(this.path, this.#limits.kept);
      this.#handle = await open(this.path, "a");
      this.#bytes = 0;
    }
    await this.#handle.writeFile(piece);
    this.#bytes += piece.length;
  }
}

/** Moves FILE to FILE.1, FILE.1 to FILE.2 and so on; the oldest one goes. */
async function rotate(path: string, kept: number): Promise<void> {
  for (let number = kept; number >= 1; number--) {
    const from = number === 1 ? path : `${path}.${number - 1}`;
    await rename(from, `${path}.${number}`).catch((error: Error & { code?: string }) => {
      if (error.code !== "ENOENT") throw error;
    });
  }
}
