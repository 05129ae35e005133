/** Trees of agents served by the built program over real engines, checked against the engines' own counters. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import {
  cancelRun,
  type CanopyProcess,
  configText,
  lastRun,
  precursors,
  promptText,
  type Sampling,
  startCanopy,
  type TestAgent,
  type TestGraph,
} from "./canopy_process.ts";
import {
  becomesIdle,
  combined,
  type EngineCounters,
  type EngineKind,
  type EngineProcess,
  eventually,
  type LoggedCall,
  startEngine,
} from "./engine_process.ts";
import { open, send } from "./http_request.ts";
import { kindsUnderTest } from "./kinds_under_test.ts";

const modelNames = ["4b", "8b", "32b"] as const;

/** Ends by itself soon. Sampled, so that the answers of a layer differ from each other. */
const short: Sampling = { max_tokens: 24, temperature: 1, top_k: 20 };
/** Runs for 10 s and more, whatever the model would like. */
const long: Sampling = { max_tokens: 4000, temperature: 0, ignore_eos: true };

/** A cluster of the three models. */
const cluster = (...samplings: readonly [Sampling, Sampling, Sampling]): TestAgent[] =>
  modelNames.map((model, at) => ({ model, sampling: samplings[at]! }));
const root = (sampling: Sampling): TestAgent[] => [{ model: "32b", sampling }];
const quick = cluster(short, short, short);
const slow = cluster(long, long, long);

const tree: TestGraph = { layers: [[quick, quick, quick], [quick], [root(short)]] };
const dense: TestGraph = {
  layers: [[[...quick, ...quick, ...quick]], [[...quick, ...quick, ...quick]], [root(short)]],
};
const graphs = {
  tree,
  dense,
  "slow-first-layer": { layers: [[slow, slow, slow], [quick], [root(short)]] },
  "slow-first-layer-one-second": { layers: [[slow, slow, slow], [quick], [root(short)]], deadlineMs: 1000 },
  // Layer 2 has two of three answers, may prefill them, and waits for the third.
  "waiting-second-layer": {
    layers: [[0, 1, 2].map(() => cluster(short, short, long)), [quick], [root(short)]],
    incrementalPrefill: "auto",
  },
  "slow-root": { layers: [[quick, quick, quick], [quick], [root(long)]] },
} satisfies Record<string, TestGraph>;

const messages = [{ role: "user", content: "What is 2+2?" }];

interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly total_tokens: number;
}

