import assert from "node:assert/strict";
import { test } from "node:test";
import { SystemClock, VirtualClock } from "../../../base/clock.ts";
import { CanopyError } from "../../../base/errors.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import { Random } from "../../../base/random.ts";
import { loadOnnxRuntime } from "../../../ml/onnx/runtime.ts";
import { MemoryTransport } from "../../../router/transport/memory.ts";
import { HttpEmbedder, type HttpEmbedderOptions } from "../../../scorer/embedders/http_embedder.ts";
import { SimilarityGraphs } from "../../../scorer/onnx/similarity_graphs.ts";
import { RowCorrelation } from "../../../scorer/similarity/row_correlation.ts";
import { cosine, frobeniusCosine, unbiasedCosine } from "../../../scorer/similarity/similarity.ts";
import { InlineScorer } from "../../../scorer/thread/inline_scorer.ts";

const WIDTH = 8;

/** What the fake model makes of a text: a row for each word, and one for the end. */
function rowsOf(text: string): Float32Array {
  const words = [...text.split(/\s+/).filter((word) => word !== ""), "<end>"];
  return Float32Array.from(words.flatMap((word, index) => {
    const random = new Random(`${index} ${word}`);
    return Array.from({ length: WIDTH }, () => Math.fround(random.normal()));
  }));
}

function base64(values: Float32Array): string {
  return btoa(String.fromCharCode(...new Uint8Array(values.buffer, values.byteOffset, values.byteLength)));
}

interface Seen {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonObject;
}

type Answer = { status?: number; body: unknown; ms?: number };

interface World {
  readonly clock: VirtualClock;
  readonly seen: Seen[];
  open(more?: Partial<HttpEmbedderOptions>): Promise<HttpEmbedder>;
}

/** A server that answers as `answerOf` says, in virtual time. */
function withServer(answerOf: (seen: Seen) => Answer, main: (world: World) => Promise<void>): Promise<void> {
  const clock = new VirtualClock();
  const seen: Seen[] = [];
  const transport = new MemoryTransport((request) => async (_, signal) => {
    const body: unknown = JSON.parse(String(request.body));
    assert.ok(isJsonObject(body));
    const one = { path: new URL(request.url).pathname, headers: request.headers, body };
    seen.push(one);
    const answer = answerOf(one);
    await clock.sleep(answer.ms ?? 1, signal);
    const text = typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body);
    const bytes = async function* () {
      yield new TextEncoder().encode(text);
    };
    return { status: answer.status ?? 200, headers: {}, body: bytes() };
  });
  const options: HttpEmbedderOptions = {
    clock,
    transport,
    url: "http://gpu1:8000",
    model: "Qwen/Qwen3-Embedding-0.6B",
    span: "all",
    maxTokens: 16,
    signal: new AbortController().signal,
  };
  return clock.run(() => main({ clock, seen, open: (more) => HttpEmbedder.open({ ...options, ...more }) }));
}

/** vLLM with `--runner pooling --pooler-config.task token_embed`. */
const pooling = ({ path, body }: Seen): Answer => {
  if (path !== "/pooling") return { status: 404, body: { detail: "Not Found" } };
  const rows = rowsOf(String(body["input"]));
  return {
    body: {
      id: "pool-1",
      object: "list",
      created: 1,
      model: body["model"],
      data: [{ index: 0, object: "pooling", data: base64(rows) }],
      usage: { prompt_tokens: rows.length / WIDTH, total_tokens: rows.length / WIDTH },
    },
  };
};

/** An OpenAI-compatible server, such as SGLang with `--is-embedding`. */
const embeddings = ({ path, body }: Seen): Answer => {
  if (path !== "/v1/embeddings") return { status: 404, body: { object: "error", message: "Not Found" } };
  const embedding = [...rowsOf(String(body["input"])).subarray(-WIDTH)];
  return {
    body: {
      object: "list",
      data: [{ object: "embedding", index: 0, embedding }],
      model: body["model"],
      usage: { prompt_tokens: 3, total_tokens: 3 },
    },
  };
};

