import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../base/errors.ts";
import type { HttpMessage } from "../../../router/threads/messages.ts";
import { PortHttp } from "../../../router/threads/port_http.ts";
import type { Fetches } from "../../../router/http/server/fetches.ts";

const NOBODY: Fetches = { fetch: () => new Response(null, { status: 500 }) };

/** Two ends, with what is said copied as between threads. */
function ends(app: Fetches): PortHttp {
  const client: PortHttp = new PortHttp((message) => server.take(structuredClone(message)), NOBODY);
  const server = new PortHttp((message: HttpMessage) => client.take(structuredClone(message)), app);
  return client;
}

test("a request and its answer pass as they are, with the client's address", async () => {
  let seen: object | undefined;
  const client = ends({
    fetch: async (request, env) => {
      seen = {
        ...env,
        method: request.method,
        key: request.headers.get("authorization"),
        text: await request.text(),
      };
      return new Response("fine", { status: 202, headers: { location: "/there" } });
    },
  });
  const request = new Request("http://r/workers", {
    method: "POST",
    headers: { authorization: "k" },
    body: "{}",
  });
  const answer = await client.fetch(request, { remoteAddr: { hostname: "10.0.0.1" } });
  assert.deepEqual([answer.status, answer.headers.get("location"), await answer.text()], [
    202,
    "/there",
    "fine",
  ]);
  assert.deepEqual(seen, { remoteAddr: { hostname: "10.0.0.1" }, method: "POST", key: "k", text: "{}" });
});

test("a stream is made while it is read, and ends when its reader leaves", async () => {
  let made = 0;
  const gone = Promise.withResolvers<void>();
  const client = ends({
    fetch: ({ signal }) => {
      signal.addEventListener("abort", () => gone.resolve());
      return new Response(
        new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array([made++])) }, {
          highWaterMark: 0,
        }),
      );
    },
  });
  const reader = (await client.fetch(new Request("http://r/v1/runs/x/events"))).body!.getReader();
  assert.deepEqual([...(await reader.read()).value!, ...(await reader.read()).value!], [0, 1]);
  assert.equal(made, 2);
  await reader.cancel();
  await gone.promise;
  assert.equal(made, 2);
});

test("an answer that breaks off, and a thread that ends, are errors of the request", async () => {
  const broken = ends({ fetch: () => Promise.reject(new Error("it broke")) });
  await assert.rejects(broken.fetch(new Request("http://r/metrics")), /it broke/);
  const silent = ends({ fetch: () => new Promise<Response>(() => {}) });
  const asked = silent.fetch(new Request("http://r/metrics"));
  await Promise.resolve();
  silent.close();
  await assert.rejects(asked, (error) => CanopyError.is(error) && error.status === 503);
});
