import assert from "node:assert/strict";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import "../../loopback.ts";
import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import { tracingSchema } from "../../../cfgs/schema/tracing.ts";
import { otlpSpans } from "../../../router/tracing/otlp_spans.ts";

/** A field of a Protocol Buffers message: its number, and its bytes or its value. */
type Field = readonly [number, Uint8Array | bigint];

/** What a collector was sent: the message's bytes, and the request's path and headers. */
interface Received {
  readonly path: string | undefined;
  readonly key: unknown;
  readonly message: Uint8Array;
}

const parent = { traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01" };
const hex = (bytes: Uint8Array | bigint | undefined) =>
  bytes instanceof Uint8Array ? Buffer.from(bytes).toString("hex") : undefined;

/** The fields of a message (https://protobuf.dev/programming-guides/encoding). */
function fieldsOf(bytes: Uint8Array): Field[] {
  const fields: Field[] = [];
  let at = 0;
  const varint = () => {
    let value = 0n;
    for (let shift = 0n;; shift += 7n) {
      const byte = bytes[at++]!;
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const tag = Number(varint());
    const wire = tag & 7;
    if (wire === 0) fields.push([tag >> 3, varint()]);
    else {
      const length = wire === 2 ? Number(varint()) : wire === 1 ? 8 : 4;
      fields.push([tag >> 3, bytes.subarray(at, at += length)]);
    }
  }
  return fields;
}

/** The messages under a path of field numbers. */
function under(message: Uint8Array, ...path: number[]): Uint8Array[] {
  return path.reduce<Uint8Array[]>(
    (messages, number) =>
      messages.flatMap((one) =>
        fieldsOf(one).flatMap(([field, value]) =>
          field === number && value instanceof Uint8Array ? [value] : []
        )
      ),
    [message],
  );
}

/** The spans of an `ExportTraceServiceRequest` (opentelemetry/proto/trace/v1/trace.proto). */
function spansIn(message: Uint8Array) {
  return under(message, 1, 2, 2).map((span) => {
    const fields = new Map(fieldsOf(span));
    return {
      trace: hex(fields.get(1)),
      id: hex(fields.get(2)),
      parent: hex(fields.get(4)),
      name: new TextDecoder().decode(fields.get(5) as Uint8Array),
      kind: fields.get(6),
    };
  });
}

async function overHttp(status: number): Promise<{ url: string; seen: Received[]; close: () => void }> {
  const seen: Received[] = [];
  const server = createHttpServer((request, response) => {
    const pieces: Uint8Array[] = [];
    request.on("data", (piece: Uint8Array) => pieces.push(piece));
    request.on("end", () => {
      seen.push({ path: request.url, key: request.headers["x-key"], message: Buffer.concat(pieces) });
      response.writeHead(status).end();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, seen, close: () => server.close() };
}

async function overGrpc(): Promise<{ url: string; seen: Received[]; close: () => void }> {
  const seen: Received[] = [];
  const server = createHttp2Server();
  server.on("stream", (stream: ServerHttp2Stream, headers) => {
    const pieces: Uint8Array[] = [];
    stream.on("data", (piece: Uint8Array) => pieces.push(piece));
    stream.on("end", () => {
      // A byte that says whether it is compressed, and four for the length, come before the message.
      seen.push({
        path: headers[":path"],
        key: headers["x-key"],
        message: Buffer.concat(pieces).subarray(5),
      });
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(new Uint8Array(5));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, seen, close: () => server.close() };
}

/** Sends a server's span with a worker's under it, and the end of all. */
async function sendTwo(url: string, more: object = {}): Promise<(string | undefined)[]> {
  const told: (string | undefined)[] = [];
  const spans = await otlpSpans({
    config: tracingSchema.parse({ otlp_endpoint: url, headers: { "x-key": "secret" }, ...more }),
    clock: new SystemClock(),
    random: new Random("spans"),
    onLost: (reason) => told.push(reason),
    version: "1",
  });
  const request = spans.begin({ name: "POST /v1/chat/completions", kind: "server", parent });
  const leg = spans.begin({ name: "POST", kind: "client", parent: request.carriedBy({}) });
  leg.set({ "canopy.phase": "decode", left: undefined, list: ["a"] });
  leg.event("first_chunk");
  leg.end("broken");
  leg.end();
  request.end();
  await spans.close();
  return told;
}

for (
  const [protocol, serve, path] of [
    ["http/protobuf", () => overHttp(200), "/v1/traces"],
    ["grpc", overGrpc, "/opentelemetry.proto.collector.trace.v1.TraceService/Export"],
  ] as const
) {
  test(`spans reach a collector over ${protocol} with their parents, and what waits is sent at the end`, async () => {
    const { url, seen, close } = await serve();
    try {
      assert.deepEqual(await sendTwo(url, { protocol }), []);
      assert.deepEqual(seen.map((one) => [one.path, one.key]), [[path, "secret"]]);
      const [leg, request] = spansIn(seen[0]!.message);
      const trace = "0af7651916cd43dd8448eb211c80319c";
      assert.deepEqual(
        [request?.name, request?.trace, request?.parent, request?.kind],
        ["POST /v1/chat/completions", trace, "b7ad6b7169203331", 2n],
      );
      assert.deepEqual([leg?.name, leg?.trace, leg?.parent, leg?.kind], ["POST", trace, request?.id, 3n]);
    } finally {
      close();
    }
  });
}

test("a collector that takes no spans is told once, and nothing waits for it", async () => {
  const { url, close } = await overHttp(400);
  try {
    const told = await sendTwo(url);
    assert.equal(told.length, 1);
    assert.ok(told[0] !== undefined);
  } finally {
    close();
  }
});

test("a trace that the client does not record is passed on and not recorded; a parent that is no parent begins a new one", async () => {
  const { url, seen, close } = await overHttp(200);
  try {
    const spans = await otlpSpans({
      config: tracingSchema.parse({ otlp_endpoint: url }),
      clock: new SystemClock(),
      random: new Random("spans"),
      onLost: () => {},
    });
    const quiet = spans.begin({
      name: "quiet",
      kind: "server",
      parent: { traceparent: parent.traceparent.replace(/01$/, "00") },
    });
    assert.match(
      quiet.carriedBy({})["traceparent"] ?? "",
      /^00-0af7651916cd43dd8448eb211c80319c-[\da-f]{16}-00$/,
    );
    quiet.end();
    const none = `00-${"0".repeat(32)}-b7ad6b7169203331-01`;
    for (const traceparent of ["", "nonsense", none, `ff${parent.traceparent.slice(2)}`]) {
      const fresh = spans.begin({ name: "fresh", kind: "server", parent: { traceparent } });
      assert.match(
        fresh.carriedBy({ a: "b" })["traceparent"] ?? "",
        /^00-(?!0af7|0{32})[\da-f]{32}-[\da-f]{16}-01$/,
      );
      fresh.end();
    }
    await spans.close();
    const names = seen.flatMap(({ message }) => spansIn(message).map(({ name }) => name));
    assert.deepEqual(names, ["fresh", "fresh", "fresh", "fresh"]);
  } finally {
    close();
  }
});
