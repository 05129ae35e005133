/** Prefill/decode pairs of real servers: incremental prefill over them, and that both halves end what nobody wants. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  cancelRun,
  type CanopyProcess,
  configText,
  lastRun,
  type Sampling,
  startCanopy,
  type TestAgent,
  type TestGraph,
} from "./canopy_process.ts";
import {
  becomesIdle,
  type EngineKind,
  type EngineProcess,
  eventually,
  startEngine,
} from "./engine_process.ts";
import { open, send } from "./http_request.ts";
import { pairsUnderTest } from "./kinds_under_test.ts";
import { modelNames, overlapGraphs, overlapTests, prompts } from "./overlap_suite.ts";

const greedy = (tokens: number): Sampling => ({ max_tokens: tokens, temperature: 0, ignore_eos: true });
/** Runs for 10 s and more, whatever the model would like. */
const long = greedy(4000);

const cluster = (...samplings: readonly [Sampling, Sampling, Sampling]): TestAgent[] =>
  modelNames.map((model, at) => ({ model, sampling: samplings[at]!, prompt: `voice-${at + 1}` }));
const quick = cluster(greedy(20), greedy(20), greedy(20));
const slow = cluster(long, long, long);
const second = modelNames.map((model) => ({ model, sampling: greedy(20) }));
const root = (sampling: Sampling): TestAgent[] => [{ model: "32b", sampling }];

const graphs = {
  ...overlapGraphs,
  "slow-first-layer": { layers: [[slow, slow, slow], [second], [root(long)]], incrementalPrefill: "on" },
  // Each agent of layer 2 has one answer, is warmed with it and with a second one that grows for long.
  "warmed-second-layer": {
    layers: [[0, 1, 2].map(() => cluster(greedy(20), long, long)), [second], [root(long)]],
    incrementalPrefill: "on",
  },
  "slow-root": { layers: [[quick, quick, quick], [second], [root(long)]], incrementalPrefill: "on" },
} satisfies Record<string, TestGraph>;

const messages = [{ role: "user", content: "What is 2+2?" }];

/** What was aborted is looked at after the last step of a prompt only (`abort_request` in its scheduler.py). */
const readsOn = ({ version }: EngineKind) => version === "0.5.10.post1";

function flags(kind: EngineKind): readonly string[] {
  if (kind.engine === "vllm-pd") return ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"];
  // A step that is under way is ended by nothing, and the one behind it is often prepared: they must be short.
  return readsOn(kind) ? [] : ["--chunked-prefill-size", "1024"];
}

/** What these tests read of an answer. */
interface ChatAnswer {
  readonly choices: readonly { readonly message: { readonly content: string | null } }[];
  readonly usage: { readonly prompt_tokens: number };
}

/** A question of some six tokens per item. */
const question = (items: number) => [{
  role: "user",
  content: Array.from({ length: items }, (_, at) => `Item ${at * 7919 % 997}.`).join(" "),
}];
/** Some 2,000 tokens, one step of SGLang 0.5.10.post1; some 8,000, several of any engine. */
const [oneStep, severalSteps] = [question(350), question(1400)];

