import assert from "node:assert/strict";
import { test } from "node:test";
import { configureSync, type LogRecord, resetSync } from "@logtape/logtape";
import { CanopyError } from "../../../../base/errors.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { brokenWorker } from "../fake_engine.ts";
import { errorOf, makeWorld, readAll, traced } from "../run_harness.ts";

const agent = { model: "a" };
const two = { layers: [{ agents: [agent, agent] }, { agents: [agent] }] };
const single = { layers: [{ agents: [agent] }] };

/** A worker's answer with a status of its own. */
function refusal(status: number): EngineError {
  return new EngineError(`status ${status}`, {
    code: "worker_refused",
    status,
    workerUrl: "http://w1",
    workerStatus: status,
    retryable: false,
    param: "max_tokens",
  });
}

test("an agent whose worker fails before the first token is retried once, on another worker", async () => {
  const world = makeWorld({
    graph: single,
    script: ({ workerId }) =>
      workerId === "w1"
        ? { pieces: ["x"], failAt: { piece: 0, error: brokenWorker("w1") } }
        : { pieces: ["fine"] },
  });
  await world.clock.run(async () => {
    const run = world.start();
    assert.deepEqual(await readAll(run), ["fine"]);
    const { calls } = world.engines.get("a")!;
    assert.deepEqual(calls.map((call) => [call.workerId, call.outcome]), [["w1", "failed"], ["w2", "ok"]]);
    assert.notEqual(calls[0]?.request.id, calls[1]?.request.id);
    assert.ok(calls[1]!.startedAtMs > 0, "there is a pause before the second attempt");
    assert.deepEqual(traced(run, "agent_retried"), ["agent_retried l1.c1.a1"]);
    assert.equal(run.usage().calls, 2);
    assert.equal(run.usage().promptTokens, 10);
  });
  world.assertIdle();
});

test("a second failure ends the run with a 502 that says what happened", async () => {
  const world = makeWorld({
    graph: single,
    workers: ["w1", "w2", "w3"],
    script: ({ workerId }) => ({
      pieces: [],
      failAt: { piece: 0, error: brokenWorker(workerId, `${workerId} broke`) },
    }),
  });
  await world.clock.run(async () => {
    const error = await errorOf(world.start());
    assert.ok(CanopyError.is(error));
    assert.equal(error.status, 502);
    assert.equal(error.message, "agent l1.c1.a1 (model a) failed: w2 broke");
  });
  assert.equal(world.engines.get("a")!.calls.length, 2);
  world.assertIdle();
});

test("the only worker is not asked twice, and its own error is the one that counts", async () => {
  const world = makeWorld({
    graph: single,
    workers: ["w1"],
    script: () => ({ pieces: [], failAt: { piece: 0, error: brokenWorker("w1", "it broke") } }),
  });
  await world.clock.run(async () => assert.match(String(await errorOf(world.start())), /it broke/));
  assert.equal(world.engines.get("a")!.calls.length, 1);
});

