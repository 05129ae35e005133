import assert from "node:assert/strict";
import { test } from "node:test";
import { VirtualClock } from "../../../../base/clock.ts";
import type { Engine, GenerateRequest } from "../../../../router/engines/engine.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { chatRequest, collect, never } from "../harness.ts";
import { FakePair, type Fault, pairEngine, PairPlace } from "./vllm_pair.ts";

interface Setup {
  readonly clock: VirtualClock;
  readonly pair: FakePair;
  readonly engine: Engine;
  readonly at: PairPlace;
}

const request: GenerateRequest = {
  id: "r1",
  prompt: { kind: "tokens", ids: [5, 6, 7] },
  sampling: { max_tokens: 4 },
};

/** Runs in virtual time, and checks that nothing is left behind and no rule of the pair was broken. */
function pairTest(what: string, run: (setup: Setup) => Promise<void>): void {
  test(`vLLM pair: ${what}`, async () => {
    const clock = new VirtualClock();
    const pair = new FakePair(clock);
    const { engine, transport } = pairEngine(clock, pair);
    await clock.run(() => run({ clock, pair, engine, at: new PairPlace() }));
    await clock.advance(clock.now());
    assert.equal(transport.inFlight, 0, "exchanges in flight");
    assert.equal(clock.pendingTimers, 0, "timers");
    assert.deepEqual(pair.running, { prefill: 0, decode: 0 });
    assert.deepEqual(pair.breaches, []);
  });
}

pairTest("prefill first, then decode with the same tokens and the same id", async ({ pair, engine, at }) => {
  const found = await collect(engine.generate(request, at, never));
  assert.equal(found.text, "aaaa");
  assert.equal(found.finishReason, "length");
  assert.deepEqual(pair.log, ["prefill /v1/completions", "decode /v1/completions"]);
  assert.deepEqual(pair.sent.map(({ id }) => id), ["r1", "r1"]);
  assert.equal(pair.pinned.size, 0);
  assert.deepEqual(at.released, ["ok prefill"]);
  // As the prefill server counted: the decode server has fetched them all.
  assert.deepEqual(found.usage, { promptTokens: 3, completionTokens: 4, cachedTokens: 1 });
});

pairTest(
  "the prefill half is asked for one token and nothing to show for it",
  async ({ pair, engine, at }) => {
    const sampling = {
      max_tokens: 9,
      temperature: 0.5,
      stop: ["\n"],
      extra: { min_tokens: 3, cache_salt: "s", priority: 2, response_format: { type: "json_object" } },
    };
    await collect(engine.generate({ ...request, sampling, logprobs: 2 }, at, never));
    assert.deepEqual(pair.sent[0]?.body, {
      model: "tiny-qwen3",
      prompt: [5, 6, 7],
      temperature: 0.5,
      cache_salt: "s",
      priority: 2,
      max_tokens: 1,
      ignore_eos: true,
      stream: false,
      kv_transfer_params: {
        do_remote_decode: true,
        do_remote_prefill: false,
        remote_engine_id: null,
        remote_block_ids: null,
        remote_host: null,
        remote_port: null,
      },
    });
    const { kv_transfer_params: _, ...decode } = pair.sent[1]?.body ?? {};
    assert.deepEqual(decode, {
      model: "tiny-qwen3",
      prompt: [5, 6, 7],
      max_tokens: 9,
      temperature: 0.5,
      stop: ["\n"],
      min_tokens: 3,
      cache_salt: "s",
      priority: 2,
      response_format: { type: "json_object" },
      logprobs: 2,
      stream: true,
      stream_options: { include_usage: true },
      return_token_ids: true,
    });
  },
);

pairTest(
  "that the prompt has been read is known when prefill has answered, or cannot, whatever decode does then",
  async ({ clock, pair, engine, at }) => {
    pair.times.tokenMs = 500;
    for (const faults of [[], [{ status: 500 }]]) {
      pair.faults.prefill = faults;
      const startMs = clock.now();
      let readMs = Infinity;
      at.promptRead = () => readMs = clock.now() - startMs;
      await collect(engine.generate(request, at, never));
      assert.ok(readMs < 100, `${readMs} ms`);
    }
  },
);