async function embed(embedder: HttpEmbedder, ...pieces: string[]) {
  const embedding = embedder.open();
  for (const piece of pieces) await embedding.append(piece);
  const features = await embedding.finish();
  assert.ok(features !== undefined);
  return features;
}

test("token features come from the pooling endpoint, raw and in base64, and are compared as the formula says", () =>
  withServer(pooling, async ({ open, seen }) => {
    const embedder = await open({ apiKey: "secret", span: "tail" });
    assert.deepEqual(embedder.facts, {
      embedder: "http",
      model: "Qwen/Qwen3-Embedding-0.6B",
      details: { url: "http://gpu1:8000", endpoint: "/pooling", token_features: true, dimensions: WIDTH },
    });
    const [a, b] = [await embed(embedder, "one ", "two three"), await embed(embedder, "one two four five")];
    assert.deepEqual(seen[1], {
      path: "/pooling",
      headers: { "content-type": "application/json", authorization: "Bearer secret" },
      body: {
        model: "Qwen/Qwen3-Embedding-0.6B",
        input: "one two three",
        task: "token_embed",
        use_activation: false,
        encoding_format: "base64",
        embed_dtype: "float32",
        endianness: "little",
        truncate_prompt_tokens: 16,
        truncation_side: "left",
      },
    });
    const [s, t] = ["one two three", "one two four five"].map(rowsOf);
    const [u, v] = [new RowCorrelation(s!, WIDTH), new RowCorrelation(t!, WIDTH)];
    assert.deepEqual([a.tokens, b.tokens, a.dimensions], [4, 5, WIDTH]);
    assert.equal(await a.compare(b, "fcs"), frobeniusCosine(u, v, u.product(v)));
    assert.equal(await a.compare(b, "fcs_u"), unbiasedCosine(u, v, u.product(v)));
    assert.equal(await a.compare(b, "cosine"), cosine(s!.subarray(-WIDTH), t!.subarray(-WIDTH)));
  }));

test("with ONNX Runtime at hand token features are compared by it, to the same numbers", async () => {
  const graphs = await SimilarityGraphs.open(await loadOnnxRuntime(), 1);
  const transport = new MemoryTransport((request) => () => {
    const body: unknown = JSON.parse(String(request.body));
    assert.ok(isJsonObject(body));
    const answer = JSON.stringify(pooling({ path: "/pooling", headers: {}, body }).body);
    const bytes = async function* () {
      yield new TextEncoder().encode(answer);
    };
    return Promise.resolve({ status: 200, headers: {}, body: bytes() });
  });
  const embedder = await HttpEmbedder.open({
    clock: new SystemClock(),
    transport,
    url: "http://gpu1:8000",
    model: "m",
    span: "all",
    maxTokens: 16,
    graphs,
    signal: new AbortController().signal,
  });
  const texts = ["one two three", "one two four five"] as const;
  const [a, b] = [await embed(embedder, texts[0]), await embed(embedder, texts[1])];
  const [s, t] = [new RowCorrelation(rowsOf(texts[0]), WIDTH), new RowCorrelation(rowsOf(texts[1]), WIDTH)];
  const found = await a.compare(b, "fcs");
  assert.ok(Math.abs(found! - frobeniusCosine(s, t, s.product(t))) < 1e-6, `${found}`);
  await graphs.close();
});

