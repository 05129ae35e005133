import assert from "node:assert/strict";
import { test } from "node:test";
import type { RunRecord } from "../../../router/moa/record/run_record.ts";
import { isJsonObject, type JsonObject } from "../../../base/json.ts";
import type { RunInput } from "../../../router/moa/graph/run_input.ts";
import { fc } from "../../properties.ts";
import { ExitWorld } from "../exit_world.ts";
import { ask, eventsOf, makeWarmWorld } from "../warm_world.ts";
import { resetAfter } from "../reset_after.ts";
import { engineTotals } from "../world.ts";

const small = { first_tokens: 12, chunk_tokens: 20, steps: 3, write_tokens: 5, ahead_tokens: 12 };

function treeOf(more: Record<string, unknown>): Record<string, unknown> {
  const agents = ["4b", "8b", "32b"].map((model) => ({ model }));
  return {
    moa: {
      sampling: { max_tokens: 120, temperature: 0 },
      root: "staircase",
      staircase: small,
      layers: [{ agents }, { agents: [{ model: "32b", sampling: { max_tokens: 60 } }] }],
      ...more,
    },
  };
}

/** What a client has got, piece by piece, and the record of its run. */
interface Seen {
  readonly texts: readonly string[];
  readonly text: string;
  readonly finish: string | undefined;
  readonly firstMs: number;
  readonly record: RunRecord;
}

type WorldOptions = Partial<Parameters<typeof makeWarmWorld>[0]>;

/** Asks a tree of three and a root one question; `cutEvery`: of so many streams one breaks after some chunks. */
async function askTree(
  { graph = {}, input = {}, effort, world: options = {}, cuts = () => undefined }: {
    readonly graph?: Record<string, unknown>;
    readonly input?: Partial<RunInput>;
    readonly effort?: "low" | "high";
    readonly world?: WorldOptions;
    /** Chunks after which the n-th stream breaks; undefined: it does not. */
    readonly cuts?: (stream: number) => number | undefined;
  },
): Promise<Seen> {
  let streams = 0;
  const world = makeWarmWorld({
    seed: "stairs",
    replicas: 2,
    graphs: treeOf(graph),
    model: { retries: 3 },
    ...options,
    intercept: ({ body: asked, url }) => {
      if (typeof asked !== "string" || !asked.includes('"stream":true')) return undefined;
      const worker = world.workers.find((one) => url.startsWith(`${one.url}/`));
      const chunks = cuts(streams++);
      if (worker === undefined || chunks === undefined) return undefined;
      return async (request, signal) => {
        const response = await worker.simulator.handle(request, signal);
        return { ...response, body: resetAfter(response.body, chunks, request.url) };
      };
    },
  });
  return await world.clock.run(async () => {
    const router = await world.router();
    await router.ready();
    const { moa } = router.services;
    const startMs = world.clock.now();
    const whole = moa.graphs.get("moa")!;
    const run = moa.start(effort === undefined ? whole : whole.efforts![effort], {
      question: { kind: "chat", messages: [{ role: "user", content: "Question 7" }] },
      rootSampling: {},
      choices: 1,
      ...input,
    }, new AbortController().signal);
    const texts: string[] = [];
    let firstMs = NaN;
    let finish: string | undefined;
    try {
      for await (const event of run.output) {
        if (event.type === "end") finish = event.finishReason;
        else if (event.delta.text !== "") {
          if (texts.length === 0) firstMs = world.clock.now() - startMs;
          texts.push(event.delta.text);
        }
      }
    } catch {
      // The record tells.
    }
    await run.ended;
    await world.clock.sleep(3000);
    assert.equal(engineTotals(world.workers).running, 0, "an engine still works");
    for (const served of router.services.models.values()) {
      for (const { inFlight } of served.pool.workers()) assert.equal(inFlight, 0);
    }
    await router.close();
    return { texts, text: texts.join(""), finish, firstMs, record: run.record() };
  });
}

const rootOf = ({ agents }: RunRecord) => agents.at(-1)!;