pairTest("a text is tokenised once, by the prefill server", async ({ pair, engine, at }) => {
  const prompt = { kind: "text", text: "hé" } as const;
  await collect(engine.generate({ ...request, prompt }, at, never));
  assert.deepEqual(pair.log, ["prefill /tokenize", "prefill /v1/completions", "decode /v1/completions"]);
  assert.deepEqual(pair.sent[2]?.body.prompt, FakePair.tokens("hé"));
});

pairTest(
  "a conversation stays one for the decode server, its tokens beside it",
  async ({ pair, engine, at }) => {
    const tools = [{ type: "function", function: { name: "f" } }];
    const sampling = { max_tokens: 4, extra: { tools, tool_choice: "auto" } };
    const found = await collect(engine.generate({ ...chatRequest, sampling }, at, never));
    assert.equal(found.text, "aaaa");
    assert.deepEqual(pair.log, [
      "prefill /tokenize",
      "prefill /v1/completions",
      "decode /v1/chat/completions",
    ]);
    assert.deepEqual(pair.sent[0]?.body, {
      model: "tiny-qwen3",
      messages: [{ role: "user", content: "hi" }],
      tools,
    });
    assert.equal("tools" in (pair.sent[1]?.body ?? {}), false);
    assert.deepEqual(pair.sent[2]?.body.tools, tools);
  },
);

test("vLLM pair: before 0.28 a conversation goes on as its tokens, with tools to the decode server alone", async () => {
  for (const version of ["0.24.0", undefined]) {
    const clock = new VirtualClock();
    const pair = new FakePair(clock);
    const { engine } = pairEngine(clock, pair, { version });
    await clock.run(async () => {
      const plain = await collect(engine.generate(chatRequest, new PairPlace(), never));
      assert.equal(plain.text, "aaaa");
      assert.deepEqual(pair.log.splice(0), [
        "prefill /tokenize",
        "prefill /v1/completions",
        "decode /v1/completions",
      ]);
      const at = new PairPlace();
      const sampling = { extra: { tools: [{ type: "function" }] } };
      await collect(engine.generate({ ...chatRequest, sampling }, at, never));
      assert.deepEqual(pair.log, ["decode /v1/chat/completions"]);
      assert.deepEqual(at.released, ["aborted prefill"]);
    });
    assert.deepEqual(pair.breaches, []);
  }
});

pairTest("what two servers might read differently is decoded alone", async ({ pair, engine }) => {
  const image = { role: "user", content: [{ type: "image_url", image_url: { url: "data:" } }] };
  const requests: GenerateRequest[] = [
    { ...chatRequest, prompt: { kind: "chat", messages: [image] } },
    { ...request, sampling: { extra: { truncate_prompt_tokens: 2 } } },
    { ...request, sampling: { extra: { prompt_logprobs: 0 } } },
    { ...chatRequest, sampling: { extra: { reasoning_effort: "low" } } },
    { ...chatRequest, sampling: { extra: { tools: [{ type: "function" }], tool_choice: "none" } } },
  ];
  for (const one of requests) {
    const at = new PairPlace();
    let decodedAlone: string | undefined;
    for await (const event of engine.generate(one, at, never)) {
      if (event.type === "end") decodedAlone = event.decodedAlone;
    }
    assert.ok(decodedAlone !== undefined, JSON.stringify(one));
    assert.deepEqual(at.released, ["aborted prefill"]);
    assert.deepEqual(pair.sent.splice(0).map(({ side }) => side), ["decode"]);
  }
});

const failures: { what: string; fault: Fault }[] = [
  { what: "answers 500", fault: { status: 500, message: "CUDA error" } },
  { what: "cannot be reached", fault: "refuse" },
  { what: "drops the connection", fault: "reset" },
  { what: "breaks off inside its answer", fault: "reset_in_body" },
];

for (const { what, fault } of failures) {
  pairTest(`the decode server reads the prompt itself when prefill ${what}`, async ({ pair, engine, at }) => {
    pair.faults.prefill = [fault];
    let alone: string | undefined;
    let text = "";
    for await (const event of engine.generate(request, at, never)) {
      if (event.type === "end") alone = event.decodedAlone;
      else text += event.text;
    }
    assert.equal(text, "aaaa");
    assert.match(alone ?? "", /^Worker p1 /);
    assert.deepEqual(at.released, ["failed prefill"]);
    assert.deepEqual(pair.log.filter((line) => line.startsWith("decode")), ["decode /v1/completions"]);
    assert.deepEqual(pair.sent.at(-1)?.body.prompt, [5, 6, 7]);
    assert.equal("kv_transfer_params" in (pair.sent.at(-1)?.body ?? {}), false);
  });

  pairTest(`a text stays a text when the tokeniser ${what}`, async ({ pair, engine, at }) => {
    pair.faults.tokenize = [fault];
    const found = await collect(
      engine.generate({ ...request, prompt: { kind: "text", text: "hi" } }, at, never),
    );
    assert.equal(found.text, "aaaa");
    assert.equal(pair.sent.at(-1)?.body.prompt, "hi");
    assert.deepEqual(at.released, ["failed prefill"]);
  });
}

