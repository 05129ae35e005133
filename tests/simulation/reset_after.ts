import { TransportError } from "../../base/transport.ts";

/** A body that is reset after so many chunks. */
export async function* resetAfter(
  body: AsyncIterable<Uint8Array>,
  chunks: number,
  url: string,
): AsyncGenerator<Uint8Array> {
  let sent = 0;
  if (chunks > 0) {
    for await (const chunk of body) {
      yield chunk;
      if (++sent >= chunks) break;
    }
  }
  throw new TransportError("reset_in_body", url);
}
