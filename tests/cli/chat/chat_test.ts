import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SystemClock } from "../../../base/clock.ts";
import type { Transport } from "../../../base/transport.ts";
import { chatCommand } from "../../../cli/chat/chat.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { serverOf } from "../../../cli/kit/server_place.ts";
import { startSimulator } from "../../../simulator/serve.ts";
import { holdPort, takePorts } from "../../ports.ts";
import { type FakeIo, fakeIo } from "../fake_io.ts";
import { withServedDemo, withSystem } from "../served.ts";

const QUESTION = "How many positive divisors does the number 360 have?";

async function chat(io: FakeIo, ...args: string[]) {
  const code = await runCommand([chatCommand], ["chat", ...args], io);
  return { code, out: io.out.text, err: io.err.text };
}

test("canopy chat prints the answer of a running server, and nothing else", async () => {
  await withServedDemo((url) =>
    withSystem(async (io) => {
      const { code, out, err } = await chat(io, QUESTION, "--url", url);
      assert.equal(err, "");
      assert.equal(code, 0);
      assert.match(out, /The answer is 24\.\n$/);
      assert.doesNotMatch(out, /=====/);
    })
  );
});

test("canopy chat --show prints what each agent said, in the order in which they ended, then the answer", async () => {
  await withServedDemo((url) =>
    withSystem(async (io) => {
      const { code, out, err } = await chat(
        io,
        "--prompt",
        QUESTION,
        "--show",
        "--url",
        url,
        "--model",
        "moa-dense",
      );
      assert.equal(err, "");
      assert.equal(code, 0);
      const [agents, answer, ...rest] = out.split("===== FINAL ANSWER =====\n");
      assert.deepEqual(rest, []);
      const headings = [
        ...agents!.matchAll(/^----- (l\d\.c\d\.a\d) \(\d+b\): \d+ tokens, \d+\.\d+ s -----$/gm),
      ];
      assert.equal(new Set(headings.map((heading) => heading[1])).size, 18);
      assert.equal(headings.length, 18);
      const layers = headings.map((heading) => heading[1]!.slice(0, 2));
      assert.deepEqual(layers, layers.toSorted(), "nobody in layer 2 ends before all of layer 1 have");
      assert.ok(agents!.match(/The answer is \d+\./g)!.length >= 18);
      assert.match(answer!, /The answer is 24\.\n$/);
    })
  );
});

test("canopy chat --show says so when a server has no agents to show", async () => {
  const engine = await withSystem((io) =>
    startSimulator({
      engine: "vllm",
      models: ["solo"],
      cost: "instant",
      answers: "scripted",
      seed: "x",
      clock: io.clock,
    })
  );
  try {
    await withSystem(async (io) => {
      const { code, out, err } = await chat(io, QUESTION, "--show", "--url", `${engine.url}/v1/`);
      assert.equal(code, 0, err);
      assert.match(out, /^===== FINAL ANSWER =====\n/);
      assert.match(out, /The answer is \d+\.\n$/);
      assert.equal(err, `The server at ${engine.url} does not tell what its agents said.\n`);
    });
  } finally {
    await engine.close();
  }
});

test("canopy chat serves MoA-vllm's configs.json by itself when it is told to", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-chat-"));
  const engine = await withSystem((io) =>
    startSimulator({
      engine: "vllm",
      models: ["org/a", "org/b"],
      cost: "instant",
      answers: "scripted",
      seed: "x",
      clock: io.clock,
    })
  );
  try {
    const port = Number(new URL(engine.url).port);
    const agent = (model: string, prompt: string) => ({
      model,
      prompt,
      temperature: 0.7,
      top_p: 0.9,
      max_tokens: 512,
    });
    const config = join(folder, "configs.json");
    writeFileSync(
      config,
      JSON.stringify({
        proposer: {
          layer1: { "1": agent("org/a", "Q: [input_prompts]"), "2": agent("org/b", "Q: [input_prompts]") },
        },
        aggregator: { layer1: { "1": agent("org/a", "Merge: [responses] Q: [input_prompts]") } },
      }),
    );
    writeFileSync(join(folder, "model2port.json"), JSON.stringify({ "org/a": port, "org/b": port }));
    await withSystem(async (io) => {
      const { code, out, err } = await chat(io, "--prompt", QUESTION, "--show", "--config", config);
      assert.equal(err, "");
      assert.equal(code, 0);
      assert.match(out, /^----- .+ \(org\/[ab]\): \d+ tokens/m);
      assert.match(out, /^===== FINAL ANSWER =====$/m);
      assert.match(out, /The answer is \d+\.\n$/);
    });
    assert.equal(engine.simulator.stats.requests, 3);
    assert.equal(engine.simulator.running, 0);
  } finally {
    await engine.close();
    rmSync(folder, { recursive: true });
  }
});