pairTest(
  "a prefill without parameters, as of old versions, is decoded alone",
  async ({ pair, engine, at }) => {
    pair.givesParams = false;
    assert.equal((await collect(engine.generate(request, at, never))).text, "aaaa");
    assert.deepEqual(at.released, ["aborted prefill"]);
    assert.equal("kv_transfer_params" in (pair.sent.at(-1)?.body ?? {}), false);
  },
);

pairTest(
  "a prefill server that has another model leaves the prompt to decode",
  async ({ pair, engine, at }) => {
    pair.faults.prefill = [{ status: 404, message: "The model `tiny-qwen3` does not exist." }];
    assert.equal((await collect(engine.generate(request, at, never))).text, "aaaa");
    assert.equal("kv_transfer_params" in (pair.sent.at(-1)?.body ?? {}), false);
    assert.deepEqual(pair.log, ["prefill /v1/completions", "decode /v1/completions"]);
    assert.deepEqual(at.released, ["aborted prefill"]);
  },
);

for (const status of [400, 422, 429, 503]) {
  pairTest(`${status} of prefill is the answer, and decode is left alone`, async ({ pair, engine, at }) => {
    pair.faults.prefill = [{ status, message: "temperature is too hot" }];
    await assert.rejects(collect(engine.generate(request, at, never)), (error) => {
      assert.ok(error instanceof EngineError);
      assert.equal(error.status, status);
      assert.equal(error.workerStatus, status);
      assert.equal(error.retryable, status === 429 || status === 503);
      assert.match(error.message, /too hot/);
      return true;
    });
    assert.deepEqual(pair.log, ["prefill /v1/completions"]);
    assert.deepEqual(at.released, []);
  });
}

pairTest("a prefill that hangs uses up the time for a first token", async ({ clock, pair, engine, at }) => {
  pair.faults.prefill = ["hang"];
  await assert.rejects(collect(engine.generate(request, at, never)), {
    code: "worker_timeout",
    retryable: true,
  });
  assert.equal(clock.now(), 600_000);
  assert.deepEqual(at.released, ["failed prefill"]);
  assert.deepEqual(pair.log, ["prefill /v1/completions", "prefill closed"]);
});

pairTest("prefill and decode share the time for a first token", async ({ clock, pair, engine, at }) => {
  pair.times.prefillMs = 500_000;
  pair.faults.decode = ["hang"];
  await assert.rejects(collect(engine.generate(request, at, never)), { code: "worker_timeout" });
  assert.equal(clock.now(), 600_000);
});

pairTest(
  "a decode server that cannot fetch the cache reads the prompt itself",
  async ({ pair, engine, at }) => {
    pair.faults.decode = [{ status: 500, message: "Internal server error" }];
    const found = await collect(engine.generate(request, at, never));
    assert.equal(found.text, "aaaa");
    assert.deepEqual(pair.log, [
      "prefill /v1/completions",
      "decode /v1/completions",
      "decode /v1/completions",
    ]);
    assert.equal("kv_transfer_params" in (pair.sent[1]?.body ?? {}), true);
    assert.equal("kv_transfer_params" in (pair.sent[2]?.body ?? {}), false);
    assert.deepEqual(at.released, ["aborted prefill"]);
  },
);

pairTest("a decode server that fails twice has failed", async ({ pair, engine, at }) => {
  pair.faults.decode = [{ status: 500 }, { status: 500 }];
  await assert.rejects(collect(engine.generate(request, at, never)), {
    code: "worker_failed",
    retryable: true,
  });
  assert.equal(pair.log.length, 3);
});

pairTest(
  "a decode server that is lost before its first token is not asked again",
  async ({ pair, engine, at }) => {
    pair.faults.decode = ["reset"];
    await assert.rejects(collect(engine.generate(request, at, never)), {
      code: "worker_connection_lost",
      retryable: true,
      workerUrl: at.url,
    });
    assert.deepEqual(pair.log, ["prefill /v1/completions", "decode /v1/completions"]);
  },
);

