/**
 * A worker that does nothing but send: a chunk of an answer every few milliseconds to each of its streams.
 *
 *     deno run -A bench/micro/peers/engine.ts PORT MODEL CHUNK_MS
 */
import { createServer, type ServerResponse } from "node:http";
import process from "node:process";
import { SystemClock } from "../../../base/clock.ts";

const [port = "0", model = "m", chunkMs = "10"] = process.argv.slice(2);

const eventOf = (delta: unknown, finish: string | null, usage?: unknown) =>
  `data: ${
    JSON.stringify({
      id: "chatcmpl-0123456789abcdef",
      object: "chat.completion.chunk",
      created: 1_700_000_000,
      model,
      choices: usage === undefined ? [{ index: 0, delta, logprobs: null, finish_reason: finish }] : [],
      ...(usage === undefined ? {} : { usage }),
    })
  }\n\n`;
const chunk = eventOf({ content: " token" }, null);

const streams = new Map<ServerResponse, number>();
function sendChunks(): void {
  for (const [response, left] of streams) {
    if (left > 1) {
      streams.set(response, left - 1);
      response.write(chunk);
      continue;
    }
    streams.delete(response);
    response.write(eventOf({ content: " end" }, "stop"));
    response.write(eventOf({}, null, { prompt_tokens: 20, completion_tokens: 100, total_tokens: 120 }));
    response.end("data: [DONE]\n\n");
  }
}

/** Requests that routers send before any other. */
const facts: Record<string, unknown> = {
  "/v1/models": {
    object: "list",
    data: [{ id: model, object: "model", owned_by: "sglang", max_model_len: 8192 }],
  },
  "/get_server_info": {
    version: "0.5.18",
    model_path: model,
    served_model_name: model,
    dp_size: 1,
    tp_size: 1,
  },
  "/get_model_info": { model_path: model, is_generation: true },
};
facts["/server_info"] = facts["/get_server_info"];
facts["/model_info"] = facts["/get_model_info"];

createServer((request, response) => {
  if (request.method === "GET") {
    response.setHeader("content-type", "application/json");
    return void response.end(JSON.stringify(facts[request.url ?? ""] ?? {}));
  }
  let body = "";
  request.on("data", (part: Uint8Array) => body += new TextDecoder().decode(part));
  request.on("end", () => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(eventOf({ role: "assistant", content: "" }, null));
    streams.set(response, Number(JSON.parse(body).max_tokens ?? 100));
  });
  response.on("close", () => streams.delete(response));
}).listen(Number(port), "127.0.0.1", () => process.stdout.write("listening\n"));

for (const clock = new SystemClock(); true;) {
  await clock.sleep(Number(chunkMs));
  sendChunks();
}
