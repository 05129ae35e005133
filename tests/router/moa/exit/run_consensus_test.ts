import assert from "node:assert/strict";
import { test } from "node:test";
import { often } from "../../../properties.ts";
import type { JsonObject } from "../../../../base/json.ts";
import { Random } from "../../../../base/random.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import type { Script } from "../fake_engine.ts";
import { errorOf } from "../run_harness.ts";
import { consensusWorld, decisionsOf, played, question, solution } from "./consensus_world.ts";

test("a run ends as soon as enough agents have announced the same answer, and everything else is ended", async () => {
  const world = consensusWorld({
    leaf: (place) => ({ pieces: solution(place === 1 ? "7" : "42"), stepMs: 10 * (place + 1) }),
  });
  const { text, record, usage, answeredMs } = await played(world);
  // Leaves 0, 2 and 3 agree; of the slowest of them six pieces are there, and the one that ends its sentence.
  assert.equal(answeredMs, 40 * 6);
  // The largest model's: of equals the first one, which is done.
  assert.match(text ?? "", /The answer is 42\. I hope that helps\.$/);
  assert.equal(record.state, "done");
  assert.ok(record.rootSkipped);
  const states = record.agents.map(({ state }) => state);
  assert.deepEqual(states.slice(4), Array(5).fill("cancelled"));
  assert.equal(usage.calls, 6);
  assert.ok((usage.savedTokens ?? 0) > 0);
  const [last] = decisionsOf(record).slice(-1);
  assert.equal(last?.["exit"], true);
  assert.equal(decisionsOf(record).length, 4);
  assert.deepEqual(record.exits.map(({ cluster, exit }) => [cluster, exit]).at(-1), ["run", true]);
});

test("without agreement the run goes on to its root, and aggregators vote, too", async () => {
  const world = consensusWorld({
    leaf: (place) => ({ pieces: solution(String(place)), stepMs: 5 }),
    later: { pieces: ["The answer is 3.\n", "."], stepMs: 5 },
  });
  const { record, text } = await played(world);
  // Leaf 3 and both aggregators: the root is not asked.
  assert.ok(record.rootSkipped);
  assert.match(text ?? "", /answer is 3/);
  const strict = consensusWorld({
    consensus: { agree: 6 },
    leaf: (place) => ({ pieces: solution(String(place)), stepMs: 5 }),
    later: { pieces: ["The answer is 3.\n", "."], stepMs: 5 },
  });
  const whole = await played(strict);
  assert.equal(whole.record.rootSkipped, false);
  assert.equal(whole.usage.calls, 9);
});

test("an undecided run answers with what leads as soon as the last that read nobody has spoken, or will not", async () => {
  const answers = ["1", "2", "42", "3", "42", "4"];
  const leaf = (place: number): Script => ({ pieces: solution(answers[place]!), stepMs: 5 * (place + 1) });
  const undecided = { agree: 4, undecided: "leader" };
  const later: Script = { pieces: solution("9"), startMs: 10_000 };
  const { text, record } = await played(consensusWorld({ consensus: undecided, leaf, later }));
  assert.match(text ?? "", /answer is 42\./);
  assert.ok(record.agents.every(({ id, state }) => id.startsWith("l1") || state !== "done"));
  const last = decisionsOf(record).at(-1);
  assert.deepEqual([last?.["exit"], last?.["undecided"], last?.["open"]], [true, true, []]);
  assert.deepEqual(record.exits.at(-1)?.metric, "undecided");
  for (
    const [what, silent] of Object.entries<Script>({
      "says nothing": { pieces: ["I do not ", "know."], stepMs: 100 },
      "fails": { pieces: ["I ", "do"], stepMs: 1_000, failAt: { piece: 1, error: new Error("broken") } },
    })
  ) {
    const world = consensusWorld({
      consensus: undecided,
      leaf: (place) => place === 5 ? silent : leaf(place),
      later,
      fields: { retries: 0 },
    });
    const waited = await played(world);
    assert.match(waited.text ?? "", /answer is 42\./, what);
    assert.equal(decisionsOf(waited.record).length, 6, what);
  }
  const whole = await played(consensusWorld({ consensus: { agree: 4 }, leaf }));
  assert.equal(whole.record.rootSkipped, false);
  assert.ok(decisionsOf(whole.record).every((data) => data["open"] === undefined));
});