test("canopy chat holds a conversation on a terminal, and remembers it", async () => {
  await withServedDemo((url) =>
    withSystem(async (io) => {
      const { code, out } = await chat(io, "--url", url, "--model", "32b");
      assert.equal(code, 0);
      assert.match(out, /^32b at http/);
      assert.equal(out.match(/The answer is 24\./g)?.length, 2);
      const read = [...out.matchAll(/^(\d+) tokens read/gm)].map((match) => Number(match[1]));
      assert.equal(read.length, 2);
      assert.ok(read[1]! > read[0]!, "the second question comes with the first one and its answer");
      assert.equal(io.err.text, "");
    }, { typed: [QUESTION, "Are you sure?", ""], terminal: true, env: { NO_COLOR: "1" } })
  );
});

test("canopy chat asks what was piped in, and takes the server from CANOPY_URL", async () => {
  await withServedDemo((url) =>
    withSystem(async (io) => {
      const { code, out } = await chat(io);
      assert.equal(code, 0);
      assert.match(out, /The answer is 24\.\n$/);
    }, { input: `${QUESTION}\n`, env: { CANOPY_URL: url } })
  );
});

test("canopy chat gives the server's own words when it refuses", async () => {
  await withServedDemo((url) =>
    withSystem(async (io) => {
      const { code, err } = await chat(io, QUESTION, "--url", url, "--model", "nope");
      assert.equal(code, 1);
      assert.match(
        err,
        new RegExp(`^canopy chat: The server at ${url} did not answer: status 404: .*nope.*\n$`),
      );
    })
  );
});

test("canopy chat says in one line that a web page is no answer", async () => {
  const page = new TextEncoder().encode("<!DOCTYPE HTML>\n<html>\n  <h1>Error</h1>\n</html>\n");
  const transport: Transport = {
    send: () =>
      Promise.resolve({
        status: 404,
        headers: {},
        body: (async function* () {
          yield await Promise.resolve(page);
        })(),
      }),
    close: () => Promise.resolve(),
  };
  const { code, err } = await chat(fakeIo({ transport }), "hello", "--url", "http://web");
  assert.equal(code, 1);
  assert.equal(
    err,
    "canopy chat: The server at http://web did not answer: status 404: a web page, so this is no " +
      "OpenAI-compatible server\n",
  );
});

test("an error of a server is one line without control characters", async () => {
  const text = JSON.stringify({ error: { message: "no\n\u001b[2J\u0007such model" } });
  const body = async function* () {
    yield await Promise.resolve(new TextEncoder().encode(text));
  };
  const transport: Transport = {
    send: () => Promise.resolve({ status: 404, headers: {}, body: body() }),
    close: () => Promise.resolve(),
  };
  const { code, err } = await chat(fakeIo({ transport }), "hello", "--url", "http://web");
  assert.equal(code, 1);
  assert.equal(err, "canopy chat: The server at http://web did not answer: status 404: no such model\n");
});

test("canopy chat says what to do when no server answers", async () => {
  const named = await chat(fakeIo(), "hello", "--url", "127.0.0.1:1");
  assert.deepEqual(named, {
    code: 1,
    out: "",
    err: 'canopy chat: Cannot reach a server at http://127.0.0.1:1: start one with "canopy serve", ' +
      "or name another one with --url\n",
  });
  const { code, err } = await chat(fakeIo({ cwd: "/nonexistent" }), "hello");
  assert.equal(code, 1);
  assert.match(
    err,
    /^canopy chat: No server answers at http:\/\/127\.0\.0\.1:8000, and there is no configuration/,
  );
});

test("wrong options of canopy chat are wrong usage", async () => {
  assert.equal((await chat(fakeIo(), "a", "--prompt", "b")).code, 2);
  assert.equal((await chat(fakeIo(), "a", "--url", "x", "--config", "y")).code, 2);
  assert.equal((await chat(fakeIo({ input: " \n" }), "--url", "x")).code, 2);
});

test("canopy chat says which agents failed and why, --show beside their names, too", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-chat-"));
  const simulator = await withSystem((io) =>
    startSimulator({ engine: "vllm", models: ["org/a"], cost: "instant", seed: "x", clock: io.clock })
  );
  try {
    const workers = [simulator.url];
    const config = {
      models: {
        a: { model: "org/a", engine: "vllm", workers },
        lost: { model: "org/lost", engine: "vllm", workers },
      },
      graphs: {
        moa: {
          layers: [{ agents: [{ model: "a" }, { model: "lost" }, { model: "a" }] }, {
            agents: [{ model: "a" }],
          }],
        },
      },
    };
    const file = join(folder, "canopy.json");
    writeFileSync(file, JSON.stringify(config));
    await withSystem(async (io) => {
      const { code, err } = await chat(io, QUESTION, "--config", file, "--max-tokens", "8");
      assert.equal(code, 0, err);
      assert.match(err, /^1 of 3 agents failed:\n {2}l1\.c1\.a2 \(lost\): .*org\/lost.*\n$/);
    });
    await withSystem(async (io) => {
      const { out } = await chat(io, QUESTION, "--config", file, "--max-tokens", "8", "--show");
      assert.match(out, /^----- l1\.c1\.a2 \(lost\): .*, failed: .*org\/lost.* -----$/m);
    });
  } finally {
    await simulator.close();
    rmSync(folder, { recursive: true });
  }
});

