import { createHash, type Hash } from "node:crypto";
import { createReadStream } from "node:fs";
import { type FileHandle, mkdir, open, rename, rm, stat } from "node:fs/promises";
import { dirname } from "node:path";
import process from "node:process";
import type { Clock } from "../../base/clock.ts";
import { type IncomingResponse, TransportError } from "../../base/transport.ts";
import { claimFile } from "./claim_file.ts";
import { discard, type HubClient, HubError } from "./client.ts";

/** Attempts in a row that bring nothing new before a file is given up. */
const MAX_ATTEMPTS = 5;
const FIRST_PAUSE_MS = 500;
/** The status of an answer to a range that lies behind the end of the file. */
const NOTHING_THERE = 416;

/** Files that this process has begun to fetch beside another one. */
let fetches = 0;

/** A file to fetch, and the way to it. */
export interface BlobRequest {
  readonly client: HubClient;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Address of the file; redirects are followed. */
  readonly url: string;
  /** Path of the whole file; a partial one has `.incomplete` behind it. */
  readonly path: string;
  /** SHA-256 (64 digits) or git's SHA-1 (40) of the file; other forms are not checked. */
  readonly etag: string;
  readonly size: number | undefined;
  /** Called with the bytes on disk, those of earlier attempts included. */
  onBytes(bytes: number): void;
}

/** The bytes that came are not those of the file's checksum or size. */
export class ChecksumError extends Error {
  override readonly name = "ChecksumError";
}

/**
 * Fetches a file: goes on where an earlier attempt ended, also one of another program with the same cache layout; checks
 * its checksum; and only then gives it its name. While another Canopy fetches the same file, each has a partial one of
 * its own. Throws `HubError`, `TransportError`, `ChecksumError` and what the file system says.
 */
export async function fetchBlob(request: BlobRequest): Promise<void> {
  await mkdir(dirname(request.path), { recursive: true });
  const usual = `${request.path}.incomplete`;
  const claim = await claimFile(usual, request.clock);
  if (claim !== undefined) {
    try {
      return await fetchWhole(request, usual);
    } finally {
      await claim.release();
    }
  }
  const own = `${request.path}.${process.pid}-${++fetches}.incomplete`;
  try {
    await fetchWhole(request, own);
  } finally {
    await rm(own, { force: true });
  }
}

async function fetchWhole(request: BlobRequest, partial: string): Promise<void> {
  let attempt = 0;
  let before = await sizeOf(partial);
  while (true) {
    try {
      await fetchRest(request, partial);
      break;
    } catch (error) {
      if (!(error instanceof TransportError)) throw error;
      const after = await sizeOf(partial);
      attempt = after > before ? 1 : attempt + 1;
      before = after;
      if (attempt >= MAX_ATTEMPTS) throw error;
      await request.clock.sleep(FIRST_PAUSE_MS * 2 ** (attempt - 1), request.signal);
    }
  }
  await check(request, partial);
  await rename(partial, request.path);
}

async function fetchRest(
  { client, url, size, onBytes, signal }: BlobRequest,
  partial: string,
): Promise<void> {
  let have = await sizeOf(partial);
  if (size !== undefined && have > size) {
    await rm(partial);
    have = 0;
  }
  onBytes(have);
  if (size !== undefined && have === size && size > 0) return;
  const response = await client.get(url, have > 0 ? { range: `bytes=${have}-` } : {}).catch(async (error) => {
    if (!(error instanceof HubError) || error.status !== NOTHING_THERE || have === 0) throw error;
    // All of it is there, or what is there is longer than the file: from the beginning.
    await rm(partial, { force: true });
    throw new TransportError("invalid_response", url);
  });
  if (response === undefined) throw new Error(`${url} is not there any more`);
  const resumed = response.status === 206 && rangeStart(response) === have;
  if (response.status !== 200 && !resumed) {
    await discard(response);
    // The file has changed, or is shorter than the part: from the beginning.
    await rm(partial, { force: true });
    throw new TransportError("invalid_response", url);
  }
  const file = await open(partial, resumed ? "a" : "w");
  try {
    let bytes = resumed ? have : 0;
    for await (const chunk of response.body) {
      signal.throwIfAborted();
      await writeAll(file, chunk);
      bytes += chunk.length;
      if (size !== undefined && bytes > size) throw new ChecksumError(`it is longer than ${size} bytes`);
      onBytes(bytes);
    }
    if (size !== undefined && bytes < size) throw new TransportError("reset_in_body", url);
  } finally {
    await file.close();
  }
}

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  for (let at = 0; at < chunk.length;) at += (await file.write(chunk, at, chunk.length - at)).bytesWritten;
}

function rangeStart({ headers }: IncomingResponse): number | undefined {
  const start = /^bytes (\d+)-/.exec(headers["content-range"] ?? "")?.[1];
  return start === undefined ? undefined : Number(start);
}

async function check({ etag, signal }: BlobRequest, partial: string): Promise<void> {
  let hash: Hash;
  if (/^[0-9a-f]{64}$/.test(etag)) hash = createHash("sha256");
  else if (/^[0-9a-f]{40}$/.test(etag)) {
    hash = createHash("sha1").update(`blob ${await sizeOf(partial)}\0`);
  } else return;
  for await (const chunk of createReadStream(partial, { highWaterMark: 1024 * 1024 })) {
    signal.throwIfAborted();
    hash.update(chunk);
  }
  const found = hash.digest("hex");
  if (found === etag) return;
  await rm(partial);
  throw new ChecksumError(`its checksum is ${found}, and the Hub says ${etag}`);
}

async function sizeOf(path: string): Promise<number> {
  return await stat(path).then(({ size }) => size, () => 0);
}