test("a staircase root speaks while its precursors write, and its last step reads all of their answers", async () => {
  const [stairs, waits] = [await askTree({}), await askTree({ input: { root: "wait" } })];
  assert.equal(stairs.record.state, "done", stairs.record.error?.message ?? "");
  assert.ok(stairs.firstMs < waits.firstMs / 3, `${stairs.firstMs} against ${waits.firstMs} ms`);
  const root = rootOf(stairs.record);
  assert.equal(root.text, stairs.text);
  const steps = root.steps ?? [];
  assert.deepEqual(steps.map(({ isLast }) => isLast), [false, false, false, true]);
  assert.deepEqual(steps.map(({ before }) => before), [0, 5, 10, 12], "5 tokens a step, 12 at most");
  const first = Object.values(steps[0]?.reads ?? {});
  assert.equal(first.length, 3);
  assert.ok(Math.min(...first) >= 12 && Math.min(...first) < 20, `${first}: the slowest has its first words`);
  const ended = steps.at(-1)!;
  assert.deepEqual(rootOf(waits.record).prompt, root.prompt, "the last prompt is that of a root that waits");
  assert.equal(ended.before + (ended.completionTokens ?? 0), 60);
  assert.equal(rootOf(waits.record).steps, undefined);
});

test("all that a staircase reads and writes is counted, step by step, in the trace, the record and the usage", async () => {
  const { record } = await askTree({});
  const root = rootOf(record);
  const steps = root.steps ?? [];
  const events = eventsOf(record, "agent_step", root.id);
  assert.deepEqual(
    events.map(({ data }) => [data?.["prompt_tokens"], data?.["tokens"], data?.["last"]]),
    steps.map(({ promptTokens, completionTokens, isLast }) => [promptTokens, completionTokens, isLast]),
  );
  const sum = (of: (step: (typeof steps)[number]) => number | undefined) =>
    steps.reduce((total, step) => total + (of(step) ?? NaN), 0);
  assert.equal(root.usage?.promptTokens, sum((step) => step.promptTokens));
  assert.equal(root.usage?.completionTokens, sum((step) => step.completionTokens));
  assert.equal(root.usage?.cachedTokens, sum((step) => step.cachedTokens));
  assert.equal(root.usage?.calls, steps.length);
  assert.equal(root.resumes, 0, "a step is no answer that broke off");
  assert.ok(sum((step) => step.cachedTokens) > 0, "each step finds what the one before has read");
});

test("what engines counted is what the usage says of a run with a staircase", async () => {
  const world = makeWarmWorld({
    seed: "count",
    replicas: 1,
    graphs: treeOf({ incremental_prefill: "off" }),
  });
  await world.clock.run(async () => {
    const router = await world.router();
    await router.ready();
    const before = engineTotals(world.workers);
    const { moa } = router.services;
    const run = moa.start(moa.graphs.get("moa")!, {
      question: { kind: "chat", messages: [{ role: "user", content: "Question 9" }] },
      rootSampling: {},
      choices: 1,
    }, new AbortController().signal);
    for await (const _ of run.output);
    await run.ended;
    const after = engineTotals(world.workers);
    assert.equal(run.usage().promptTokens, after.promptTokens - before.promptTokens);
    assert.equal(run.usage().completionTokens, after.generationTokens - before.generationTokens);
    await router.close();
  });
});

test("every agent that reads others may climb: then the first word waits for no layer", async () => {
  const agents = ["4b", "8b", "32b"].map((model) => ({ model }));
  const layers = [{ clusters: 3, agents }, { agents }, { agents: [{ model: "32b" }] }];
  const [all, root] = [
    await askTree({ graph: { layers, staircase: { ...small, climbs: "all" } } }),
    await askTree({ graph: { layers } }),
  ];
  for (const { record } of [all, root]) assert.equal(record.state, "done", record.error?.message ?? "");
  assert.ok(all.firstMs < root.firstMs / 2, `${all.firstMs} against ${root.firstMs} ms`);
  assert.equal(all.record.agents.filter(({ steps }) => steps !== undefined).length, 4);
});

test("a root whose engine returns no ids, or whose tokenizer nobody knows, waits, and the trace says why", async () => {
  for (
    const [model, reason] of [
      [{ engine: "openai" }, "the engine takes no token ids"],
      [{ tokenizer: false }, "the router does not know the model's tokenizer"],
    ] as const
  ) {
    const { record } = await askTree({ world: { model } });
    assert.equal(record.state, "done", record.error?.message ?? "");
    assert.equal(rootOf(record).steps, undefined);
    const [off] = eventsOf(record, "staircase_off");
    assert.deepEqual([off?.agent, off?.data], [rootOf(record).id, { reason }]);
  }
});