for (const kind of kindsUnderTest) {
  describe(`Canopy over ${kind.engine} ${kind.version}`, { concurrency: false }, () => {
    let engine: EngineProcess;
    let canopy: CanopyProcess;
    before(start);
    after(stop);

    async function start() {
      engine = await startEngine({ ...kind, modelNames });
      canopy = await startCanopy(configText([engine], graphs));
      // Whatever Canopy asks a worker when it first sees it, it has asked after this.
      for (const model of modelNames) {
        await send("POST", `${canopy.url}/v1/chat/completions`, { model, messages, max_tokens: 1 });
      }
    }

    async function stop() {
      await canopy?.stop();
      await engine?.stop();
    }

    const chat = (graph: keyof typeof graphs, body: Record<string, unknown> = {}) =>
      send("POST", `${canopy.url}/v1/chat/completions`, { model: graph, messages, ...body });

    /** What the engine counted and logged while `act` ran, with time for one call too many to show. */
    async function watch(calls: number, act: () => Promise<void>) {
      const before = await engine.counters();
      const logged = (await engine.calls()).length;
      await act();
      await eventually(
        `${calls} finished calls`,
        async () => (await engine.counters()).finished - before.finished >= calls,
        2000,
      );
      await sleep(500);
      return {
        counted: difference(before, await engine.counters()),
        logged: (await engine.calls()).slice(logged),
      };
    }

    test("a 9-3-1 tree makes 13 calls and no more, and its usage is what the engine counted", async () => {
      let usage: Usage | undefined;
      const { counted, logged } = await watch(13, async () => {
        const answer = await chat("tree");
        assert.equal(answer.status, 200, answer.text);
        ({ usage } = JSON.parse(answer.text) as { usage: Usage });
      });
      assertCalls(13, counted, logged);
      assertUsage(usage, counted);
      assert.equal(await engine.runningRequests(), 0);
    });

    test("a streamed 9-9-1 graph makes 19 calls and no more, and its usage is what the engine counted", async () => {
      let usage: Usage | undefined;
      const { counted, logged } = await watch(19, async () => {
        const answer = await chat("dense", { stream: true, stream_options: { include_usage: true } });
        assert.equal(answer.status, 200, answer.text);
        const events = answer.text.split("\n").filter((line) => line.startsWith("data: {"))
          .map((line): { usage?: Usage | null } => JSON.parse(line.slice("data: ".length)));
        usage = events.at(-1)?.usage ?? undefined;
        assert.match(answer.text, /data: \[DONE\]\s*$/);
      });
      assertCalls(19, counted, logged);
      assertUsage(usage, counted);
      assert.equal(await engine.runningRequests(), 0);
    });

    for (const [name, graph] of Object.entries({ tree, dense })) {
      test(`in the ${name} graph each final prompt holds the precursors' answers in order`, async () => {
        const answer = await chat(name as "tree" | "dense");
        const { choices } = JSON.parse(answer.text) as { choices: { message: { content: string } }[] };
        const { agents } = await lastRun(canopy.url);
        // Successors read answers without the white space around them.
        const texts = new Map(agents.map(({ id, text }) => [id, text.trim()]));
        const reads = precursors(graph);
        assert.deepEqual([...texts.keys()].sort(), [...reads.keys()].sort());
        assert.equal(agents.at(-1)?.text, choices[0]?.message.content);
        for (const agent of agents) {
          const prompt = await promptText(agent, engine);
          assert.ok(prompt.includes("What is 2+2?"), `${agent.id} does not see the question: ${prompt}`);
          let from = 0;
          for (const id of reads.get(agent.id) ?? []) {
            const text = texts.get(id) ?? "";
            const at = prompt.indexOf(text, from);
            assert.ok(
              at >= 0,
              `${agent.id} does not see ${id} (${JSON.stringify(text)}) in its place: ${prompt}`,
            );
            from = at + text.length;
          }
          // Nobody else's answers: with sampling at temperature 1, texts of 24 tokens are never equal by chance.
          for (const [id, text] of texts) {
            if (reads.get(agent.id)?.includes(id) || text.length < 20) continue;
            assert.ok(!prompt.includes(text), `${agent.id} sees ${id}, which it must not read`);
          }
        }
      });
    }

    /** Starts a request, leaves when `when` says so, and checks that the engine is idle within a second and stays so. */
    async function abandon(
      graph: keyof typeof graphs,
      body: Record<string, unknown>,
      when: (start: EngineCounters) => Promise<boolean>,
    ) {
      assert.ok(await becomesIdle(engine, 1000), "the engine is busy before the test");
      const start = await engine.counters();
      let leave = () => {};
      const request = open(
        "POST",
        `${canopy.url}/v1/chat/completions`,
        { model: graph, messages, ...body },
        (close) => leave = close,
      );
      let left = false;
      const answered = request.then(async (answer) => {
        const text = await answer.end();
        throw new Error(`answered with ${answer.status} before the moment to leave: ${text}`);
      }).catch((error) => {
        if (!left) throw error;
      });
      await Promise.race([answered, eventually("the moment to leave", () => when(start), 10_000)]);
      left = true;
      leave();
      await answered;
      await assertIdle();
    }

    async function assertIdle() {
      assert.ok(
        await becomesIdle(engine, 1000),
        `still running after 1 s: ${await engine.runningRequests()}`,
      );
      const { generationTokens, requests } = await engine.counters();
      await sleep(500);
      assert.equal(await engine.runningRequests(), 0);
      const later = await engine.counters();
      assert.deepEqual([later.requests, later.generationTokens], [requests, generationTokens]);
    }

    const nineRunning = async () => await engine.runningRequests() === 9;

    test("when the client leaves while layer 1 decodes, the engine is idle within a second", async () => {
      await abandon("slow-first-layer", { stream: true }, nineRunning);
    });

    test("when a client that does not stream leaves while layer 1 decodes, the engine is idle within a second", async () => {
      await abandon("slow-first-layer", { stream: false }, nineRunning);
    });

    test("when the client leaves while layer 2 waits, the engine is idle within a second", async () => {
      await abandon("waiting-second-layer", { stream: true }, async (start) => {
        const { finished } = difference(start, await engine.counters());
        return finished >= 6 && await engine.runningRequests() >= 3;
      });
    });

    test("when the client leaves while the root streams, the engine is idle within a second", async () => {
      assert.ok(await becomesIdle(engine, 1000), "the engine is busy before the test");
      const answer = await open("POST", `${canopy.url}/v1/chat/completions`, {
        model: "slow-root",
        messages,
        stream: true,
      });
      await answer.until((text) => text.split("data: ").length > 30, 20_000);
      answer.leave();
      await assertIdle();
    });

    test("when a run is cancelled, the engine is idle within a second", async () => {
      assert.ok(await becomesIdle(engine, 1000), "the engine is busy before the test");
      const request = chat("slow-first-layer");
      await eventually("nine calls running", nineRunning, 10_000);
      const run = await lastRun(canopy.url);
      assert.equal(run.state, "running");
      await cancelRun(canopy.url, run.id);
      await assertIdle();
      assert.notEqual((await request).status, 200);
    });

    test("when a run misses its deadline, the engine is idle within a second", async () => {
      const answer = await chat("slow-first-layer-one-second");
      assert.ok(answer.status >= 500, `${answer.status} ${answer.text}`);
      await assertIdle();
    });

    test("runs that were abandoned are recorded as cancelled, and the next run works", async () => {
      await abandon("slow-first-layer", { stream: true }, nineRunning);
      assert.equal((await lastRun(canopy.url)).state, "cancelled");
      assert.equal((await chat("tree")).status, 200);
    });

    for (const { title, path, body } of deadlyRequests(kind)) {
      test(`a request with ${title} is refused with 400 and never reaches the engine`, async () => {
        const calls = (await engine.calls()).length;
        const answer = await send("POST", canopy.url + path, { model: "4b", ...body });
        if (!await engine.isAlive()) { // the tests to come need a living one
          await stop();
          await start();
          assert.fail(`it killed the engine: ${answer.text}`);
        }
        assert.equal(answer.status, 400, answer.text);
        const { error } = JSON.parse(answer.text) as { error: { param: string | null } };
        assert.ok(error.param, `the error names no field: ${answer.text}`);
        assert.equal((await engine.calls()).length, calls);
      });
    }
  });
}

