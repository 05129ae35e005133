import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { SystemClock } from "../../../base/clock.ts";
import type { Transport } from "../../../base/transport.ts";
import { fetchBlob } from "../../../ml/hub/blob.ts";
import { HubClient } from "../../../ml/hub/client.ts";

const content = new Uint8Array(1000).fill(7);

/** A mirror that says that there is nothing behind what is there already. */
function mirror(asked: (string | undefined)[]): Transport {
  return {
    send: ({ headers }) => {
      asked.push(headers?.["range"]);
      const status = headers?.["range"] === undefined ? 200 : 416;
      async function* body() {
        if (status === 200) yield await Promise.resolve(content);
      }
      return Promise.resolve({ status, headers: {}, body: body() });
    },
    close: () => Promise.resolve(),
  };
}

test("a part that its server has nothing to add to, where it tells no size, is fetched anew instead of never", async () => {
  const folder = await mkdtemp(join(tmpdir(), "canopy-blob-"));
  try {
    const path = join(folder, "blob");
    await writeFile(`${path}.incomplete`, new Uint8Array(1000).fill(8));
    const asked: (string | undefined)[] = [];
    const signal = new AbortController().signal;
    const client = new HubClient({
      transport: mirror(asked),
      endpoint: "http://mirror",
      id: "org/model",
      revision: "main",
      token: undefined,
      signal,
    });
    const etag = createHash("sha256").update(content).digest("hex");
    const clock = new SystemClock();
    const request = { client, clock, signal, url: "http://mirror/file", path, etag, size: undefined };
    await fetchBlob({ ...request, onBytes: () => {} });
    assert.deepEqual(new Uint8Array(await readFile(path)), content);
    assert.deepEqual(asked, ["bytes=1000-", undefined]);
  } finally {
    await rm(folder, { recursive: true });
  }
});
