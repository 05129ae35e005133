/** Early exit over real engines: what is dropped stops decoding, and what a decision needs is really there. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  cancelRun,
  type CanopyProcess,
  configText,
  lastRun,
  type RecordedRun,
  type Sampling,
  startCanopy,
  type TestAgent,
} from "./canopy_process.ts";
import { becomesIdle, type EngineProcess, eventually, startEngine } from "./engine_process.ts";
import { send } from "./http_request.ts";
import { kindsUnderTest, pairsUnderTest } from "./kinds_under_test.ts";

const modelNames = ["4b", "8b", "32b"] as const;

const short: Sampling = { max_tokens: 24, temperature: 1, top_k: 20 };
/** Runs for 10 s and more, whatever the model would like. */
const long: Sampling = { max_tokens: 4000, temperature: 0, ignore_eos: true };

const stopped: Sampling = { max_tokens: 400, temperature: 0, stop: ["e"] };

const members: TestAgent[] = [
  { model: "4b", sampling: short },
  { model: "8b", sampling: short },
  { model: "32b", sampling: long },
];
const exits = { metric: "random", probability: 1 };
const waits = { metric: "none" };

const graphs = {
  "exit": { layers: [[members], [[{ model: "4b", sampling: short }]]], earlyExit: exits },
  // The root goes on for long after the exit.
  "exit-slow-root": { layers: [[members], [[{ model: "4b", sampling: long }]]], earlyExit: exits },
  "three-exits": {
    layers: [[members, members, members], [[members[0]!, members[1]!, members[0]!]], [[{
      model: "4b",
      sampling: short,
    }]]],
    earlyExit: exits,
  },
  "confidence": {
    layers: [[members], [[{ model: "4b", sampling: short }]]],
    earlyExit: { metric: "q", decide: "threshold", threshold: 0, diversity_guard: false },
  },
  "verdict": {
    layers: [
      // Two that end before their limit (an answer that is cut agrees with nobody), and one that leaves time to ask.
      [[...["4b", "8b"].map((model): TestAgent => ({ model, sampling: stopped })), {
        model: "32b",
        sampling: { ...long, max_tokens: 600 },
      }]],
      [[{ model: "4b", sampling: short }]],
    ],
    earlyExit: { metric: "verdict", diversity_guard: false },
  },
  "none": { layers: [[members.slice(0, 2)], [[{ model: "4b", sampling: short }]]], earlyExit: waits },
};

const messages = [{ role: "user", content: "What is 2+2?" }];

for (const kind of [...kindsUnderTest, ...pairsUnderTest]) {
  describe(`Early exit over ${kind.engine} ${kind.version}`, { concurrency: false }, () => {
    let engine: EngineProcess;
    let canopy: CanopyProcess;

    before(async () => {
      engine = await startEngine({ ...kind, modelNames });
      canopy = await startCanopy(configText([engine], graphs));
      await chat("none");
      await eventually("idle", async () => await engine.runningRequests() === 0, 5000);
    });
    after(async () => {
      await canopy?.stop();
      await engine?.stop();
    });

    const chat = (graph: keyof typeof graphs) =>
      send("POST", `${canopy.url}/v1/chat/completions`, { model: graph, messages });

    const decided = (run: RecordedRun) => run.events.filter(({ type }) => type === "exit_decided");

    /** The counters stand still, which those of a decode that goes on would not. */
    async function assertStopped() {
      const { requests, generationTokens } = await engine.counters();
      await sleep(500);
      const later = await engine.counters();
      assert.deepEqual([later.requests, later.generationTokens], [requests, generationTokens]);
      assert.equal(await engine.runningRequests(), 0);
    }

    for (const graph of ["exit", "three-exits"] as const) {
      test(`after an exit (${graph}) the engine is idle within a second of the answer, and its counters stop`, async () => {
        const answer = await chat(graph);
        assert.equal(answer.status, 200, answer.text);
        assert.ok(await becomesIdle(engine, 1000), `still running: ${await engine.runningRequests()}`);
        await assertStopped();
        const run = await lastRun(canopy.url);
        const dropped = run.agents.filter(({ state }) => state === "cancelled");
        assert.equal(dropped.length, graph === "exit" ? 1 : 4);
        assert.ok(decided(run).every(({ data }) => data?.["exit"] === true));
      });
    }

    test("a member that an exit drops stops decoding within a second, while the root goes on", async () => {
      const request = chat("exit-slow-root");
      let run: RecordedRun | undefined;
      await eventually("the root's first token", async () => {
        run = await lastRun(canopy.url);
        return run.state === "running" && typeof run.agents.at(-1)?.first_token_at_ms === "number";
      }, 20_000);
      assert.ok(run);
      // All that runs is the root: told by the engine's own number, which is zero only without it.
      await eventually("one request left", async () => await engine.runningRequests() === 1, 1000);
      assert.deepEqual(run.agents.map(({ state }) => state), ["done", "done", "cancelled", "running"]);
      await cancelRun(canopy.url, run.id);
      assert.ok(await becomesIdle(engine, 1000));
      await request;
    });

    test("log-probabilities are there for every answer, and the client's answer has none", async () => {
      const answer = await chat("confidence");
      assert.equal(answer.status, 200, answer.text);
      assert.equal(JSON.parse(answer.text).choices[0].logprobs, null);
      const [first] = decided(await lastRun(canopy.url));
      const confidences = first?.data?.["confidences"];
      assert.ok(Array.isArray(confidences), JSON.stringify(first));
      for (const { confidence } of confidences) {
        assert.ok(typeof confidence === "number" && confidence > 0 && confidence <= 1, `${confidence}`);
      }
      assert.ok(await becomesIdle(engine, 1000));
    });

    test("a verdict is read from the first token's alternatives of a real engine", async () => {
      const answer = await chat("verdict");
      assert.equal(answer.status, 200, answer.text);
      const run = await lastRun(canopy.url);
      const own = run.usage.agents.find(({ agent }) => agent === "l1.c1.verdict");
      const verdicts = decided(run).flatMap(({ data }) => {
        const found = data?.["verdicts"];
        return Array.isArray(found) ? found : [];
      });
      // A model of 0.4 M parameters says nothing sensible: that it was asked and what it said was read is enough.
      assert.ok(own !== undefined && verdicts.length > 0, JSON.stringify(run));
      assert.equal(own.completion_tokens, own.calls);
      for (const { yes, reason } of verdicts) {
        assert.ok(typeof yes === "number" || /^its reply begins with/.test(reason), JSON.stringify(verdicts));
      }
      assert.ok(await becomesIdle(engine, 1000));
    });
  });
}
