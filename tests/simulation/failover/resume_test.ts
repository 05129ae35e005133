import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often } from "../../properties.ts";
import type { OutgoingRequest } from "../../../base/transport.ts";
import type { RunRecord } from "../../../router/moa/record/run_record.ts";
import type { RunEvent } from "../../../router/moa/run/run.ts";
import type { Router } from "../../../router/router.ts";
import { makeWarmWorld } from "../warm_world.ts";
import { resetAfter } from "../reset_after.ts";
import { engineTotals, type World } from "../world.ts";

const greedy = { temperature: 0 };

/** What a client gets of one answer, and what it is told that it cost. */
interface Answer {
  readonly text: string;
  readonly end: Extract<RunEvent, { type: "end" }> | undefined;
  readonly logprobs: readonly number[];
  readonly record: RunRecord;
}

async function ask(
  router: Router,
  question: string,
  { sampling = {}, client = "streams" }: {
    readonly sampling?: Record<string, unknown>;
    readonly client?: "streams" | "waits" | undefined;
  },
): Promise<Answer> {
  const { moa } = router.services;
  const run = moa.start(moa.graphs.get("moa")!, {
    question: { kind: "chat", messages: [{ role: "user", content: question }] },
    rootSampling: sampling,
    rootLogprobs: 0,
    choices: 1,
    whole: client === "waits",
  }, new AbortController().signal);
  let text = "";
  let end: Answer["end"];
  const logprobs: number[] = [];
  try {
    for await (const event of run.output) {
      if (event.type === "end") end = event;
      else {
        text += event.delta.text;
        for (const { logprob } of event.delta.logprobs ?? []) logprobs.push(logprob);
      }
    }
  } catch {
    // The record tells.
  }
  await run.ended;
  return { text, end, logprobs, record: run.record() };
}

/** What must not depend on whether workers died. */
function outcomeOf({ text, end, logprobs, record: { state, usage, agents } }: Answer): unknown {
  return {
    text,
    finish: [end?.finishReason, end?.stopReason],
    logprobs,
    state,
    tokens: [usage.promptTokens, usage.completionTokens, usage.wastedTokens],
    agents: agents.map((agent) => [agent.id, agent.state, agent.text, agent.usage?.completionTokens]),
  };
}

/** Of the tokens that an answer may break off at, each server is tried with every third; with `CANOPY_TIMES=3`, all. */
const EVERY = Math.ceil(3 / often(1));

/** Servers, each with a question whose answer holds characters of several tokens. */
const kinds: {
  name: string;
  world: Partial<Parameters<typeof makeWarmWorld>[0]>;
  model: string;
  question: number;
}[] = [
  { name: "vLLM", world: {}, model: "4b", question: 6 },
  { name: "SGLang 0.5.23", world: {}, model: "8b", question: 126 },
  { name: "SGLang 0.5.18", world: {}, model: "32b", question: 27 },
  { name: "a pair of SGLang servers", world: { pairs: { engine: "sglang-pd" } }, model: "4b", question: 6 },
  { name: "a pair of vLLM servers", world: { pairs: { engine: "vllm-pd" } }, model: "4b", question: 6 },
];

/** One answer, whose first stream breaks after `cutAfter` of its chunks; unbroken when that is undefined. */
async function answerOf(
  { world: options, model, question }: (typeof kinds)[number],
  { cutAfter, sampling, client }: {
    readonly cutAfter: number | undefined;
    readonly sampling: Record<string, unknown>;
    readonly client?: "streams" | "waits" | undefined;
  },
): Promise<Answer> {
  const graphs = { moa: { layers: [{ agents: [{ model }] }] } };
  let broken = cutAfter === undefined;
  const world: World = makeWarmWorld({
    seed: "cut",
    replicas: 2,
    graphs,
    ...options,
    intercept: (request) => {
      if (broken || !isAnswered(request)) return undefined;
      const worker = world.workers.find(({ url }) => request.url.startsWith(`${url}/`));
      if (worker === undefined || worker.role === "prefill") return undefined;
      broken = true;
      return async (outgoing, signal) => {
        const response = await worker.simulator.handle(outgoing, signal);
        return { ...response, body: resetAfter(response.body, cutAfter ?? 0, request.url) };
      };
    },
  });
  return await world.clock.run(async () => {
    const router = await world.router();
    await router.ready();
    const answer = await ask(router, `Question ${question}`, {
      sampling: { ...greedy, ...sampling },
      client,
    });
    await world.clock.sleep(3000);
    assert.equal(engineTotals(world.workers).running, 0, "an engine still works");
    for (const one of router.services.models.values()) {
      for (const { inFlight } of one.pool.workers()) assert.equal(inFlight, 0);
    }
    await router.close();
    return answer;
  });
}

/** True for a request whose answer is a stream of tokens. */
function isAnswered({ body }: OutgoingRequest): boolean {
  return typeof body === "string" && body.includes('"stream":true');
}