test("after the first token nothing is retried: the client would see it twice", async () => {
  const world = makeWorld({
    graph: single,
    script: () => ({ pieces: ["half"], failAt: { piece: 1, error: brokenWorker("w1") } }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    const iterator = run.output[Symbol.asyncIterator]();
    assert.equal((await iterator.next()).done, false);
    await assert.rejects(iterator.next(), { status: 502 });
    await run.ended;
    assert.equal(run.record().state, "failed");
    assert.equal(run.usage().wastedTokens, 1);
  });
  assert.equal(world.engines.get("a")!.calls.length, 1);
});

test("a proposer that breaks off is asked again elsewhere: nobody has had its text", async () => {
  const world = makeWorld({
    graph: two,
    script: ({ prompt, workerId }) => {
      if (prompt.startsWith("Final")) return { pieces: [prompt] };
      return workerId === "w1"
        ? { pieces: ["ha", "lf"], failAt: { piece: 1, error: brokenWorker("w1") } }
        : { pieces: ["who", "le"] };
    },
    capacity: 1,
  });
  await world.clock.run(async () => {
    const run = world.start();
    const [text] = await readAll(run);
    assert.match(text!, /1\. whole\n\n2\. whole$/);
    assert.deepEqual(traced(run, "agent_restarted"), ["agent_restarted l1.c1.a1"]);
    const [first] = run.record().agents;
    assert.deepEqual([first?.restarts, first?.resumes, first?.usage?.calls], [1, 0, 2]);
    const { completionTokens, wastedTokens, promptTokens } = first!.usage!;
    assert.deepEqual([completionTokens, wastedTokens, promptTokens], [3, 1, 10]);
  });
  world.assertIdle();
});

test("a root whose client waits for the whole answer is asked again elsewhere", async () => {
  const world = makeWorld({
    graph: single,
    script: ({ workerId }) =>
      workerId === "w1"
        ? { pieces: ["ha", "lf"], failAt: { piece: 1, error: brokenWorker("w1") } }
        : { pieces: ["who", "le"] },
  });
  await world.clock.run(async () => {
    const run = world.start({ whole: true });
    assert.deepEqual(await readAll(run), ["whole"]);
    assert.deepEqual(traced(run, "agent_restarted"), ["agent_restarted l1.c1.a1"]);
  });
  world.assertIdle();
});

test("every one of many long choices is told whole to a client that waits", async () => {
  const pieces = Array.from({ length: 90 }, (_, index) => `${index} `);
  const world = makeWorld({ graph: single, script: () => ({ pieces }), capacity: 16 });
  await world.clock.run(async () => {
    const run = world.start({ whole: true, choices: 16 });
    assert.deepEqual(await readAll(run), Array(16).fill(pieces.join("")));
  });
  world.assertIdle();
});

test("an answer that somebody follows is not begun anew", async () => {
  const world = makeWorld({
    graph: two,
    script: () => ({ pieces: ["ha", "lf"], stepMs: 10, failAt: { piece: 1, error: brokenWorker("w1") } }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    const follower = run.agentEvents(new AbortController().signal)[Symbol.asyncIterator]();
    assert.equal((await follower.next()).done, false);
    assert.match(String(await errorOf(run)), /connection reset/);
    assert.deepEqual(traced(run, "agent_restarted"), []);
    await follower.return?.();
  });
});

test("restarts are bounded by the model's `retries`", async () => {
  for (const retries of [0, 2]) {
    const world = makeWorld({
      graph: { layers: [{ agents: [agent] }, { agents: [agent] }] },
      workers: ["w1", "w2", "w3", "w4"],
      modelFields: { retries },
      script: ({ workerId }) => ({ pieces: ["x", "y"], failAt: { piece: 1, error: brokenWorker(workerId) } }),
    });
    await world.clock.run(async () => void await errorOf(world.start()));
    assert.equal(world.engines.get("a")!.calls.length, retries + 1);
  }
});

test("an answer that always breaks off at the same place is not begun anew for ever", async () => {
  const world = makeWorld({
    graph: { layers: [{ agents: [agent] }, { agents: [agent] }] },
    workers: ["w1", "w2", "w3", "w4"],
    script: ({ workerId }) => ({
      pieces: Array.from({ length: 30 }, () => "x"),
      failAt: { piece: 20, error: brokenWorker(workerId) },
    }),
  });
  await world.clock.run(async () => void await errorOf(world.start()));
  assert.equal(world.engines.get("a")!.calls.length, 2);
  world.assertIdle();
});

test("workers that cannot be reached are not counted as attempts the first time", async () => {
  const unreachable = (worker: string) =>
    new EngineError(`Worker ${worker} cannot be reached`, {
      code: "worker_unreachable",
      status: 502,
      workerUrl: `http://${worker}`,
      retryable: true,
    });
  for (const wellWorker of ["w4", "none"]) {
    const world = makeWorld({
      graph: single,
      workers: ["w1", "w2", "w3", "w4"],
      script: ({ workerId }) =>
        workerId === wellWorker
          ? { pieces: ["fine"] }
          : { pieces: [], failAt: { piece: 0, error: unreachable(workerId) } },
    });
    await world.clock.run(async () => {
      const run = world.start();
      if (wellWorker === "none") assert.match(String(await errorOf(run)), /w\d cannot be reached/);
      else assert.deepEqual(await readAll(run), ["fine"]);
    });
    // Without any, all of them once, then the one retry.
    assert.equal(world.engines.get("a")!.calls.length, wellWorker === "none" ? 5 : 4);
    world.assertIdle();
  }
});

test("with more retries than workers each is asked again, but not at once", async () => {
  const world = makeWorld({
    graph: single,
    workers: ["w1", "w2"],
    modelFields: { retries: 4 },
    script: ({ workerId }) => ({ pieces: [], failAt: { piece: 0, error: brokenWorker(workerId) } }),
  });
  await world.clock.run(async () => void await errorOf(world.start()));
  const asked = world.engines.get("a")!.calls.map(({ workerId }) => workerId);
  assert.deepEqual(asked, ["w1", "w2", "w1", "w2", "w1"]);
  world.assertIdle();
});

test("a call that is broken off has cost what its engine had counted by then", async () => {
  for (const [tokensPerPiece, expected] of [[3, [12, 6, 4]], [undefined, [0, 2, undefined]]] as const) {
    const world = makeWorld({
      graph: single,
      script: () => ({
        pieces: ["a", "b", "c"],
        stepMs: 10,
        promptTokens: 12,
        ...(tokensPerPiece === undefined ? {} : { tokensPerPiece }),
      }),
    });
    await world.clock.run(async () => {
      const run = world.start();
      await world.clock.sleep(15);
      await run.cancel(new Error("enough"));
      const { promptTokens, completionTokens, cachedTokens, wastedTokens } = run.usage();
      assert.deepEqual([promptTokens, completionTokens, cachedTokens], expected);
      assert.equal(wastedTokens, completionTokens);
    });
  }
});

test("a stream that ends without a finish reason is a failure", async () => {
  const world = makeWorld({ graph: single });
  const engine = world.engines.get("a")!;
  const generate = engine.generate.bind(engine);
  engine.generate = async function* (...call) {
    for await (const event of generate(...call)) if (event.type !== "end") yield event;
  };
  await world.clock.run(async () =>
    assert.match(String(await errorOf(world.start())), /without a finish reason/)
  );
  world.assertIdle();
});

test("a cluster goes on without a failed member, whose slot leaves no gap in the numbering", async () => {
  let call = 0;
  const world = makeWorld({
    graph: { layers: [{ agents: [agent, agent, agent] }, { agents: [agent] }] },
    script: () =>
      ++call === 2
        ? { pieces: [], failAt: { piece: 0, error: refusal(500) } }
        : { pieces: [`answer ${call}`] },
  });
  await world.clock.run(async () => {
    const run = world.start();
    await readAll(run);
    const prompt = run.record().agents.at(-1)?.prompt;
    assert.ok(prompt?.kind === "chat");
    assert.equal(prompt.messages[0]?.content, "Final. Q: why?\nA:\n1. answer 1\n\n2. answer 3");
    assert.equal(run.record().agents[1]?.state, "failed");
    assert.equal(run.record().agents[1]?.error, "status 500");
  });
});

test("a run fails as soon as min_responses is out of reach, and stops the agents that still work", async () => {
  let call = 0;
  const world = makeWorld({
    graph: { ...two, min_responses: 2 },
    abortMs: 20,
    script: () =>
      ++call === 1
        ? { pieces: [], startMs: 50, failAt: { piece: 0, error: refusal(500) } }
        : { pieces: ["x"], stepMs: 30, hangAt: 1 },
  });
  await world.clock.run(async () => {
    const run = world.start();
    const error = await errorOf(run);
    assert.ok(CanopyError.is(error));
    assert.equal(error.status, 502);
    assert.equal(error.code, "agents_failed");
    assert.equal(
      error.message,
      "Cluster l1.c1 needs 2 of 2 answers and can get at most 1: agent l1.c1.a1 (model a): status 500",
    );
    assert.equal(world.clock.now(), 50);
    await run.ended;
    assert.equal(world.clock.now(), 70, "the run has ended when the engine was told");
    assert.deepEqual(run.record().agents.map((record) => record.state), ["failed", "cancelled", "cancelled"]);
    assert.equal(run.usage().wastedTokens, 1);
    assert.equal(run.record().error?.code, "agents_failed");
  });
  world.assertIdle();
});

test("agents of one model that fail for one reason are named together", async () => {
  const world = makeWorld({
    graph: { ...two, min_responses: 1 },
    script: () => ({ pieces: [], failAt: { piece: 0, error: refusal(500) } }),
  });
  await world.clock.run(async () => {
    assert.match(
      String(await errorOf(world.start())),
      /get at most 0: agents l1\.c1\.a1, l1\.c1\.a2 \(model a\): status 500$/,
    );
  });
});

test("a request that the engines refuse is the client's fault: 400, with the field", async () => {
  const world = makeWorld({
    graph: { ...two, min_responses: 1 },
    script: () => ({ pieces: [], failAt: { piece: 0, error: refusal(400) } }),
  });
  await world.clock.run(async () => {
    const error = await errorOf(world.start());
    assert.ok(CanopyError.is(error));
    assert.equal(error.status, 400);
    assert.equal(error.param, "max_tokens");
    assert.match(error.message, /agents l1\.c1\.a1, l1\.c1\.a2 /);
  });
});

test("a cluster that only lacked room is a 503 to be tried again, one whose workers broke is a 502", async () => {
  for (const [statuses, expected] of [[[503, 429], 503], [[503, 500], 502], [[503, 400], 502]] as const) {
    let call = 0;
    const world = makeWorld({
      graph: { ...two, min_responses: 1 },
      script: () => ({ pieces: [], failAt: { piece: 0, error: refusal(statuses[call++ % 2]!) } }),
    });
    await world.clock.run(async () => {
      const error = await errorOf(world.start());
      assert.ok(CanopyError.is(error));
      assert.equal(error.status, expected, String(statuses));
      assert.equal(error.retryAfterSeconds, expected === 503 ? 1 : undefined);
      assert.match(error.message, /l1\.c1\.a1 .*l1\.c1\.a2 /);
    });
    world.assertIdle();
  }
});

test("the status of the root's failure tells whose fault it is", async () => {
  for (
    const [status, expected] of [[400, 400], [422, 400], [401, 502], [404, 502], [429, 429], [500, 502], [
      503,
      503,
    ]]
  ) {
    const world = makeWorld({
      graph: single,
      script: () => ({ pieces: [], failAt: { piece: 0, error: refusal(status!) } }),
    });
    await world.clock.run(async () => {
      const error = await errorOf(world.start());
      assert.ok(CanopyError.is(error));
      assert.equal(error.status, expected, `worker's status ${status}`);
    });
    assert.equal(world.engines.get("a")!.calls[0]?.outcome, status === 500 ? "failed" : "rejected");
  }
});

test("an agent over its deadline is dropped, and its engine is told", async () => {
  let call = 0;
  const world = makeWorld({
    graph: {
      layers: [{ agents: [agent, { ...agent, deadline_ms: 100 }], min_responses: 1 }, { agents: [agent] }],
    },
    script: () => ++call === 2 ? { pieces: ["late", "later"], stepMs: 60 } : { pieces: ["quick"] },
  });
  await world.clock.run(async () => {
    const run = world.start();
    assert.deepEqual(await readAll(run), ["quick"]);
    const cut = run.record().agents[1];
    assert.equal(cut?.state, "failed");
    assert.equal(cut?.error, "Agent l1.c1.a2 took longer than its deadline of 100 ms");
    assert.equal(cut?.endedAtMs, 100);
    assert.equal(run.usage().wastedTokens, 2);
    const prompt = run.record().agents[2]?.prompt;
    assert.ok(prompt?.kind === "chat");
    assert.equal(prompt.messages[0]?.content, "Final. Q: why?\nA:\n1. quick");
  });
  assert.equal(world.engines.get("a")!.calls[1]?.outcome, "aborted");
  world.assertIdle();
});

test("with use_partial the text of an agent over its deadline is used, and the root's is an answer cut short", async () => {
  const world = makeWorld({
    graph: {
      on_deadline: "use_partial",
      layers: [{ agents: [agent], deadline_ms: 100 }, { agents: [agent], deadline_ms: 100 }],
    },
    script: () => ({ pieces: ["one ", "two ", "three"], stepMs: 60 }),
  });
  await world.clock.run(async () => {
    const run = world.start();
    const texts: string[] = [];
    for await (const event of run.output) {
      texts.push(event.type === "end" ? event.finishReason : event.delta.text);
    }
    assert.deepEqual(texts, ["one ", "two ", "length"]);
    const prompt = run.record().agents[1]?.prompt;
    assert.ok(prompt?.kind === "chat");
    assert.equal(prompt.messages[0]?.content, "Final. Q: why?\nA:\n1. one two");
    assert.equal(run.record().state, "done");
    assert.equal(run.usage().wastedTokens, 0);
    assert.equal(run.usage().completionTokens, 4);
  });
  world.assertIdle();
});

test("a run over its deadline ends with a 504", async () => {
  const world = makeWorld({
    graph: { ...two, deadline_ms: 250 },
    script: () => ({ pieces: ["x"], startMs: 200 }),
  });
  await world.clock.run(async () => {
    const error = await errorOf(world.start());
    assert.ok(CanopyError.is(error));
    assert.equal(error.status, 504);
    assert.equal(error.code, "deadline_exceeded");
    assert.equal(world.clock.now(), 250);
  });
  world.assertIdle();
});

test("a conversation that the chat template refuses ends the run with the template's 400", async () => {
  const refuse = () => {
    throw new CanopyError("roles must alternate", {
      code: "invalid_messages",
      status: 400,
      param: "messages",
    });
  };
  const world = makeWorld({
    graph: two,
    capabilities: { tokenIds: true },
    tokenizer: {
      vocabSize: 1,
      encode: () => [],
      decode: () => "",
      hasChatTemplate: true,
      renderChat: refuse,
    },
  });
  await world.clock.run(async () => {
    const run = world.start();
    const error = await errorOf(run);
    assert.ok(CanopyError.is(error));
    assert.equal(error.status, 400);
    assert.equal(error.param, "messages");
    await run.ended;
  });
  assert.equal(world.engines.get("a")!.calls.length, 0);
});

test("a cluster of which no more than half has answered is a failed run, unless min_responses says less", async () => {
  const four = { layers: [{ agents: [agent, agent, agent, agent] }, { agents: [agent] }] };
  for (
    const [graph, failing, fails] of [[four, 1, false], [four, 2, true], [
      { ...four, min_responses: 2 },
      2,
      false,
    ]] as const
  ) {
    let call = 0;
    const world = makeWorld({
      graph,
      script: () =>
        call++ < failing ? { pieces: [], failAt: { piece: 0, error: refusal(401) } } : { pieces: ["x"] },
    });
    await world.clock.run(async () => {
      const run = world.start();
      if (fails) assert.match(String(await errorOf(run)), /needs 3 of 4 answers and can get at most 2/);
      else await readAll(run);
    });
    world.assertIdle();
  }
});

test("a run says in its usage and its record which agents it did without, and why; without any it says nothing", async () => {
  for (const failing of [0, 1]) {
    let call = 0;
    const world = makeWorld({
      graph: { layers: [{ agents: [agent, agent, agent] }, { agents: [agent] }] },
      script: () =>
        call++ < failing ? { pieces: [], failAt: { piece: 0, error: refusal(404) } } : { pieces: ["x"] },
    });
    await world.clock.run(async () => {
      const run = world.start();
      await readAll(run);
      const failed = [{ agent: "l1.c1.a1", model: "a", reason: "status 404" }];
      const degraded = failing === 0 ? undefined : { agents: 3, failed };
      assert.deepEqual(run.usage().degraded, degraded);
      assert.deepEqual(run.record().usage.degraded, degraded);
    });
  }
});

test("a failed agent is a warning in the log, with its reason", async () => {
  const records: LogRecord[] = [];
  configureSync({
    reset: true,
    sinks: { test: (record) => void records.push(record) },
    loggers: [
      { category: "canopy", lowestLevel: "warning", sinks: ["test"] },
      { category: ["logtape", "meta"], lowestLevel: "error", sinks: ["test"] },
    ],
  });
  try {
    let call = 0;
    const world = makeWorld({
      graph: { layers: [{ agents: [agent, agent, agent] }, { agents: [agent] }] },
      script: () =>
        call++ === 1 ? { pieces: [], failAt: { piece: 0, error: refusal(401) } } : { pieces: ["x"] },
    });
    await world.clock.run(async () => void await readAll(world.start()));
  } finally {
    resetSync();
  }
  assert.deepEqual(records.map(({ level, message }) => [level, message.join("")]), [
    ["warning", "Agent l1.c1.a2 (a) of moa failed: status 401"],
  ]);
});

test("a tree whose root nobody can write is refused at once, before its proposers work", () => {
  const world = makeWorld({
    models: ["a", "root"],
    graph: { layers: [{ agents: [agent, agent] }, { agents: [{ model: "root" }] }] },
  });
  Object.assign(world.engines.get("root")!.pool, { ready: false });
  assert.throws(() => world.start(), {
    status: 503,
    code: "no_worker",
    message: /no worker of model root, which writes/,
  });
  assert.equal(world.engines.get("a")!.calls.length, 0);
});
