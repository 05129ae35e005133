import { createServer, type ServerResponse } from "node:http";

/** A server that answers as OpenAI's does, as many pieces as `max_tokens` says, and only while it is let. */
export interface HeldWorker {
  readonly url: string;
  /** Requests that it is answering, and the most that it was since it began to hold. */
  readonly running: number;
  readonly most: number;
  /** Requests that it was sent, cut ones too. */
  readonly asked: number;
  /** False: health checks fail. */
  healthy: boolean;
  /** Holds answers after their first piece until `release`, and counts the most anew. */
  hold(): void;
  /** Answers what comes from now on; what it holds stays held until `release`. */
  holdNoMore(): void;
  release(): void;
  close(): Promise<void>;
}

/** Starts one on the loopback; at first it holds nothing. */
export async function startHeldWorker(): Promise<HeldWorker> {
  let held = false;
  let waiting: (() => void)[] = [];
  const state = { running: 0, most: 0, asked: 0, healthy: true };
  const free = () => held ? new Promise<void>((resolve) => waiting.push(resolve)) : Promise.resolve();

  async function answer(response: ServerResponse, pieces: number, streams: boolean): Promise<void> {
    state.asked++;
    state.running++;
    state.most = Math.max(state.most, state.running);
    response.once("close", () => state.running--);
    const words = Array.from({ length: pieces }, (_, at) => `${at} `);
    if (!streams) {
      await free();
      const message = { role: "assistant", content: words.join("") };
      response.writeHead(200, { "content-type": "application/json" });
      return void response.end(JSON.stringify(
        {
          id: "x",
          object: "chat.completion",
          model: "m",
          choices: [{ index: 0, message, finish_reason: "stop" }],
        },
      ));
    }
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const [at, content] of words.entries()) {
      const choice = { index: 0, delta: { content }, finish_reason: at === pieces - 1 ? "stop" : null };
      const chunk = { id: "x", object: "chat.completion.chunk", model: "m", choices: [choice] };
      response.write(`data: ${JSON.stringify(chunk)}\n\n`);
      await free();
      await new Promise((resolve) => setImmediate(resolve));
    }
    response.end("data: [DONE]\n\n");
  }

  const server = createServer((request, response) => {
    const path = request.url ?? "";
    let text = "";
    request.on("data", (piece) => text += String(piece));
    request.on("end", () => {
      if (path === "/v1/chat/completions") {
        const { max_tokens: pieces = 3, stream = false } = JSON.parse(text);
        return void answer(response, pieces, stream);
      }
      const status = state.healthy ? 200 : 500;
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify({ object: "list", data: [{ id: "m" }] }));
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const address = server.address();
  const port = typeof address === "object" && address !== null ? address.port : 0;
  return {
    url: `http://127.0.0.1:${port}`,
    get running() {
      return state.running;
    },
    get most() {
      return state.most;
    },
    get asked() {
      return state.asked;
    },
    get healthy() {
      return state.healthy;
    },
    set healthy(healthy) {
      state.healthy = healthy;
    },
    hold: () => {
      held = true;
      state.most = state.running;
    },
    holdNoMore: () => held = false,
    release: () => {
      held = false;
      for (const go of waiting) go();
      waiting = [];
    },
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => resolve());
      }),
  };
}