test("pooled vectors of an OpenAI-compatible endpoint give the cosine only, and the reason is told", () =>
  withServer(embeddings, async ({ open, seen, clock }) => {
    const embedder = await open({ url: "http://gpu1:8000/v1/" });
    assert.deepEqual(seen.map(({ path }) => path), ["/pooling", "/v1/embeddings"]);
    assert.deepEqual(seen[1]!.body, {
      model: "Qwen/Qwen3-Embedding-0.6B",
      input: "Hello",
      encoding_format: "float",
    });
    const scorer = new InlineScorer(embedder, { clock, maxQueued: 8 });
    for (const [id, text] of [["a", "one two"], ["b", "one three"]] as const) {
      const feed = scorer.open(id);
      feed.append(text);
      feed.end();
    }
    const expected = cosine(rowsOf("one two").subarray(-WIDTH), rowsOf("one three").subarray(-WIDTH));
    const found = await scorer.similarity("a", "b", "cosine", 300);
    assert.deepEqual(found.tokens, [3, 3]);
    assert.ok(Math.abs(found.value! - expected) < 1e-9);
    const { value, reason } = await scorer.similarity("a", "b", "fcs_u", 300);
    assert.equal(value, undefined);
    assert.match(
      reason!,
      /fcs_u needs the features of tokens, and the endpoint gives pooled vectors: use cosine/,
    );
    await scorer.close();
  }));

test("pooled vectors go through the calibration", () =>
  withServer(embeddings, async ({ open }) => {
    const embedder = await open({ transform: (vector) => vector.map((_, index) => index === 0 ? 1 : 0) });
    const [a, b] = [await embed(embedder, "one"), await embed(embedder, "two")];
    assert.equal(await a.compare(b, "cosine"), 1);
  }));

test("long texts are cut before they are sent, at the end that is embedded, and never within a character", () =>
  withServer(pooling, async ({ open, seen }) => {
    const text = "\u{1f600}".repeat(200);
    await embed(await open(), "x", text, text);
    await embed(await open({ span: "tail" }), text, text, "x");
    const [first, tail] = [seen[1], seen[3]].map((one) => String(one!.body["input"]));
    assert.equal(first, "x" + "\u{1f600}".repeat(63));
    assert.equal(tail, "\u{1f600}".repeat(63) + "x");
  }));

test("an answer without text is not sent, and compared with nothing", () =>
  withServer(pooling, async ({ open, seen }) => {
    const embedder = await open();
    const features = await embed(embedder, " \n");
    assert.equal(features.tokens, 0);
    assert.equal(await features.compare(features, "fcs"), undefined);
    assert.equal(seen.length, 1);
  }));

test("an empty answer beside another one is told as having nothing to compare", () =>
  withServer(pooling, async ({ open, clock }) => {
    const scorer = new InlineScorer(await open(), { clock, maxQueued: 8 });
    for (const id of ["", "one two"]) {
      const feed = scorer.open(id);
      feed.append(id);
      feed.end();
    }
    const { value, reason } = await scorer.similarity("one two", "", "fcs", 300);
    assert.deepEqual([value, reason], [undefined, "one of the answers has nothing to compare"]);
    await scorer.close();
  }));

test("a text that the endpoint cut, its end token with it, is sent again as its first tokens and the end token", () =>
  withServer(
    (one) => {
      if (one.path === "/tokenize") return { body: { count: 6, tokens: [5, 6, 7, 8, 9, 99] } };
      const { input, truncate_prompt_tokens: most } = one.body;
      const words = Array.isArray(input)
        ? input.map(String)
        : String(input).split(" ").slice(0, Number(most));
      const rows = rowsOf(words.join(" ")).subarray(0, words.length * WIDTH);
      return {
        body: { data: [{ data: base64(Float32Array.from(rows)) }], usage: { prompt_tokens: words.length } },
      };
    },
    async ({ open, seen }) => {
      const embedder = await open({ maxTokens: 4, graphs: undefined });
      const features = await embed(embedder, "one two three four five");
      assert.deepEqual(seen.map(({ path }) => path), ["/pooling", "/pooling", "/tokenize", "/pooling"]);
      assert.deepEqual(seen[2]!.body, {
        model: "Qwen/Qwen3-Embedding-0.6B",
        prompt: "one two three four five",
        add_special_tokens: true,
      });
      assert.deepEqual(seen[3]!.body["input"], [5, 6, 7, 99]);
      assert.equal(features.tokens, 4);
      await embed(await open({ maxTokens: 4, span: "tail" }), "one two three four five");
      assert.equal(seen.length, 6, "cut at its beginning it still has its end");
    },
  ));