function difference(before: EngineCounters, after: EngineCounters): EngineCounters {
  return combined(after, before, (now, then) => now - then);
}

/** Three witnesses: requests with a first token, requests that ended, and the access log. */
function assertCalls(calls: number, counted: EngineCounters, logged: readonly LoggedCall[]) {
  assert.equal(counted.requests, calls);
  assert.equal(counted.finished, calls);
  assert.deepEqual(logged.map(({ status }) => status), Array(calls).fill(200));
}

function assertUsage(usage: Usage | undefined, counted: EngineCounters) {
  assert.deepEqual({
    prompt_tokens: usage?.prompt_tokens,
    completion_tokens: usage?.completion_tokens,
    total_tokens: usage?.total_tokens,
  }, {
    prompt_tokens: counted.promptTokens,
    completion_tokens: counted.generationTokens,
    total_tokens: counted.promptTokens + counted.generationTokens,
  });
}

interface DeadlyRequest {
  readonly title: string;
  readonly path: string;
  readonly body: Record<string, unknown>;
}

/** Requests after which the engine was dead (or hung), each tried on a server of that version. vLLM survived all. */
function deadlyRequests({ engine, version }: EngineKind): DeadlyRequest[] {
  if (engine !== "sglang") return [];
  const generate = (title: string, body: Record<string, unknown>) => ({
    title: `${title} (/generate)`,
    path: "/generate",
    body: { input_ids: [300, 301, 302, 303], sampling_params: { max_new_tokens: 4 }, ...body },
  });
  const completion = (title: string, body: Record<string, unknown>) => ({
    title: `${title} (/v1/completions)`,
    path: "/v1/completions",
    body: { prompt: [300, 301], max_tokens: 4, ...body },
  });
  const chat = (title: string, body: Record<string, unknown>) => ({
    title: `${title} (/v1/chat/completions)`,
    path: "/v1/chat/completions",
    body: { messages, max_tokens: 4, ...body },
  });
  const all = [
    completion("a negative token id", { prompt: [-1] }),
    completion("a token id beyond the vocabulary", { prompt: [1920] }),
    completion("a bad token id in one prompt of several", { prompt: [[300], [-1]] }),
    completion("a top_k of more than 32 bits", { top_k: 2 ** 31 }),
    completion("more logprobs than tokens in the vocabulary", { logprobs: 1921 }),
    chat("more top_logprobs than tokens in the vocabulary", { logprobs: true, top_logprobs: 1921 }),
    chat("a negative token id", { input_ids: [-1] }),
    chat("a logit_bias that is not a number", { logit_bias: { "300": "NaN" } }),
    generate("a negative token id", { input_ids: [-1] }),
    generate("a top_k of more than 32 bits", { sampling_params: { max_new_tokens: 4, top_k: 2 ** 31 } }),
    generate("more top_logprobs_num than tokens in the vocabulary", {
      return_logprob: true,
      top_logprobs_num: 1921,
    }),
    generate("a logprob_start_len below -1", { return_logprob: true, logprob_start_len: -5 }),
    generate("positional_embed_overrides", { positional_embed_overrides: {} }),
  ];
  if (version !== "0.5.18") return all;
  return [
    ...all,
    generate("an empty prompt in a list of prompts", { input_ids: [[]] }),
    generate("token_ids_logprob", { return_logprob: true, token_ids_logprob: [5] }),
    completion("a logit_bias beyond 32-bit floats", { logit_bias: { "300": 1e39 } }),
    completion("a repetition_penalty that is 0 in 32-bit floats", { repetition_penalty: 1e-300 }),
    completion("a JSON schema that only refers to itself", {
      response_format: { type: "json_schema", json_schema: { name: "x", schema: { $ref: "#" } } },
    }),
  ];
}