test("at low effort the run may end early: the root waits, and the trace says why", async () => {
  const { record } = await askTree({
    effort: "low",
    world: { earlyExit: (clock) => new ExitWorld("low", "none").services(clock) },
  });
  assert.equal(record.state, "done", record.error?.message ?? "");
  assert.equal(rootOf(record).steps, undefined);
  const [off] = eventsOf(record, "staircase_off");
  assert.match(String(off?.data?.["reason"]), /^early_exit of scope "run"/);
  assert.equal(rootOf((await askTree({ effort: "high" })).record).steps?.length, 4);
});

test("where a server orders its queue by priority, first steps go ahead of all that they do not wait for", async () => {
  const bodies: JsonObject[] = [];
  const agents = ["8b", "32b"].map((model) => ({ model }));
  const readers = [{ model: "4b" }, { model: "4b" }];
  const world = makeWarmWorld({
    seed: "ahead",
    replicas: 1,
    graphs: treeOf({
      staircase: { ...small, climbs: "all" },
      layers: [{ agents }, { agents: readers }, { agents: [{ model: "4b" }] }],
      incremental_prefill: "off",
    }),
    intercept: ({ body: asked, url }) => {
      if (url.endsWith("/server_info?config_format=json")) {
        const info = { vllm_config: { scheduler_config: { policy: "priority" } } };
        const bytes = new TextEncoder().encode(JSON.stringify(info));
        const body = async function* () {
          yield await Promise.resolve(bytes);
        };
        return () => Promise.resolve({ status: 200, headers: {}, body: body() });
      }
      const sent: unknown = typeof asked === "string" ? JSON.parse(asked) : undefined;
      if (isJsonObject(sent) && sent["stream"] === true) bodies.push(sent);
      return undefined;
    },
  });
  await world.clock.run(async () => {
    const router = await world.router();
    await router.ready();
    const record = await ask(router, "moa", "Question 3");
    await router.close();
    assert.equal(record.state, "done", record.error?.message ?? "");
    for (const { steps = [] } of record.agents.slice(2)) assert.ok(steps.length > 1);
    // A priority that ends it does not know: the leaves, which are asked for all of their answers, have none.
    const priorities = bodies.map(({ priority }) => priority).filter((priority) => priority !== undefined);
    assert.deepEqual(priorities.sort(), [-2, -2, -3]);
  });
});

test("a client's stop string ends the answer in the middle of a staircase, and its precursors with it", async () => {
  const { text } = await askTree({});
  const stop = text.slice(20, 26);
  const { text: cutText, finish, record } = await askTree({ input: { rootSampling: { stop: [stop] } } });
  assert.equal(cutText, text.slice(0, text.indexOf(stop)));
  assert.equal(finish, "stop");
  assert.equal(record.state, "done");
});

test("several choices climb each on their own", async () => {
  const { record } = await askTree({ input: { choices: 2, rootSampling: { temperature: 1, seed: 5 } } });
  assert.equal(record.state, "done", record.error?.message ?? "");
  const roots = record.agents.slice(-2);
  assert.deepEqual(roots.map(({ id }) => id), ["l2.c1.a1", "l2.c1.a1#2"]);
  for (const { steps } of roots) assert.equal(steps?.length, 4);
});

const servers: { name: string; world: WorldOptions }[] = [
  { name: "single servers", world: {} },
  { name: "pairs of SGLang servers", world: { pairs: { engine: "sglang-pd" } } },
  { name: "pairs of vLLM servers", world: { pairs: { engine: "vllm-pd" } } },
];

