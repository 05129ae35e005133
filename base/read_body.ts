import { copied } from "./bytes.ts";

/**
 * All bytes of a body, in memory of their own. Throws an error that begins with `what`, such as "its answer", when there
 * are more than `maxBytes`, and what the body throws.
 */
export async function readBytes(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  what: string,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > maxBytes) throw new Error(`${what} is longer than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return copied(chunks);
}

/** All of a body as text; throws as `readBytes` does. */
export async function readText(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  what: string,
): Promise<string> {
  return new TextDecoder().decode(await readBytes(body, maxBytes, what));
}