test("an endpoint that embeds nothing is refused in one sentence that says what to start", () =>
  withServer(
    ({ path }) =>
      path === "/pooling"
        ? { status: 404, body: { detail: "Not Found" } }
        : { status: 400, body: { error: { message: "The model does not support Embeddings API" } } },
    async ({ open }) => {
      await assert.rejects(open(), (error) => {
        assert.ok(CanopyError.is(error));
        assert.equal(error.code, "embeddings_unavailable");
        assert.match(
          error.message,
          /\/pooling: it answered 404: Not Found; \/v1\/embeddings: it answered 400: The model/,
        );
        assert.match(error.message, /--runner pooling/);
        return true;
      });
    },
  ));

const broken: readonly (readonly [string, Answer, RegExp])[] = [
  ["500", { status: 500, body: "oops" }, /it answered 500$/],
  ["no JSON", { body: "<html>" }, /its answer is not JSON/],
  ["no data", { body: { data: [] } }, /it has no data/],
  ["no numbers", { body: { data: [{ data: null }] } }, /it has no numbers/],
  ["no base64", { body: { data: [{ data: "!" }], usage: { prompt_tokens: 1 } } }, /./],
  ["half a number", { body: { data: [{ data: btoa("abc") }] } }, /it has 3 bytes/],
  ["no tokens", { body: { data: [{ data: btoa("abcdefgh") }] } }, /it gave 2 numbers for 0 tokens/],
  [
    "odd rows",
    { body: { data: [{ data: btoa("abcdefgh") }], usage: { prompt_tokens: 3 } } },
    /2 numbers for 3 tokens/,
  ],
  ["ragged rows", { body: { data: [{ data: [[1, 2], [1]] }] } }, /its rows are not of one width/],
  ["words", { body: { data: [{ data: [[1, "x"]] }] } }, /it has "x" among its numbers/],
  ["NaN", {
    body: { data: [{ data: base64(Float32Array.of(1, NaN)) }], usage: { prompt_tokens: 1 } },
  }, /not finite/],
  ["silence", { body: "", ms: 60_000 }, /it did not answer within 30 s/],
];

test("whatever the endpoint answers, the comparison is unknown and says why, and the next one works", () =>
  withServer(
    (seen) => broken.find(([name]) => seen.body["input"] === name)?.[1] ?? pooling(seen),
    async ({ open, clock }) => {
      const scorer = new InlineScorer(await open(), { clock, maxQueued: 64 });
      const answer = (id: string) => {
        const feed = scorer.open(id);
        feed.append(id);
        feed.end();
      };
      answer("good");
      for (const [name, , expected] of broken) {
        answer(name);
        const { value, reason } = await scorer.similarity("good", name, "fcs", 40_000);
        assert.equal(value, undefined, name);
        assert.match(reason!, expected);
      }
      answer("better");
      assert.notEqual((await scorer.similarity("good", "better", "fcs", 300)).value, undefined);
      await scorer.close();
    },
  ));

test("a list of rows is understood as well, and closing an answer ends its request", () =>
  withServer(
    (seen) => {
      const rows = [[1, 2], [3, 4], [5, 6]];
      return { body: { data: [{ data: rows }], usage: {} }, ms: seen.body["input"] === "slow" ? 20_000 : 1 };
    },
    async ({ open, clock }) => {
      const embedder = await open();
      assert.equal((await embed(embedder, "text")).tokens, 3);
      const slow = embedder.open();
      await slow.append("slow");
      const finished = slow.finish();
      slow.close();
      await assert.rejects(finished, /not compared any more/);
      const other = embedder.open();
      await other.append("slow");
      const ended = other.finish();
      await embedder.close();
      await assert.rejects(ended, /The scorer is closed/);
      assert.ok(clock.now() < 100);
    },
  ));