test("an undecided run goes on where no two agree, and where an agent is never skipped", async () => {
  const leaf = (place: number): Script => ({ pieces: solution(String(place)), stepMs: 5 });
  const consensus = { agree: 4, undecided: "leader" };
  const apart = await played(consensusWorld({ consensus, leaf }));
  assert.equal(apart.record.rootSkipped, false);
  const pair = (place: number): Script => ({ pieces: solution(place < 2 ? "42" : String(place)), stepMs: 5 });
  const awaited = await played(
    consensusWorld({ consensus, leaf: pair, more: { never_skip: ["l2.c1.a1"] } }),
  );
  assert.equal(awaited.record.agents.find(({ id }) => id === "l2.c1.a1")?.state, "done");
});

test("an answer that is taken back before its text ends counts no more", async () => {
  const wavering: Script = {
    pieces: ["The answer is 42.\n", "Wait, ", "no: the answer is 7.\n", "."],
    stepMs: 5,
  };
  const world = consensusWorld({
    leaf: (place) =>
      place === 0 ? wavering : { pieces: solution(place < 3 ? "42" : String(place)), startMs: 100 },
  });
  const { record } = await played(world);
  const largest = decisionsOf(record).map(({ groups }) =>
    Math.max(...(groups as string[][]).map((one) => one.length))
  );
  assert.equal(Math.max(...largest), 2);
  assert.equal(record.rootSkipped, false);
});

test("a request that only a root can answer, and a creative one, are not ended early, and the trace says why", async () => {
  const leaf = () => ({ pieces: solution("42") });
  const cases: [Partial<RunInput>, RegExp][] = [
    [{ choices: 2 }, /2 choices/],
    [{ rootLogprobs: 0 }, /log-probabilities/],
    [{ rootSampling: { extra: { tools: [] } } }, /tools/],
    [{ question: { kind: "text", text: "Write a poem about autumn" } }, /creative/],
  ];
  for (const [input, reason] of cases) {
    const { record } = await played(consensusWorld({ leaf }), input);
    assert.equal(record.rootSkipped, false);
    const [off] = record.events.filter(({ type }) => type === "consensus_off");
    assert.match(String(off?.data?.["reason"]), reason);
    assert.deepEqual(decisionsOf(record), []);
  }
});

test("who is never skipped is waited for; an answer that does not fit max_tokens is not given", async () => {
  const slow = (place: number): Script => ({ pieces: solution("42"), stepMs: place === 5 ? 1_000 : 1 });
  const waited = await played(consensusWorld({ leaf: slow, more: { never_skip: ["l1.c2.a3"] } }));
  assert.ok(waited.answeredMs >= 5_000);
  assert.ok(waited.record.rootSkipped);
  const tight = await played(consensusWorld({ leaf: slow }), { rootSampling: { max_tokens: 2 } });
  assert.equal(tight.record.rootSkipped, false);
  assert.match(String(decisionsOf(tight.record).at(-1)?.["reason"]), /max_tokens/);
});

test("every decision can be redone by hand from the record", async () => {
  const random = new Random("by hand");
  for (let seed = 0; seed < often(12); seed++) {
    const agree = 2 + random.int(4);
    const world = consensusWorld({
      consensus: { agree },
      leaf: () => ({ pieces: solution(String(random.int(3))), stepMs: 1 + random.int(50) }),
      later: { pieces: [`The answer is ${random.int(3)}.`] },
    });
    const { record, text } = await played(world);
    const decisions = decisionsOf(record);
    for (const [index, { votes, exit, agent }] of decisions.entries()) {
      const counts = new Map<unknown, number>();
      for (const { value } of votes as JsonObject[]) counts.set(value, (counts.get(value) ?? 0) + 1);
      assert.equal(exit, Math.max(...counts.values()) >= agree);
      if (exit !== true) continue;
      assert.equal(index, decisions.length - 1);
      const own = (votes as JsonObject[]).find((vote) => vote["agent"] === agent);
      assert.equal(counts.get(own?.["value"]), Math.max(...counts.values()));
      assert.match(
        text ?? "",
        new RegExp(`The answer is ${String(own?.["value"]).slice("number:".length)}\\.`),
      );
    }
  }
});

const consensusSeeds = often(100);