for (const { name, world } of servers) {
  test(`${name}: what the client has is never taken back, whatever the steps, the order of answers and the faults`, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          first_tokens: fc.integer({ min: 1, max: 60 }),
          chunk_tokens: fc.integer({ min: 1, max: 60 }),
          steps: fc.integer({ min: 1, max: 6 }),
          write_tokens: fc.integer({ min: 1, max: 30 }),
          ahead_tokens: fc.integer({ min: 1, max: 80 }),
          climbs: fc.constantFrom("root", "all"),
        }),
        fc.constantFrom("declared", "completion"),
        fc.constantFrom("32b", "8b", "4b"),
        fc.array(fc.option(fc.nat(30), { nil: undefined }), { maxLength: 12 }),
        fc.constantFrom(undefined, [" and"], ["e", "zzz"]),
        async (staircase, slots, root, cuts, stop) => {
          const agents = ["4b", "8b", "32b"].map((model, index) => ({
            model,
            sampling: { max_tokens: 40 + 50 * index },
          }));
          const { text, texts, finish, record } = await askTree({
            graph: { staircase, slots, layers: [{ agents }, { agents: [{ model: root }] }] },
            world,
            cuts: (stream) => cuts[stream],
            input: stop === undefined ? {} : { rootSampling: { stop } },
          });
          const last = rootOf(record);
          // All that was sent stands in the answer, once and in this order; a failed one ends where the client's ends.
          assert.equal(last.text, text);
          assert.equal(texts.join(""), text);
          // Half a character stands at most where the answer was cut off.
          assert.ok(text.isWellFormed() && !text.slice(0, -1).includes("\ufffd"));
          for (const string of stop ?? []) assert.ok(!text.includes(string));
          if (record.state !== "done") return;
          assert.ok(finish === "length" || finish === "stop");
          const steps = last.steps ?? [];
          for (const [index, { before, isLast }] of steps.entries()) {
            assert.ok(before <= staircase.ahead_tokens);
            assert.equal(isLast && index < steps.length - 1, false);
            assert.ok(before >= (steps[index - 1]?.before ?? 0));
          }
          const { usage } = last;
          if (steps.length > 0 && last.resumes === 0) {
            assert.equal(
              usage?.promptTokens,
              steps.reduce((sum, { promptTokens = 0 }) => sum + promptTokens, 0),
            );
          }
        },
      ),
      { numRuns: 6 },
    );
  });
}

test("the same seed gives the same staircase", async () => {
  const cuts = (stream: number) => [undefined, 9, undefined, undefined, 3, 2][stream];
  assert.deepEqual((await askTree({ cuts })).record, (await askTree({ cuts })).record);
});

test("a request may ask for a staircase, or for none, and is told where it cannot be had", async () => {
  const world = makeWarmWorld({
    seed: "http",
    replicas: 1,
    graphs: {
      ...treeOf({ root: "wait" }),
      exits: { ...treeOf({ root: "wait", early_exit: { skip_root: 0.9 } })["moa"] as object },
      one: { layers: [{ agents: [{ model: "4b" }] }] },
    },
  });
  await world.clock.run(async () => {
    const router = await world.router();
    await router.ready();
    const ask = async (fields: Record<string, unknown>) => {
      const body = { model: "moa", messages: [{ role: "user", content: "Why?" }], ...fields };
      const response = await router.app.request("/v1/chat/completions", {
        method: "POST",
        body: JSON.stringify(body),
      });
      return { status: response.status, body: await response.json() as Record<string, unknown> };
    };
    const stepsOf = async (fields: Record<string, unknown>) => {
      const { status } = await ask(fields);
      assert.equal(status, 200);
      const [{ id } = { id: "" }] = router.services.moa.list();
      const run = await (await router.app.request(`/v1/runs/${id}`)).json() as {
        agents: { steps?: unknown[] }[];
      };
      return run.agents.at(-1)?.steps;
    };
    assert.equal((await stepsOf({ canopy: { root: "staircase" } }))?.length, 4);
    assert.equal(await stepsOf({ canopy: { root: "wait" } }), undefined);
    assert.equal(await stepsOf({}), undefined);
    const why = async (fields: Record<string, unknown>) => {
      const { status, body } = await ask({ ...fields, canopy: { root: "staircase" } });
      const error = body["error"] as { param: string; message: string };
      assert.deepEqual([status, error.param], [400, "canopy.root"]);
      return error.message;
    };
    assert.equal(
      await why({ model: "exits" }),
      'canopy.root cannot be "staircase" for exits: an early_exit may drop agents whose words the root has begun on; ' +
        "leave it out, or ask a virtual model without that setting",
    );
    assert.equal(
      await why({ response_format: { type: "json_object" } }),
      'canopy.root cannot be "staircase" for moa: it was asked for with `response_format`; leave one of the two out',
    );
    assert.match(await why({ model: "one" }), /its root reads nobody/);
    const wrong = await ask({ canopy: { root: "stairs" } });
    assert.equal((wrong.body["error"] as { param: string }).param, "canopy.root");
    await router.close();
  });
});
