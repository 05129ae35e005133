import { SystemClock } from "../../../base/clock.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serveCommand } from "../../../cli/serve/serve.ts";
import { startSimulator } from "../../../simulator/serve.ts";
import type { FakeIo } from "../fake_io.ts";
import { withSystem } from "../served.ts";
import "../../loopback.ts";

/** Options of a simulated server. */
export type Engine = Parameters<typeof startSimulator>[0];

/** Simulated servers while `use` runs; each is told by its options beside the defaults. */
export async function withServers(
  each: readonly Partial<Engine>[],
  use: (urls: string[]) => Promise<void>,
): Promise<void> {
  const clock = new SystemClock();
  const servers = await Promise.all(
    each.map((options) =>
      startSimulator({ engine: "sglang", models: ["org/a"], cost: "instant", seed: "x", clock, ...options })
    ),
  );
  try {
    await use(servers.map(({ url }) => url));
  } finally {
    await Promise.all(servers.map((server) => server.close()));
  }
}

/** A router while `use` runs, on any free ports; gives its exit code and output. */
export async function whileServing(
  args: readonly string[],
  use: (url: string, io: FakeIo) => Promise<void>,
  env: FakeIo["env"] = {},
): Promise<{ code: number; out: string; err: string }> {
  return await withSystem(async (io) => {
    let ended: number | undefined;
    const all = ["serve", ...args, "--port", "0", "--prometheus-port", "0", "--log-level", "critical"];
    const running = runCommand([serveCommand], all, io).then((code) => ended = code);
    try {
      let url: string | undefined;
      while ((url = /listening on (\S+)/.exec(io.out.text)?.[1]) === undefined && ended === undefined) {
        await io.clock.sleep(5);
      }
      if (url !== undefined) await use(url.replace("//0.0.0.0:", "//127.0.0.1:"), io);
    } finally {
      io.interrupt();
      await running;
    }
    return { code: await running, out: io.out.text, err: io.err.text };
  }, { env });
}

/** A short conversation. */
export async function chat(
  url: string,
  model: string,
  headers: Record<string, string> = {},
): Promise<Response> {
  return await fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify({ model, messages: [{ role: "user", content: "Hello" }], max_tokens: 4 }),
  });
}

/** The ids that a router lists. */
export async function models(url: string): Promise<string[]> {
  const { data }: { data: { id: string }[] } = await (await fetch(`${url}/v1/models`)).json();
  return data.map(({ id }) => id);
}