test(`${consensusSeeds} seeds with failures, hangs and clients that leave: what is answered was agreed, and nothing is left`, async () => {
  for (let seed = 0; seed < consensusSeeds; seed++) {
    const random = new Random(`consensus/${seed}`);
    const agree = 2 + random.int(3);
    const script = (): Script => {
      const pieces = solution(String(random.int(3)), random.int(5));
      const kind = random.int(12);
      const piece = random.int(pieces.length + 1);
      const pace = { startMs: random.int(100), stepMs: 1 + random.int(40) };
      if (kind === 0) return { ...pace, pieces, failAt: { piece, error: new Error("broken") } };
      if (kind === 1) {
        const error = new EngineError("lost", {
          code: "worker_error",
          status: 502,
          workerUrl: "http://w",
          retryable: true,
        });
        return { ...pace, pieces, failAt: { piece, error } };
      }
      if (kind === 2) return { ...pace, pieces: pieces.slice(0, piece), finishReason: "length" };
      return { ...pace, pieces };
    };
    const undecided = seed % 3 === 0;
    const staged = random.int(3) === 0 ? { start: "staged", stage_ms: 1 + random.int(200) } : {};
    const world = consensusWorld({
      consensus: {
        agree,
        ...staged,
        ...(seed % 2 === 0 ? { cut: "decided" } : {}),
        undecided: undecided ? "leader" : "root",
      },
      leaf: script,
      later: script(),
      names: random.int(2) === 0 ? ["1b", "8b"] : ["8b", "1b"],
    });
    await world.clock.run(async () => {
      const gone = new AbortController();
      const run = world.start({ question }, gone.signal);
      const leaves = random.int(5) === 0;
      if (leaves) world.clock.sleep(random.int(600)).then(() => gone.abort(new Error("left")), () => {});
      let text = "";
      let failed = false;
      try {
        for await (const event of run.output) if (event.type === "delta") text += event.delta.text;
      } catch {
        failed = true;
      }
      await run.ended;
      const record = run.record();
      if (record.rootSkipped && !failed) {
        const { agent, groups } = decisionsOf(record).at(-1) as { agent: string; groups: string[][] };
        const group = groups.find((members) => members.includes(agent));
        assert.ok(group !== undefined && group.length >= (undecided ? 2 : agree), `seed ${seed}`);
        assert.match(text, /The answer is \d\./, `seed ${seed}: ${text}`);
      }
      for (const { state } of record.agents) {
        assert.ok(state !== "running" && state !== "queued", `seed ${seed}`);
      }
      await world.clock.sleep(1_000);
    });
    world.assertIdle();
  }
});

test("a run that fails fails as before", async () => {
  const world = consensusWorld({
    leaf: () => ({ pieces: [], failAt: { piece: 0, error: new Error("broken") } }),
  });
  await world.clock.run(async () => {
    const run = world.start({ question });
    assert.match(String(await errorOf(run)), /broken|answers/);
    await run.ended;
    world.assertIdle();
  });
});

/** Agents by the stage in which they started. */
function stagesIn(record: RunRecord) {
  return record.events.flatMap(({ type, data, atMs }) =>
    type === "stage_started" ? [{ agents: data?.["agents"], reason: data?.["reason"], atMs }] : []
  );
}

const SMALL_FIRST = { names: ["1b", "8b"] } as const;

test("staged, the small models start alone, and where they agree nobody else is asked at all", async () => {
  const world = consensusWorld({
    consensus: { agree: 3, start: "staged" },
    leaf: () => ({ pieces: solution("42"), stepMs: 10 }),
    ...SMALL_FIRST,
  });
  const { record, usage } = await played(world);
  assert.equal(record.rootSkipped, true);
  const [first, ...others] = stagesIn(record);
  assert.deepEqual(first?.agents, ["l1.c1.a1", "l1.c1.a3", "l1.c2.a1", "l1.c2.a3"]);
  assert.deepEqual(others, []);
  assert.equal(usage.calls, 4);
  for (const agent of record.agents.filter(({ model }) => model === "8b")) {
    assert.equal(agent.startedAtMs, undefined);
  }
});

test("staged, the large models start when the small ones have disagreed or failed, or take too long", async () => {
  const disagree = (place: number) => ({ pieces: solution(`${place}`), stepMs: 10 });
  const ended = await played(
    consensusWorld({ consensus: { agree: 3, start: "staged" }, leaf: disagree, ...SMALL_FIRST }),
  );
  assert.deepEqual(stagesIn(ended.record).map(({ reason }) => reason), ["start", "ended"]);
  assert.equal(ended.text, "root");
  const slow = await played(consensusWorld({
    consensus: { agree: 3, start: "staged", stage_ms: 25 },
    leaf: disagree,
    ...SMALL_FIRST,
  }));
  assert.deepEqual(stagesIn(slow.record).map(({ reason, atMs }) => [reason, atMs]), [["start", 0], [
    "late",
    25,
  ]]);
});

test("staged, a request that only a root can answer starts all at once", async () => {
  const world = consensusWorld({
    consensus: { agree: 3, start: "staged" },
    leaf: () => ({ pieces: solution("42"), stepMs: 10 }),
    ...SMALL_FIRST,
  });
  const { record } = await played(world, { question: { kind: "text", text: "Write a poem about autumn" } });
  assert.deepEqual(stagesIn(record), []);
  assert.equal(record.rootSkipped, false);
  assert.ok(record.agents.every(({ startedAtMs }) => startedAtMs !== undefined));
});
