import assert from "node:assert/strict";
import { test } from "node:test";
import { chatCommand } from "../../../cli/chat/chat.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serveCommand } from "../../../cli/serve/serve.ts";
import { simCommand } from "../../../cli/sim/sim.ts";
import type { FakeIo } from "../fake_io.ts";
import { withSystem } from "../served.ts";

/** Runs a command until it has said `lines` lines, uses what they say, and stops it. */
async function whileRunning(
  args: readonly string[],
  lines: number,
  use: (lines: string[], io: FakeIo) => Promise<void>,
): Promise<number | undefined> {
  return await withSystem(async (io) => {
    let code: number | undefined;
    const running = runCommand([simCommand, serveCommand], args, io).then((ended) => code = ended);
    try {
      while (io.out.text.split("\n").length <= lines) {
        if (code !== undefined) throw new Error(`It ended with ${code}: ${io.err.text}`);
        await io.clock.sleep(5);
      }
      await use(io.out.text.split("\n"), io);
    } finally {
      io.interrupt();
      await running;
    }
    return code;
  });
}

test("canopy sim starts prefill and decode servers that work together behind canopy serve", async () => {
  const pair = ["sim", "--engine", "sglang", "--model", "org/a", "--cost", "instant", "--scripted"];
  const halves = ["--pd-prefill", "1", "--pd-decode", "2"];
  const code = await whileRunning([...pair, ...halves], 3, async (lines) => {
    const [prefill = "", ...decodes] = lines;
    assert.match(prefill, /^Simulated sglang prefill server with org\/a is listening on /);
    const [, url = "", port = ""] = /on (\S+), bootstrap port (\d+)$/.exec(prefill) ?? [];
    const decodeUrls = decodes.slice(0, 2).map((line) => / decode server .* on (\S+)$/.exec(line)?.[1] ?? "");
    const servers = ["--prefill", url, port, ...decodeUrls.flatMap((decode) => ["--decode", decode])];
    await whileRunning(
      [
        "serve",
        "--pd-disaggregation",
        ...servers,
        "--port",
        "0",
        "--prometheus-port",
        "0",
        "--set",
        "server.log_level=fatal",
      ],
      5,
      (said) =>
        withSystem(async (io) => {
          const listening = said.map((line) => /is listening on (http:\S+)/.exec(line)?.[1])
            .find((found) => found !== undefined)?.replace("//0.0.0.0:", "//127.0.0.1:");
          const question = "How many positive divisors does the number 360 have?";
          const chat = ["chat", question, "--url", listening ?? ""];
          assert.equal(await runCommand([chatCommand], chat, io), 0, io.err.text);
          assert.match(io.out.text, /The answer is \d+\.\n$/);
        }),
    );
  });
  assert.equal(code, 0);
});

test("canopy sim starts vLLM pairs, too, and wants both halves", async () => {
  const args = ["sim", "--cost", "instant", "--pd-prefill", "1", "--pd-decode", "1"];
  await whileRunning(args, 2, (lines) => {
    assert.match(lines[0] ?? "", /^Simulated vllm prefill server with sim is listening on \S+$/);
    assert.match(lines[1] ?? "", /^Simulated vllm decode server with sim is listening on \S+$/);
    return Promise.resolve();
  });
  await withSystem(async (io) => {
    assert.equal(await runCommand([simCommand], ["sim", "--pd-prefill", "1"], io), 2);
    assert.match(io.err.text, /--pd-prefill and --pd-decode go together/);
  });
});

test("canopy sim refuses options that would do nothing", async () => {
  for (
    const [args, message] of [
      [
        ["--engine", "sglang", "--bootstrap-port", "8998"],
        /--bootstrap-port needs --pd-prefill and --pd-decode/,
      ],
      [["--dp-size", "2"], /--dp-size needs --engine sglang/],
    ] as const
  ) {
    await withSystem(async (io) => {
      assert.equal(await runCommand([simCommand], ["sim", ...args], io), 2);
      assert.match(io.err.text, message);
    });
  }
});
