import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import picocolors from "picocolors";
import type { JsonObject } from "../../../base/json.ts";
import type { Transport } from "../../../base/transport.ts";
import { AgentsPrinter } from "../../../cli/chat/agents_printer.ts";
import { chatCommand } from "../../../cli/chat/chat.ts";
import { drawnRunOf } from "../../../cli/chat/live_tree.ts";
import { runCommand } from "../../../cli/kit/dispatch.ts";
import { drawRun } from "../../../cli/kit/run_view/tree_view.ts";
import { type FakeIo, fakeIo } from "../fake_io.ts";

const chunk = (content: string) => `data: ${JSON.stringify({ choices: [{ delta: { content } }] })}\n\n`;

/** A server of two models; `answer` gives the pieces of each answer, and may do something between them. */
function serverOf(
  answer: (body: JsonObject) => Iterable<string>,
): { transport: Transport; asked: JsonObject[] } {
  const asked: JsonObject[] = [];
  const encoder = new TextEncoder();
  const transport: Transport = {
    send: ({ url, body }, signal) => {
      const reply = (pieces: () => Generator<string>, status = 200) => ({
        status,
        headers: { "content-type": "application/json" },
        body: (async function* () {
          for (const piece of pieces()) {
            signal?.throwIfAborted();
            yield await Promise.resolve(encoder.encode(piece));
          }
        })(),
      });
      if (url.endsWith("/v1/models")) {
        return Promise.resolve(reply(function* () {
          yield JSON.stringify({ data: [{ id: "moa" }, { id: "moa-dense" }] });
        }));
      }
      if (!url.endsWith("/chat/completions")) return Promise.resolve(reply(function* () {}, 404));
      const request: JsonObject = JSON.parse(String(body));
      asked.push(request);
      return Promise.resolve(reply(function* () {
        if (request.stream !== true) {
          return yield JSON.stringify({ id: "one", asked: request.messages ?? null });
        }
        for (const text of answer(request)) yield chunk(text);
        yield "data: [DONE]\n\n";
      }));
    },
    close: () => Promise.resolve(),
  };
  return { transport, asked };
}

async function talk(io: FakeIo, ...args: string[]) {
  const code = await runCommand([chatCommand], ["chat", "--url", "http://server", ...args], io);
  return { code, out: io.out.text, err: io.err.text };
}

const env = { NO_COLOR: "1" };

