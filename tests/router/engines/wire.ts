import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { JsonObject } from "../../../base/json.ts";
import { TransportError } from "../../../base/transport.ts";
import type { MemoryHandler } from "../../../router/transport/memory.ts";

/** One exchange recorded from a real server. */
export interface WireCase {
  readonly name: string;
  readonly request: { readonly method: string; readonly path: string; readonly body?: JsonObject | null };
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array;
  /** Sizes of the HTTP chunks as they came, if recorded. */
  readonly chunkSizes: readonly number[] | undefined;
  /** False when the server broke the connection inside the body. */
  readonly closed: boolean;
}

export function fixtureFolder(...parts: string[]): string {
  return join(fileURLToPath(new URL("../../fixtures", import.meta.url)), ...parts);
}

/** Names of the recorded cases of one server. */
export async function wireCases(server: string): Promise<string[]> {
  const files = await readdir(fixtureFolder("wire", server));
  return files.filter((file) => file.endsWith(".req.json")).map((file) => file.slice(0, -9)).sort();
}

export async function loadCase(server: string, name: string): Promise<WireCase> {
  const file = (extension: string) => fixtureFolder("wire", server, `${name}.${extension}`);
  const [request, head, body] = await Promise.all([
    readFile(file("req.json"), "utf8"),
    readFile(file("head"), "latin1"),
    readFile(file("body")),
  ]);
  const [line = "", ...lines] = head.trim().split("\r\n");
  const headers: Record<string, string> = {};
  for (const header of lines) {
    const colon = header.indexOf(":");
    headers[header.slice(0, colon).toLowerCase()] = header.slice(colon + 1).trim();
  }
  let chunks: { closed: boolean; left_out?: number; chunks: [number, number][] } | undefined;
  try {
    chunks = JSON.parse(await readFile(file("chunks.json"), "utf8"));
  } catch {
    // Not a chunked answer.
  }
  return {
    name,
    request: JSON.parse(request),
    status: Number(line.split(" ")[1] ?? 0),
    headers,
    body: new Uint8Array(body),
    chunkSizes: chunks === undefined || chunks.left_out !== undefined
      ? undefined
      : chunks.chunks.map(([, size]) => size),
    closed: chunks?.closed ?? true,
  };
}

/** Cuts a body at the recorded borders, or in one piece where none were recorded. */
export function recordedPieces(wire: WireCase): Uint8Array[] {
  const pieces: Uint8Array[] = [];
  let at = 0;
  for (const size of wire.chunkSizes ?? []) {
    pieces.push(wire.body.subarray(at, at + size));
    at += size;
  }
  if (at < wire.body.length) pieces.push(wire.body.subarray(at));
  return pieces;
}

/** Cuts a body at the given borders (any order, any values). */
export function cutAt(body: Uint8Array, borders: readonly number[]): Uint8Array[] {
  const sorted = [...new Set([0, ...borders.map((border) => border % (body.length + 1)), body.length])]
    .sort((a, b) => a - b);
  return sorted.slice(1).map((end, i) => body.subarray(sorted[i], end));
}

/** A server that answers everything with one recorded exchange, in the given pieces. */
export function replay(wire: WireCase, pieces: readonly Uint8Array[] = recordedPieces(wire)): MemoryHandler {
  return (request) => {
    async function* body(): AsyncGenerator<Uint8Array> {
      for (const piece of pieces) yield await Promise.resolve(piece);
      if (!wire.closed) throw new TransportError("reset_in_body", request.url);
    }
    return Promise.resolve({ status: wire.status, headers: wire.headers, body: body() });
  };
}
