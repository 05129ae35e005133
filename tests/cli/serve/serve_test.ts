import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { chatCommand } from "../../../cli/chat/chat.ts";
import type { Command } from "../../../cli/kit/command.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serveCommand } from "../../../cli/serve/serve.ts";
import { simCommand } from "../../../cli/sim/sim.ts";
import type { FakeIo } from "../fake_io.ts";
import { withSystem } from "../served.ts";
import { chat, withServers } from "./routers.ts";

/** Runs a command that listens, then `use`, then stops it; gives its exit code and output. */
async function whileListening(
  command: Command,
  args: readonly string[],
  use: (url: string, io: FakeIo) => Promise<void>,
) {
  return await withSystem(async (io) => {
    let code: number | undefined;
    const running = runCommand([command], [command.name, ...args], io).then((ended) => code = ended);
    try {
      let url: string | undefined;
      while (url === undefined) {
        if (code !== undefined) throw new Error(`It ended with ${code}: ${io.err.text}`);
        await io.clock.sleep(5);
        url = /listening on (\S+)/.exec(io.out.text)?.[1];
      }
      await use(url, io);
    } finally {
      io.interrupt();
      await running;
    }
    return { code: await running, out: io.out.text, err: io.err.text };
  });
}

test("canopy serve serves a configuration in front of canopy sim until it is told to stop", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-serve-"));
  try {
    const simArgs = [
      "--engine",
      "sglang",
      "--version",
      "0.5.18",
      "--model",
      "org/a",
      "--cost",
      "instant",
      "--scripted",
    ];
    const sim = await whileListening(simCommand, simArgs, async (engineUrl) => {
      const path = join(folder, "canopy.jsonc");
      const config = {
        server: { api_keys: ["secret"], admin_key: "boss", log_level: "fatal" },
        models: { a: { model: "org/a", engine: "sglang", workers: [engineUrl] } },
        graphs: {
          duo: { layers: [{ agents: [{ model: "a" }, { model: "a" }] }, { agents: [{ model: "a" }] }] },
        },
      };
      writeFileSync(path, JSON.stringify(config));
      const served = await whileListening(
        serveCommand,
        [path, "--port", "0"],
        (url) =>
          withSystem(async (io) => {
            const question = "How many positive divisors does the number 360 have?";
            const code = await runCommand([chatCommand], ["chat", question, "--url", url], io);
            assert.equal(code, 0, io.err.text);
            assert.match(io.out.text, /The answer is \d+\.\n$/);
          }, { env: { CANOPY_API_KEY: "secret" } }),
      );
      assert.equal(served.code, 0);
      // Under Bun a word about the runtime's own limit on requests; otherwise nothing.
      assert.equal(served.err.replace(/^At most \d+ requests to workers run at once, .*\n$/, ""), "");
      assert.match(served.out, /^ {2}duo {2}graph of 3 agents: a$/m);
      assert.match(served.out, /^ {2}a {4}sglang, 1 worker: org\/a$/m);
      assert.match(
        served.out,
        /^ {2}curl http:\/\/127\.0\.0\.1:\d+\/v1\/chat\/completions .*Bearer KEY.*"model":"duo"/m,
      );
      assert.match(served.out, /^Draining: /m);
    });
    assert.equal(sim.code, 0);
    assert.match(sim.out, /^Simulated sglang with org\/a is listening on http:/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("canopy serve refuses a configuration with errors, one line for each", async () => {
  await withSystem(async (io) => {
    const args = ["serve", "moa-9-3-1", "--set", "server.port=x", "--set", "models.4b.engine=vlm"];
    assert.equal(await runCommand([serveCommand], args, io), 1);
    assert.equal(io.out.text, "");
    assert.match(io.err.text, /server\.port is "x": expected a whole number/);
    assert.match(io.err.text, /models\.4b\.engine is "vlm"/);
  });
});

test("canopy serve says so when its port is taken", async () => {
  await whileListening(simCommand, [], (url) =>
    withSystem(async (io) => {
      const port = new URL(url).port;
      assert.equal(
        await runCommand([serveCommand], [
          "serve",
          "moa-9-3-1",
          "--port",
          port,
          "--set",
          "server.log_level=fatal",
        ], io),
        1,
      );
      assert.match(
        io.err.text,
        new RegExp(`^canopy serve: Cannot listen on 127.0.0.1:${port}: the port is taken`, "m"),
      );
    }));
});

test("canopy serve --pd-disaggregation needs no file: the servers name their model", async () => {
  const sim = [
    "--engine",
    "sglang",
    "--version",
    "0.5.23",
    "--model",
    "org/a",
    "--cost",
    "instant",
    "--scripted",
  ];
  await whileListening(simCommand, sim, (prefill) =>
    whileListening(simCommand, sim, async (decode) => {
      const args = ["--pd-disaggregation", "--prefill", prefill, "8998", "--decode", decode, "--port", "0"];
      const more = ["--cache-threshold", "0.5", "--log-level", "critical", "--prometheus-port", "0"];
      const served = await whileListening(serveCommand, [...args, ...more], (url) =>
        withSystem(async (io) => {
          const chat = ["chat", "How many positive divisors does the number 360 have?", "--url", url];
          assert.equal(await runCommand([chatCommand], chat, io), 0, io.err.text);
          assert.match(io.out.text, /The answer is \d+\.\n$/);
        }));
      assert.equal(served.code, 0);
      assert.match(served.err, /^Option --cache-threshold: no such setting/m);
      assert.match(served.out, /^ {2}org\/a {2}sglang-pd, 1 prefill and 1 decode server$/m);
      assert.doesNotMatch(served.err, /--policy/);
    }).then(() => {}));
});

test("canopy serve --pd-disaggregation says which servers are missing or do not answer", async () => {
  await withSystem(async (io) => {
    const run = (...args: string[]) =>
      runCommand([serveCommand], ["serve", "--pd-disaggregation", ...args], io);
    assert.equal(await run("--prefill", "http://127.0.0.1:9"), 2);
    assert.match(io.err.text, /Option --decode is needed/);
    assert.equal(await run("--prefill", "gpu1:30000", "--decode", "http://127.0.0.1:9"), 2);
    assert.match(io.err.text, /URL must begin with http.*"gpu1:30000"/);
    const free = ["--port", "0", "--prometheus-port", "0"];
    const dead = ["--prefill", "http://127.0.0.1:9", "8998", "--decode", "http://127.0.0.1:10", ...free];
    assert.equal(await run(...dead, "--worker-startup-timeout-secs", "0"), 1);
    assert.match(io.err.text, /No server named its model within 0 s: http:\/\/127\.0\.0\.1:9/);
    assert.equal(await run("--help"), 0);
    assert.match(io.out.text, /--prefill URL \[PORT\]/);
  });
});

test("a fleet in a configuration is asked for its models as one on the command line is", async () => {
  await withServers([{}], async ([one = ""]) => {
    const settings = {
      fleet: { workers: [one], model: { policy: "random" } },
      server: { log_level: "fatal" },
    };
    const folder = mkdtempSync(join(tmpdir(), "canopy-fleet-"));
    try {
      const path = join(folder, "canopy.json");
      writeFileSync(path, JSON.stringify(settings));
      const { code, out, err } = await whileListening(serveCommand, [path, "--port", "0"], async (url) => {
        assert.equal((await chat(url, "org/a")).status, 200);
      });
      assert.equal(code, 0, err);
      assert.match(out, /^ {2}org\/a {2}sglang, 1 worker$/m);
      writeFileSync(
        path,
        JSON.stringify({ fleet: { workers: ["http://127.0.0.1:9"], startup_timeout_ms: 1 } }),
      );
      await withSystem(async (io) => {
        assert.equal(await runCommand([serveCommand], ["serve", path, "--port", "0"], io), 1);
        assert.match(io.err.text, /No server named its model within 0\.001 s: http:\/\/127\.0\.0\.1:9/);
      });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});
