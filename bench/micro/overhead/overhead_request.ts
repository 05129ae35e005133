import { SystemClock } from "../../../base/clock.ts";
import { Random } from "../../../base/random.ts";
import type { IncomingResponse, Transport } from "../../../base/transport.ts";
import { cpuMicros, inTurns } from "../measure.ts";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { createRouter, type Router } from "../../../router/router.ts";

/** CPU time per request in µs. */
export interface RequestOverhead {
  /** The request's bytes sent on and the answer's given back: the least that any proxy of this shape does. */
  readonly bare: number;
  readonly regular: number;
  /** Two requests to workers for the client's one. */
  readonly pair: number;
}

/**
 * Measures what a relayed request with a whole answer of 1 kB costs on its way through the HTTP app, beside a bare
 * pass-through in the same process and run. Workers are in memory: only the router's own work is measured, not sockets.
 */
export async function requestOverhead(
  options: { requests: number; atOnce: number; rounds: number },
): Promise<RequestOverhead> {
  const { requests, atOnce, rounds } = options;
  const transport = instantWorkers();
  const perRequest = (serve: (request: Request) => Response | Promise<Response>) => async () => {
    let left = requests;
    const client = async () => {
      while (left-- > 0) {
        const response = await serve(new Request(URL, { method: "POST", headers: HEADERS, body: BODY }));
        if (response.status !== 200) throw new Error(`The router answered ${response.status}`);
        await response.arrayBuffer();
      }
    };
    return await cpuMicros(() => Promise.all(Array.from({ length: atOnce }, client))) / requests;
  };
  const [regular, pair] = await Promise.all([
    routed(transport, "sglang", ["http://worker:1"]),
    routed(transport, "sglang-pd", [
      { prefill: "http://worker:2", decode: "http://worker:3", bootstrap_port: 8998 },
    ]),
  ]);
  try {
    return await inTurns(rounds, {
      bare: perRequest((request) => bare(request, transport)),
      regular: perRequest((request) => regular.app.fetch(request)),
      pair: perRequest((request) => pair.app.fetch(request)),
    });
  } finally {
    await Promise.all([regular.close(), pair.close()]);
  }
}

const URL = "http://localhost/v1/chat/completions";
const BODY = JSON.stringify({
  model: "m",
  messages: [{ role: "user", content: "y".repeat(900) }],
  max_tokens: 100,
  temperature: 0.7,
  stream: false,
});
const HEADERS = {
  "content-type": "application/json",
  "content-length": `${BODY.length}`,
  "user-agent": "client/1",
  accept: "*/*",
};
const ANSWER = new TextEncoder().encode(JSON.stringify({
  id: "chatcmpl-0123456789abcdef",
  object: "chat.completion",
  created: 1_700_000_000,
  model: "m",
  choices: [{
    index: 0,
    message: { role: "assistant", content: "x".repeat(700) },
    logprobs: null,
    finish_reason: "stop",
  }],
  usage: { prompt_tokens: 20, completion_tokens: 100, total_tokens: 120 },
}));

async function* once(): AsyncGenerator<Uint8Array> {
  await Promise.resolve();
  yield ANSWER;
}

function instantWorkers(): Transport {
  return {
    send: ({ method }): Promise<IncomingResponse> =>
      Promise.resolve({
        status: method === "POST" ? 200 : 404,
        headers: { "content-type": "application/json", "content-length": `${ANSWER.length}` },
        body: once(),
      }),
    close: () => Promise.resolve(),
  };
}

async function bare(request: Request, transport: Transport): Promise<Response> {
  const { signal } = new AbortController();
  const body = new Uint8Array(await request.arrayBuffer());
  const headers = { "content-type": "application/json" };
  const answer = await transport.send({ method: "POST", url: URL, headers, body }, signal);
  for await (const chunk of answer.body) return new Response(new Uint8Array(chunk), { headers });
  return new Response(null, { status: 502 });
}

type Workers = readonly (string | { prefill: string; decode: string; bootstrap_port: number })[];

async function routed(transport: Transport, engine: string, workers: Workers): Promise<Router> {
  const router = createRouter({
    config: configSchema.parse({
      server: { max_running: 100_000 },
      models: { m: { model: "m", engine, workers, max_in_flight: 100_000, pair_window: 100_000 } },
    }),
    clock: new SystemClock(),
    random: new Random("bench"),
    transport,
  });
  await router.ready();
  return router;
}