test("in a conversation commands are obeyed, and not sent to the model", async () => {
  const folder = mkdtempSync(join(tmpdir(), "canopy-chat-"));
  try {
    const { transport, asked } = serverOf(() => ["Hel", "lo."]);
    const typed = [
      "/help",
      "/model",
      "/model nope",
      "/model moa-dense",
      "/nothing",
      "/show",
      "/mode moa",
      '"""first line',
      'second line"""',
      "one \\",
      "two",
      "",
      "/save talk.md",
      "/save talk.json",
      "/save talk.md",
      "/save",
      "/exit",
      "never",
    ];
    const io = fakeIo({ transport, typed, terminal: true, env, cwd: folder });
    const { code, out, err } = await talk(io);
    assert.equal(code, 0);
    assert.match(out, /^moa at http:\/\/server; \/help shows commands/);
    assert.match(out, /^ {2}\/save FILE +Write the conversation/m);
    assert.match(out, /^\* moa\n {2}moa-dense$/m);
    assert.match(out, /^moa-dense is asked from now on\.$/m);
    assert.match(out, /^What agents say is printed\.$/m);
    assert.match(err, /^There is no model nope\.$/m);
    assert.match(err, /^There is no \/nothing: \/help shows the commands$/m);
    assert.match(err, /EEXIST/);
    assert.match(err, /^Name a file: \/save FILE$/m);
    const questions = asked.map((
      { messages, model },
    ) => [model, Array.isArray(messages) ? messages.at(-1) : undefined]);
    assert.deepEqual(questions, [
      ["moa", { role: "user", content: "first line\nsecond line" }],
      ["moa", { role: "user", content: "one \ntwo" }],
    ]);
    assert.equal(
      readFileSync(join(folder, "talk.md"), "utf8"),
      "## user\n\nfirst line\nsecond line\n\n## assistant\n\nHello.\n\n## user\n\none \ntwo\n\n## assistant\n\nHello.\n",
    );
    assert.equal(JSON.parse(readFileSync(join(folder, "talk.json"), "utf8")).length, 4);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

test("Ctrl-C stops an answer, whose beginning stays in the conversation; at the prompt it ends that", async () => {
  const held: { io?: FakeIo } = {};
  const { transport, asked } = serverOf(function* () {
    yield "Once ";
    if (asked.length === 1) held.io?.interrupt();
    yield "upon a time";
  });
  const io = held.io = fakeIo({ transport, typed: ["tell", "go on"], terminal: true, env });
  const { code, out, err } = await talk(io);
  assert.equal(code, 0);
  assert.equal(err, "");
  assert.match(out, /Once \n\(stopped\)\nOnce upon a time\n/);
  assert.deepEqual(asked[1]?.messages, [
    { role: "user", content: "tell" },
    { role: "assistant", content: "Once " },
    { role: "user", content: "go on" },
  ]);
  io.interrupt();
  assert.equal(io.stop.aborted, true);
});

test("canopy chat --json prints the server's whole answer", async () => {
  const { transport } = serverOf(() => []);
  const { code, out } = await talk(fakeIo({ transport }), "--json", "--model", "moa", "hello");
  assert.equal(code, 0);
  assert.deepEqual(JSON.parse(out), { id: "one", asked: [{ role: "user", content: "hello" }] });
  assert.equal((await talk(fakeIo({ transport, typed: [] }), "--json")).code, 2);
});

test("a long text of an agent is folded on a terminal, and whole in a file", async () => {
  const panel = [{
    agent: "l1.c1.a1",
    model: "a",
    state: "done",
    text: Array.from({ length: 40 }, (_, i) => `line ${i}`).join("\n"),
  }];
  const printed = (terminal: boolean) => {
    const io = fakeIo({ terminal, env });
    const printer = new AgentsPrinter({
      server: { url: "http://server", apiKey: undefined },
      io,
      run: undefined,
    });
    printer.panel({ panel });
    printer.printPanel();
    return io.out.text;
  };
  assert.match(printed(true), /line 11\n… 28 more lines; canopy chat --show > FILE has all\n\n=====/);
  assert.match(printed(false), /line 39\n\n=====/);
  await Promise.resolve();
});

test("a run's record as it comes over HTTP is drawn as a list of its agents", () => {
  const agent = (id: string, state: string, more: JsonObject = {}) => ({
    id,
    model: "4b",
    state,
    text: "",
    error: null,
    ...more,
  });
  const lines = drawRun(
    drawnRunOf({
      graph: "moa",
      duration_ms: null,
      agents: [
        agent("l1.c1.a1", "done", {
          text: "It is 18.",
          started_at_ms: 0,
          first_token_at_ms: 10,
          ended_at_ms: 510,
        }),
        agent("l1.c1.a2", "failed", { error: "no such model", started_at_ms: 0, ended_at_ms: 5 }),
        agent("l2.c1.a1", "something new"),
      ],
      usage: { agents: [{ agent: "l1.c1.a1", completion_tokens: 51 }] },
    }),
    { columns: 80, colors: picocolors.createColors(false), nowMs: 700, timeScale: 1 },
  );
  assert.deepEqual(lines, [
    "moa 0.70 s · 1/3 done · 0 prefill · 0 decode · 1 wait · 51 tokens",
    "l1.c1.a1  4b  ● done       51 tok   100/s  0.51 s  It is 18.",
    "l1.c1.a2  4b  ✗ failed     no such model",
    "l2.c1.a1  4b  ○ waits",
  ]);
});
