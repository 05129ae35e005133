import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import { readBody } from "../../../../router/http/gate/body.ts";

/** A request whose body breaks off behind its first chunk. */
function brokenRequest(headers: Record<string, string>, onBreak: () => void = () => {}): Request {
  let sent = false;
  const body = new ReadableStream<Uint8Array>({
    pull(controller) {
      if (!sent) controller.enqueue(new TextEncoder().encode('{"model"'));
      else {
        onBreak();
        controller.error(new TypeError("Cannot read request body as underlying resource unavailable"));
      }
      sent = true;
    },
  });
  const init = { method: "POST", headers, body, duplex: "half" };
  return new Request("http://a/", init);
}

/** Short bodies whose length is known are read at once, others in pieces. */
for (const headers of [{ "content-length": "20" }, {}]) {
  const how = "content-length" in headers ? "counted" : "chunked";
  test(`a ${how} body that breaks off, or is malformed, is the client's mistake, not ours`, async () => {
    await assert.rejects(
      readBody(brokenRequest(headers), { maxBytes: 1_000, signal: new AbortController().signal }),
      (error) => CanopyError.is(error) && error.status === 400 && error.code === "incomplete_body",
    );
  });

  test(`a ${how} body that breaks off because its client has gone ends with the client's reason`, async () => {
    const client = new AbortController();
    const gone = new Error("gone");
    await assert.rejects(
      readBody(brokenRequest(headers, () => client.abort(gone)), { maxBytes: 1_000, signal: client.signal }),
      (error) => error === gone,
    );
  });
}