pairTest(
  "a decode server that is lost after its first token ends the request",
  async ({ pair, engine, at }) => {
    pair.breakAfter = 2;
    let tokens = 0;
    await assert.rejects(async () => {
      for await (const event of engine.generate(request, at, never)) if (event.type === "delta") tokens++;
    }, { code: "worker_connection_lost" });
    assert.equal(tokens, 2);
    assert.equal(pair.log.length, 2);
    assert.deepEqual(at.released, ["ok prefill"]);
  },
);

const phases = [
  {
    what: "tokenising",
    prompt: { kind: "text", text: "hi" } as const,
    afterMs: 0.5,
    log: ["prefill /tokenize"],
  },
  {
    what: "prefilling",
    prompt: request.prompt,
    afterMs: 20,
    log: ["prefill /v1/completions", "prefill closed"],
  },
  {
    what: "waiting for decode's head",
    prompt: request.prompt,
    afterMs: 53,
    log: ["prefill /v1/completions", "decode /v1/completions", "decode closed"],
  },
  {
    what: "waiting for the first token",
    prompt: request.prompt,
    afterMs: 60,
    log: ["prefill /v1/completions", "decode /v1/completions", "decode closed"],
  },
  {
    what: "decoding",
    prompt: request.prompt,
    afterMs: 80,
    log: ["prefill /v1/completions", "decode /v1/completions", "decode closed"],
  },
];

for (const { what, prompt, afterMs, log } of phases) {
  pairTest(`an abort while ${what} stops it at once`, async ({ clock, pair, engine, at }) => {
    const controller = new AbortController();
    const reason = new Error("enough");
    const reading = collect(engine.generate({ ...request, prompt }, at, controller.signal));
    reading.catch(() => {});
    await clock.sleep(afterMs);
    controller.abort(reason);
    await assert.rejects(reading, (error) => error === reason);
    assert.deepEqual(pair.running, { prefill: 0, decode: 0 });
    assert.equal(clock.now(), afterMs);
    assert.deepEqual(pair.log, log);
  });

  pairTest(`a reader that leaves while ${what} stops it at once`, async ({ clock, pair, engine, at }) => {
    const events = engine.generate({ ...request, prompt }, at, never)[Symbol.asyncIterator]();
    const read = (async () => {
      while ((await events.next()).done !== true);
    })();
    await clock.sleep(afterMs);
    await events.return?.();
    await read;
    assert.deepEqual(pair.running, { prefill: 0, decode: 0 });
    assert.equal(clock.now(), afterMs);
    assert.deepEqual(pair.log, log);
  });
}

pairTest("an abort that comes first sends nothing", async ({ pair, engine, at }) => {
  const events = engine.generate(request, at, AbortSignal.abort(new Error("before")));
  await assert.rejects(collect(events), /before/);
  const unread = engine.generate(request, at, never)[Symbol.asyncIterator]();
  await unread.return?.();
  assert.deepEqual(pair.log, []);
});

pairTest("a placement without a prefill half is decoded alone", async ({ pair, engine, at }) => {
  const { workerId, url } = at;
  const found = await collect(
    engine.generate(request, {
      workerId,
      url,
      release: () => {},
      promptRead: () => assert.fail("not read by a prefill half"),
    }, never),
  );
  assert.equal(found.text, "aaaa");
  assert.deepEqual(pair.log, ["decode /v1/completions"]);
});

pairTest(
  "a prefill server that cannot tokenise is left alone, and not blamed",
  async ({ pair, engine, at }) => {
    pair.faults.tokenize = [{ status: 404 }];
    const prompt = { kind: "text", text: "hi" } as const;
    assert.equal((await collect(engine.generate({ ...request, prompt }, at, never))).text, "aaaa");
    assert.deepEqual(pair.log, ["prefill /tokenize", "decode /v1/completions"]);
    assert.deepEqual(at.released, ["aborted prefill"]);
  },
);

pairTest("client-made parameters are not passed on", async ({ pair, engine, at }) => {
  const sampling = {
    extra: { kv_transfer_params: { do_remote_prefill: true, remote_request_id: "stolen" } },
  };
  await collect(engine.generate({ ...request, sampling }, at, never));
  assert.equal(pair.sent.some(({ raw }) => raw.includes("stolen")), false);
});