for (const kind of pairsUnderTest) {
  describe(`Pairs: ${kind.engine} ${kind.version}`, { concurrency: false }, () => {
    let engine: EngineProcess;
    let canopy: CanopyProcess;
    before(async () => {
      engine = await startEngine({ ...kind, modelNames, flags: flags(kind) });
      canopy = await startCanopy(configText([engine], graphs, prompts));
    });
    after(async () => {
      await canopy?.stop();
      await engine?.stop();
    });

    test("says which version it is", () => assert.equal(engine.version, kind.version));

    overlapTests(() => engine, () => canopy);

    /** Starts a request, ends it with `end` when `when` says so; both servers must be idle within a second. */
    async function abandon(
      graph: string,
      body: Record<string, unknown>,
      when: () => Promise<boolean>,
      end: "leave" | "cancel" = "leave",
    ) {
      assert.ok(await becomesIdle(engine, 2000), "the engine is busy before the test");
      let leave = () => {};
      let left = false;
      const answered = open(
        "POST",
        `${canopy.url}/v1/chat/completions`,
        { model: graph, messages, ...body },
        (close) => leave = close,
      ).then(async (answer) => {
        const text = await answer.end();
        if (!left) throw new Error(`answered with ${answer.status} before the moment to leave: ${text}`);
      }).catch((error) => {
        if (!left) throw error;
      });
      await Promise.race([answered, eventually("the moment to leave", when, 60_000)]).catch((error) => {
        leave();
        throw error;
      });
      left = true;
      if (end === "leave") leave();
      else await cancelRun(canopy.url, (await lastRun(canopy.url)).id);
      await assertIdle();
      await answered;
    }

    async function assertIdle() {
      const giveUpAt = performance.now() + 1000;
      for (const [at, server] of engine.servers.entries()) {
        const half = ["prefill", "decode"][at];
        let running = await server.runningRequests();
        while (running > 0 && performance.now() < giveUpAt) {
          await sleep(20);
          running = await server.runningRequests();
        }
        assert.equal(running, 0, `the ${half} server still works after a second`);
      }
      await sleep(500); // SGLang counts an aborted request's tokens some time after its end
      const { generationTokens } = await engine.counters();
      await sleep(500);
      assert.equal(await engine.runningRequests(), 0);
      assert.equal((await engine.counters()).generationTokens, generationTokens);
      assert.ok(await engine.isAlive(), "a server has died");
    }

    /** Events of the run that was started last, which must be under way. */
    async function events(type: string): Promise<number> {
      const run = await lastRun(canopy.url).catch(() => undefined);
      return run?.state === "running" ? run.events.filter((event) => event.type === type).length : 0;
    }
    const layerOneWrites = async () => await events("agent_first_token") >= 9;
    const layerTwoIsWarmed = async () => await events("warm_done") >= 3;
    const rootWrites = async () => await events("agent_first_token") >= 13;

    /** Asks the model itself, and leaves when the prefill server reads the prompt. */
    async function leaveWhileRead(question: unknown) {
      assert.ok(await becomesIdle(engine, 2000), "the engine is busy before the test");
      let leave = () => {};
      const gone = open("POST", `${canopy.url}/v1/chat/completions`, {
        model: "4b",
        messages: question,
        max_tokens: 500,
        stream: true,
      }, (close) => leave = close).then((answer) => answer.end());
      gone.catch(() => {}); // leaving rejects it
      const prefill = engine.servers[0]!;
      const steps = async () => (await prefill.logTail(10_000)).split("Prefill batch").length; // SGLang's
      const before = await steps();
      const isRead = async () =>
        engine.engine === "sglang-pd" ? await steps() > before : await prefill.runningRequests() > 0;
      await eventually("it is being read", isRead, 10_000);
      leave();
    }

    test("when the client leaves while the prompt is read, both servers are idle within a second", async () => {
      await leaveWhileRead(readsOn(kind) ? oneStep : severalSteps);
      await assertIdle();
    });

    if (readsOn(kind)) {
      test("when the client leaves while a prompt of several steps is read, it is read to its end and not answered", async (t) => {
        const [prefill, decode] = engine.servers;
        await leaveWhileRead(severalSteps);
        const leftAt = performance.now();
        const { generationTokens } = await decode!.counters();
        await eventually(
          "the decode server is idle",
          async () => await decode!.runningRequests() === 0,
          1000,
        );
        await eventually("the prompt is read", async () => await prefill!.runningRequests() === 0, 30_000);
        t.diagnostic(`it was read for ${(performance.now() - leftAt).toFixed(0)} ms more`);
        await assertIdle();
        assert.equal((await decode!.counters()).generationTokens, generationTokens);
      });
    }

    test("when the client leaves while layer 1 decodes, both servers are idle within a second", async () => {
      await abandon("slow-first-layer", { stream: true }, layerOneWrites);
    });

    test("when the client leaves while layer 2 is warmed, both servers are idle within a second", async () => {
      await abandon("warmed-second-layer", { stream: true }, layerTwoIsWarmed);
    });

    test("when the client leaves while the root writes, both servers are idle within a second", async () => {
      await abandon("slow-root", { stream: true }, rootWrites);
    });

    for (
      const [graph, when] of [
        ["slow-first-layer", layerOneWrites],
        ["warmed-second-layer", layerTwoIsWarmed],
        ["slow-root", rootWrites],
      ] as const
    ) {
      test(`when a run of ${graph} is cancelled, both servers are idle within a second`, async () => {
        await abandon(graph, { stream: false }, when, "cancel");
      });
    }

    test("relayed requests to a model get the pair's answer, and leaving them ends both halves", async () => {
      const body = {
        model: "4b",
        messages,
        max_tokens: 2000,
        temperature: 0,
        ignore_eos: true,
        stream: true,
      };
      assert.ok(await becomesIdle(engine, 2000), "the engine is busy before the test");
      const answer = await open("POST", `${canopy.url}/v1/chat/completions`, body);
      assert.equal(answer.status, 200);
      await answer.until((text) => text.split("data: ").length > 30, 20_000);
      answer.leave();
      await assertIdle();
    });

    if (kind.engine === "vllm-pd") {
      const tools = [{
        type: "function",
        function: { name: "look", description: "Looks it up.", parameters: {} },
      }];
      for (
        const [what, more] of Object.entries({
          "a conversation": {},
          "a conversation with an option of the chat template": {
            chat_template_kwargs: { enable_thinking: false },
          },
          "a conversation with tools": { tools },
          "a conversation whose answer has a form": { structured_outputs: { choice: ["a plain answer"] } },
        })
      ) {
        test(`the decode half reads nothing of ${what} by itself, and answers as the prefill half would`, async () => {
          const body = { messages, max_tokens: 24, temperature: 0, ignore_eos: true, ...more };
          const [prefill, decode] = engine.servers;
          const ask = async (url: string, model: string) => {
            const answer = await send("POST", `${url}/v1/chat/completions`, { ...body, model });
            assert.equal(answer.status, 200, answer.text);
            const { choices, usage }: ChatAnswer = JSON.parse(answer.text);
            return { content: choices[0]?.message.content, promptTokens: usage.prompt_tokens };
          };
          const alone = await ask(prefill!.url, "4b");
          assert.ok(await becomesIdle(engine, 2000)); // and no cache is left
          const before = await decode!.metric("vllm:external_prefix_cache_hits_total");
          assert.deepEqual(await ask(canopy.url, "4b"), alone);
          const fetched = await decode!.metric("vllm:external_prefix_cache_hits_total") - before;
          assert.equal(fetched, alone.promptTokens);
        });
      }
    }
  });
}