for (const [number, kind] of kinds.entries()) {
  test(`${kind.name}: an answer that breaks off at any token goes on as if nothing had happened`, async () => {
    const sampling = { max_tokens: 48 };
    const whole = await answerOf(kind, { cutAfter: undefined, sampling });
    assert.equal(whole.record.state, "done");
    for (let cutAfter = number % EVERY; cutAfter <= 50; cutAfter += EVERY) {
      const broken = await answerOf(kind, { cutAfter, sampling });
      assert.deepEqual(outcomeOf(broken), outcomeOf(whole), `broken after ${cutAfter} chunks`);
    }
  });

  test(`${kind.name}: stop strings and characters of several tokens survive the seam`, async () => {
    const { text } = await answerOf(kind, { cutAfter: undefined, sampling: { max_tokens: 60 } });
    const wide = [...text].findIndex((character) => character > "\u007f");
    assert.ok(wide > 0, `no wide character in ${text}`);
    await fc.assert(
      fc.asyncProperty(
        fc.nat(58),
        fc.oneof(fc.nat(text.length - 2), fc.integer({ min: Math.max(0, wide - 6), max: wide })),
        fc.integer({ min: 1, max: 14 }),
        async (cutAfter, from, length) => {
          const stop = [text.slice(from, from + length), "never said"].filter((one) => one.isWellFormed());
          const sampling = { max_tokens: 60, stop };
          const whole = await answerOf(kind, { cutAfter: undefined, sampling });
          // SGLang's streams do not tell an answer's last character from the first one of a stop that it equals.
          fc.pre(stop.length === 1 || whole.text === text.slice(0, text.indexOf(stop[0]!)));
          const broken = await answerOf(kind, { cutAfter, sampling });
          assert.deepEqual(outcomeOf(broken), outcomeOf(whole));
        },
      ),
      { numRuns: often(20) },
    );
  });
}

test("the beginning of a stop string that SGLang lets out at the end, without ids, is no answer without ids", async () => {
  const kind = kinds[2]!;
  const { text } = await answerOf(kind, { cutAfter: undefined, sampling: { max_tokens: 60 } });
  const stop = [text.slice(265, 269), "never said"];
  assert.equal(stop[0], " and", "behind a text that ends like the beginning of the other one");
  const sampling = { max_tokens: 60, stop };
  const whole = await answerOf(kind, { cutAfter: undefined, sampling });
  assert.equal(whole.record.state, "done");
  for (const cutAfter of [1, 20]) {
    assert.deepEqual(outcomeOf(await answerOf(kind, { cutAfter, sampling })), outcomeOf(whole));
  }
});

test("vLLM begins a seed's random numbers anew: such an answer begins anew, too, while nobody has had any of it", async () => {
  const kind = kinds[0]!;
  const sampling = { temperature: 1, seed: 7, max_tokens: 40 };
  const whole = await answerOf(kind, { cutAfter: undefined, sampling });
  for (const client of ["waits", "streams"] as const) {
    const broken = await answerOf(kind, { cutAfter: 20, sampling, client });
    const [root] = broken.record.agents;
    assert.deepEqual([root?.restarts, root?.resumes], client === "waits" ? [1, 0] : [0, 1]);
    if (client === "waits") assert.equal(broken.text, whole.text);
  }
  for (const again of [{ temperature: 1 }, { temperature: 0, seed: 7 }]) {
    const { record } = await answerOf(kind, {
      cutAfter: 20,
      sampling: { ...again, max_tokens: 40 },
      client: "waits",
    });
    assert.deepEqual([record.agents[0]?.restarts, record.agents[0]?.resumes], [0, 1], "it goes on");
  }
});

/** Runs of a tree, one a second, while every second (with `kills`) one of the three workers of each model dies. */
async function underKills(
  seconds: number,
  kills: boolean,
  options: (typeof kinds)[number]["world"] = {},
): Promise<{ outcomes: unknown[]; resumed: number; trace: string }> {
  const agents = ["4b", "8b", "32b"].map((model) => ({ model }));
  const graphs = {
    moa: {
      sampling: { max_tokens: 120, ...greedy },
      slots: "declared",
      layers: [{ clusters: 3, agents }, { agents }, { agents: [{ model: "32b" }] }],
    },
  };
  const world = makeWarmWorld({ seed: "kills", replicas: 3, graphs, ...options });
  return await world.clock.run(async () => {
    const router = await world.router();
    await router.ready();
    const answers: Promise<Answer>[] = [];
    for (let second = 0; second < seconds; second++) {
      answers.push(ask(router, `Question ${second}`, {}));
      await world.clock.sleep(1000);
      if (!kills) continue;
      for (const { url, restart } of world.workers) if (url.endsWith(`-${second % 3}.sim`)) restart();
    }
    const ended = await Promise.all(answers);
    await world.clock.sleep(3000);
    assert.equal(engineTotals(world.workers).running, 0, "an engine still works");
    await router.close();
    const events = ended.flatMap(({ record }) => record.events);
    return {
      outcomes: ended.map(outcomeOf),
      resumed: events.filter(({ type }) => type === "agent_resumed").length,
      trace: JSON.stringify(ended.map(({ record }) => record)),
    };
  }, { limitMs: 600_000 });
}

test("one of three workers killed every second for 20 seconds: no run is lost, no text and no count differs", async () => {
  const [undisturbed, disturbed] = [await underKills(20, false), await underKills(20, true)];
  assert.equal(undisturbed.resumed, 0);
  assert.ok(disturbed.resumed > 30, `${disturbed.resumed} resumed`);
  for (const [index, outcome] of disturbed.outcomes.entries()) {
    assert.deepEqual(outcome, undisturbed.outcomes[index], `run ${index}`);
  }
});

for (const { name, world } of kinds.filter(({ name }) => name.startsWith("a pair"))) {
  test(`${name}: both halves killed every second for five: no run is lost, no text and no count differs`, async () => {
    const [undisturbed, disturbed] = [await underKills(5, false, world), await underKills(5, true, world)];
    assert.ok(disturbed.resumed > 5, `${disturbed.resumed} resumed`);
    assert.deepEqual(disturbed.outcomes, undisturbed.outcomes);
  });
}

test("the same seed gives the same run under kills", async () => {
  assert.equal((await underKills(3, true)).trace, (await underKills(3, true)).trace);
});