/** A server of `org/a` that takes no time. */
function instantSimulator() {
  const clock = new SystemClock();
  return startSimulator({ engine: "vllm", models: ["org/a"], cost: "instant", seed: "x", clock });
}

test("canopy chat --config answers beside a service that has the configuration's port for metrics", async () => {
  const ports = await takePorts();
  const held = await holdPort(ports.base);
  const simulator = await instantSimulator();
  const folder = mkdtempSync(join(tmpdir(), "canopy-chat-"));
  try {
    const file = join(folder, "canopy.json");
    const models = { a: { model: "org/a", engine: "vllm", workers: [simulator.url] } };
    writeFileSync(file, JSON.stringify({ server: { metrics: { port: ports.base } }, models }));
    await withSystem(async (io) => {
      const { code, err } = await chat(io, QUESTION, "--config", file, "--max-tokens", "8");
      assert.equal(code, 0, err);
    });
  } finally {
    held?.close();
    await simulator.close();
    await ports.release();
    rmSync(folder, { recursive: true });
  }
});

test("canopy chat asks the server that the folder's configuration names, whatever else listens at the usual port", async () => {
  await withServedDemo(async (url) => {
    const folder = mkdtempSync(join(tmpdir(), "canopy-chat-"));
    try {
      const port = Number(new URL(url).port);
      const models = { a: { model: "a", engine: "openai", workers: ["http://127.0.0.1:9"] } };
      writeFileSync(join(folder, "canopy.json"), JSON.stringify({ server: { port }, models }));
      await withSystem(async (io) => {
        const { code, out, err } = await chat(io, QUESTION);
        assert.equal(err, "");
        assert.equal(code, 0);
        assert.match(out, /The answer is 24\.\n$/);
      }, { cwd: folder });
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

test("a configuration with a certificate is asked by HTTPS where it is served, and needs none for one question", async () => {
  const simulator = await instantSimulator();
  const folder = mkdtempSync(join(tmpdir(), "canopy-chat-"));
  const fixture = (name: string) => fileURLToPath(new URL(`../../fixtures/tls/${name}`, import.meta.url));
  try {
    const tls = { cert: fixture("localhost.crt"), key: fixture("localhost.key") };
    const models = { a: { model: "org/a", engine: "vllm", workers: [simulator.url] } };
    const file = join(folder, "canopy.json");
    writeFileSync(file, JSON.stringify({ server: { port: 9, tls }, models }));
    assert.equal(serverOf(undefined, fakeIo({ cwd: folder })).url, "https://127.0.0.1:9");
    await withSystem(async (io) => {
      const { code, err } = await chat(io, QUESTION, "--config", file, "--max-tokens", "8");
      assert.equal(code, 0, err);
    });
  } finally {
    await simulator.close();
    rmSync(folder, { recursive: true });
  }
});

/** A server that answers "24." to whoever has this key. */
function guarded(apiKey: string): Transport {
  const answer = (status: number, body: string) => ({
    status,
    headers: {},
    body: (async function* () {
      yield await Promise.resolve(new TextEncoder().encode(body));
    })(),
  });
  return {
    send: ({ url, headers }) => {
      if (headers?.["authorization"] !== `Bearer ${apiKey}`) {
        return Promise.resolve(answer(401, '{"error":{"message":"The API key is wrong"}}'));
      }
      const delta = '{"choices":[{"delta":{"content":"24."}}]}';
      return Promise.resolve(answer(
        200,
        url.endsWith("/v1/models") ? '{"data":[{"id":"moa"}]}' : `data: ${delta}\n\ndata: [DONE]\n\n`,
      ));
    },
    close: () => Promise.resolve(),
  };
}

test("canopy chat asks its folder's server with the configuration's key, and does not serve anew because a key is refused", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-chat-"));
  try {
    const models = { a: { model: "a", engine: "openai", workers: ["http://127.0.0.1:9"] } };
    writeFileSync(join(folder, "canopy.json"), JSON.stringify({ server: { api_keys: ["k"] }, models }));
    const own = await chat(fakeIo({ cwd: folder, transport: guarded("k") }), QUESTION);
    assert.deepEqual(own, { code: 0, out: "24.\n", err: "" });
    const given = fakeIo({ cwd: folder, transport: guarded("other"), env: { CANOPY_API_KEY: "other" } });
    assert.equal((await chat(given, QUESTION)).out, "24.\n");
    const refused =
      "canopy chat: The server at http://127.0.0.1:8000 did not answer: status 401: The API key is " +
      "wrong (set CANOPY_API_KEY)\n";
    for (const cwd of [folder, "/nonexistent"]) {
      const { code, err } = await chat(fakeIo({ cwd, transport: guarded("other") }), QUESTION);
      assert.deepEqual([code, err], [1, refused]);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("canopy chat names the server whose stream is no JSON", async () => {
  const server = createServer((_, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end("data: oops\n\ndata: [DONE]\n\n");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
  try {
    await withSystem(async (io) => {
      const { code, err } = await chat(io, QUESTION, "--model", "m", "--url", url);
      assert.equal(code, 1);
      assert.match(err, new RegExp(`The server at ${url} did not answer: its stream has no JSON: oops`));
    });
  } finally {
    server.close();
  }
});
