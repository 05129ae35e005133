import assert from "node:assert/strict";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type Server, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { HANG_MS } from "../until.ts";
import { startBinary } from "./binary.ts";
import { modelFolder } from "../scorer/onnx/onnx_reference.ts";

// Early exit in the binary, over sockets, with the embedding model inside of it.

/** What a model says, word by word; a slow one goes on for hours. */
const answers: Readonly<Record<string, { text: string; wordMs: number }>> = {
  fast: { text: "16 - 7 = 9 eggs are left. The answer is 9.", wordMs: 5 },
  steady: { text: "She has used 7 of the 16 eggs, so that 9 are left. The answer is 9.", wordMs: 10 },
  slow: { text: "Let me think about the eggs again. ".repeat(50_000), wordMs: 50 },
  root: { text: "Nine.", wordMs: 5 },
};

interface FakeEngine {
  readonly server: Server;
  readonly url: string;
  /** Models whose answers somebody did not wait for. */
  readonly abandoned: string[];
  /** Resolves when there is the first of them. */
  readonly left: Promise<void>;
}

/** An OpenAI-compatible server that streams these answers with log-probabilities. */
async function startEngine(): Promise<FakeEngine> {
  const abandoned: string[] = [];
  const { promise: left, resolve: leave } = Promise.withResolvers<void>();
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => body += chunk);
    request.on("end", () => {
      if (request.method !== "POST") {
        response.setHeader("content-type", "application/json");
        const data = Object.keys(answers).map((id) => ({ id, object: "model" }));
        return void response.end(JSON.stringify({ object: "list", data }));
      }
      const { model }: { model: string } = JSON.parse(body);
      stream(model, response);
    });
  });
  const stream = (model: string, response: ServerResponse) => {
    const { text, wordMs } = answers[model]!;
    const words = text.split(/(?<= )/);
    response.writeHead(200, { "content-type": "text/event-stream" });
    const send = (choice: object) => {
      const chunk = { id: "1", object: "chat.completion.chunk", created: 1, model, choices: [choice] };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
    };
    let next = 0;
    const timer = setInterval(() => {
      const content = words[next++];
      if (content !== undefined) {
        const logprobs = { content: [{ token: content, logprob: -0.1, bytes: null, top_logprobs: [] }] };
        return send({ index: 0, delta: { content }, logprobs, finish_reason: null });
      }
      clearInterval(timer);
      send({ index: 0, delta: {}, logprobs: null, finish_reason: "stop" });
      response.end("data: [DONE]\n\n");
    }, wordMs);
    response.on("close", () => {
      clearInterval(timer);
      if (response.writableEnded) return;
      abandoned.push(model);
      leave();
    });
  };
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  assert.ok(address !== null && typeof address === "object");
  return { server, url: `http://127.0.0.1:${address.port}`, abandoned, left };
}

const metrics = {
  q: { metric: "q", decide: "threshold", threshold: 0.3 },
  agreement: { metric: "agreement", similarity: "fcs" },
};

for (const [metric, early_exit] of Object.entries(metrics)) {
  test(`the binary ends a cluster by ${metric}, with its embedding model's similarity`, {
    timeout: HANG_MS,
  }, async () => {
    const folder = await mkdtemp(join(tmpdir(), "canopy-exit-"));
    const engine = await startEngine();
    try {
      const models = Object.fromEntries(
        Object.keys(answers).map((name) => [name, { model: name, engine: "openai", workers: [engine.url] }]),
      );
      const agents = ["fast", "steady", "slow"].map((model) => ({ model }));
      const graph = { layers: [{ clusters: 1, agents }, { agents: [{ model: "root" }] }], early_exit };
      await writeFile(
        join(folder, "canopy.json"),
        JSON.stringify({ models, graphs: { moa: graph }, scorer: { embedder: "onnx", model: modelFolder } }),
      );
      const router = await startBinary(["serve", "canopy.json", "--port", "0"], { cwd: folder });
      try {
        await router.says(/The scorer is ready/);
        const response = await fetch(`${router.url}/v1/chat/completions`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({
            model: "moa",
            messages: [{ role: "user", content: "How many eggs are left?" }],
            canopy: { include: ["trace", "panel", "usage"] },
          }),
        });
        const body = await response.json();
        assert.equal(response.status, 200, JSON.stringify(body));
        assert.equal(body.choices[0].message.content, "Nine.");
        const { canopy } = body;
        const decided = canopy.trace.filter(({ type }: { type: string }) => type === "exit_decided");
        const exit = decided.find(({ data }: { data: { exit: boolean } }) => data.exit)?.data;
        assert.ok(exit !== undefined, JSON.stringify(decided));
        assert.deepEqual([exit.metric, exit.completions, exit.late], [metric, 2, undefined]);
        assert.equal(exit.scorer.embedder, "onnx");
        assert.equal(exit.scorer.details.dimensions, 64);
        const states = canopy.panel.map(({ state }: { state: string }) => state).sort();
        assert.deepEqual(states, ["cancelled", "done", "done"]);
        assert.ok(canopy.usage.wasted_tokens > 0);
        await engine.left;
        assert.deepEqual(engine.abandoned, ["slow"]);
        assert.equal(await router.stop(), 0);
      } finally {
        await router.stop();
      }
    } finally {
      engine.server.closeAllConnections();
      engine.server.close();
      await rm(folder, { recursive: true });
    }
  });
}
