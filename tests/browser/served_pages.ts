import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { SystemClock } from "../../base/clock.ts";
import { isJsonObject } from "../../base/json.ts";
import { loadCheckedConfig, type LoadedConfig } from "../../cfgs/load/load.ts";
import { systemTransport } from "../../router/transport/system.ts";
import { startRouter } from "../../cli/kit/router/local_router.ts";
import { fakeIo } from "../cli/fake_io.ts";

/** Serves a configuration on a port of its own for as long as `use` takes. */
export async function withRouter(
  { config, provenance }: Pick<LoadedConfig, "config" | "provenance">,
  use: (url: string) => Promise<void>,
): Promise<void> {
  const network = systemTransport();
  try {
    const io = fakeIo({ clock: new SystemClock(), transport: network });
    const { router, url } = await startRouter(config, io, { host: "127.0.0.1", port: 0 });
    try {
      router.origins.read(provenance);
      await router.ready();
      await use(url);
    } finally {
      await router.close();
    }
  } finally {
    await network.close();
  }
}

/** Serves the tree of the small models that come with Canopy. */
export async function withLaboratory(
  server: Readonly<Record<string, unknown>>,
  use: (url: string) => Promise<void>,
): Promise<void> {
  const overrides = Object.entries({ log_level: "fatal", ...server }).map(([name, value]) => ({
    path: `server.${name}`,
    value,
    origin: `--set server.${name}`,
  }));
  await withRouter(loadCheckedConfig({ path: "laboratory", env: {}, overrides }), use);
}

/** Serves a tree of three agents, all of which say this, and one that fails with it. */
export async function withSpeaker(text: string, use: (url: string) => Promise<void>): Promise<void> {
  const engine = createServer(async (request, response) => {
    if (request.method === "GET") {
      response.setHeader("content-type", "application/json");
      response.end(JSON.stringify({ object: "list", data: [{ id: "speaker", object: "model" }] }));
      return;
    }
    let sent = "";
    for await (const piece of request) sent += piece;
    const body: unknown = JSON.parse(sent);
    if (isJsonObject(body) && body["seed"] === 3) {
      response.writeHead(400, { "content-type": "application/json" });
      response.end(JSON.stringify({ error: { message: text, type: "invalid_request_error" } }));
      return;
    }
    response.setHeader("content-type", "text/event-stream");
    const chunk = (delta: object, reason: string | null) =>
      `data: ${
        JSON.stringify({
          id: "c",
          object: "chat.completion.chunk",
          model: "speaker",
          choices: [{ index: 0, delta, finish_reason: reason }],
        })
      }\n\n`;
    response.end(chunk({ role: "assistant", content: text }, null) + chunk({}, "stop") + "data: [DONE]\n\n");
  });
  const { promise, resolve } = Promise.withResolvers<void>();
  engine.listen(0, "127.0.0.1", resolve);
  await promise;
  const { port } = engine.address() as AddressInfo;
  const agent = (seed: number) => ({ model: "speaker", sampling: { seed } });
  try {
    const value = {
      server: { log_level: "fatal" },
      models: { speaker: { model: "speaker", engine: "openai", workers: [`http://127.0.0.1:${port}`] } },
      graphs: {
        "<b>tree</b>": {
          layers: [{ agents: [agent(1), agent(2), agent(3)] }, { agents: [agent(4)] }],
          min_responses: 1,
        },
      },
    };
    await withRouter(loadCheckedConfig({ path: "speaker", env: {}, value }), use);
  } finally {
    engine.closeAllConnections();
    engine.close();
  }
}
