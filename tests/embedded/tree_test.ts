import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { RunRecord } from "../../router/moa/record/run_record.ts";
import type { AgentUsage } from "../../router/moa/record/usage.ts";
import { type ServedTree, startTrees, withTree } from "./tree.ts";

// A tree of 13 agents over real transformers with a real cache, in this process, asked over HTTP.

const QUESTION = "Why is the sky blue, and why is it red when the sun sets?";

// Served by one router, since its models take long to start: whoever wants a cold cache asks another question.
const { trees, close } = await startTrees({
  plain: { warm: false },
  unwarmed: { warm: false, maxTokens: 40 },
  warmed: { warm: true, maxTokens: 40 },
  left1: { warm: false, maxTokens: 300 },
  left2: { warm: true, maxTokens: 60 },
  left3: { warm: false, maxTokens: 60, rootTokens: 300 },
  exits: {
    warm: true,
    earlyExit: { metric: "random", probability: 1, min_agents: 1 },
    maxTokens: 300,
    firstTokens: 8,
  },
});
after(close);

function lastRun(tree: ServedTree): RunRecord {
  const record = tree.record();
  assert.ok(record !== undefined);
  return record;
}

/** A conversation that an engine is to render itself, or ids. */
function promptOf(record: RunRecord, id: string): unknown {
  const prompt = record.agents.find((agent) => agent.id === id)?.prompt;
  assert.ok(
    prompt !== undefined && (prompt.kind === "tokens" || id.startsWith("l1.")),
    `${id}: ${prompt?.kind}`,
  );
  return prompt;
}

test("all 13 agents answer, and usage is what the engines have counted", async () => {
  const tree = trees.plain;
  const before = await tree.counts();
  const { text, usage } = await tree.ask(QUESTION);
  await tree.idle();
  const record = lastRun(tree);
  assert.deepEqual(record.agents.map(({ state }) => state), Array.from({ length: 13 }, () => "done"));
  assert.equal(record.usage.calls, 13);
  for (const { type, data } of record.events.filter(({ type }) => type === "agent_placed")) {
    const { file, products, cpu } = Object(data?.computes);
    assert.deepEqual([type, file, products], ["agent_placed", "model.onnx", "none"]);
    assert.ok(cpu.length > 3);
  }
  assert.equal(record.agents.at(-1)?.text, text);
  for (const { usage: own } of record.agents) assert.equal(own?.completionTokens, 24);
  const after = await tree.counts();
  const cached = usage.prompt_tokens_details;
  assert.deepEqual(
    [usage.prompt_tokens, usage.completion_tokens, cached],
    [
      after.promptTokens - before.promptTokens,
      after.generatedTokens - before.generatedTokens,
      { ...Object(cached), cached_tokens: after.cachedTokens - before.cachedTokens },
    ],
  );
  // Asked again, all but the last token of each prompt is in the cache.
  await tree.ask(QUESTION);
  for (const { usage: own } of lastRun(tree).agents) {
    assert.ok(own !== undefined && own.promptTokens > 10);
    assert.equal(own.cachedTokens, own.promptTokens - 1);
  }
  assert.equal(lastRun(tree).agents.at(-1)?.text, text);
});

async function runOf(tree: ServedTree): Promise<RunRecord> {
  await tree.ask(`Cold: ${QUESTION}`);
  await tree.idle();
  return lastRun(tree);
}

/** A run with warms over models that have computed nothing yet. */
async function warmedRun(): Promise<RunRecord> {
  const records: RunRecord[] = [];
  await withTree({ warm: true, maxTokens: 40 }, async (tree) => void records.push(await runOf(tree)));
  return records[0]!;
}

/** Tokens of an agent's warms that are done. */
function warmedTokens(run: RunRecord, id: string): number[] {
  return run.events.filter(({ type, agent }) => type === "warm_done" && agent === id)
    .map(({ data }) => Number(data?.tokens));
}

test("with incremental prefill prompts and answers are the same, and what was warmed is found in the cache", async () => {
  // The root shares its model with others.
  const readers = ["l2.c1.a1", "l2.c1.a2"];
  const off = await runOf(trees.unwarmed);
  assert.equal(off.usage.warmTokens ?? 0, 0);
  const usageOf = (run: RunRecord, id: string): AgentUsage | undefined =>
    run.agents.find((agent) => agent.id === id)?.usage;
  // How much can be warmed hangs on when the threads get the CPU; that it is found again does not.
  for (let run = 1;; run++) {
    const on = await warmedRun();
    for (const agent of off.agents) {
      assert.deepEqual(promptOf(on, agent.id), promptOf(off, agent.id));
      assert.equal(on.agents.find(({ id }) => id === agent.id)?.text, agent.text);
    }
    const warms = readers.map((id) => ({ id, tokens: warmedTokens(on, id) }));
    for (const { id, tokens } of warms) {
      assert.ok((usageOf(on, id)?.cachedTokens ?? 0) >= Math.max(0, ...tokens), id);
    }
    const most = warms.every(({ id, tokens }) =>
      Math.max(0, ...tokens) > (usageOf(on, id)?.promptTokens ?? 0) / 2 &&
      (usageOf(off, id)?.cachedTokens ?? 0) < Math.max(0, ...tokens)
    );
    if (most && warms.flatMap(({ tokens }) => tokens).length > 2) break;
    assert.ok(run < 20, "warms were sent while precursors wrote");
  }
});

test("a prompt's long beginning is warmed in one go, for the engine itself sees to its streams", async () => {
  const tree = trees.warmed;
  await tree.ask(`Colours: ${QUESTION} ${"It is a long question. ".repeat(60)}`);
  await tree.idle();
  const run = lastRun(tree);
  for (const id of ["l2.c1.a1", "l2.c1.a2", "l2.c1.a3"]) {
    const first = run.events.find(({ type, agent }) => type === "warm_sent" && agent === id);
    const prompt = run.agents.find((agent) => agent.id === id)?.usage?.promptTokens ?? 0;
    assert.ok(prompt > 512, `the prompt has ${prompt} tokens`);
    assert.ok(Number(first?.data?.["tokens"]) > 300, `${id}: ${JSON.stringify(first?.data)} of ${prompt}`);
  }
});

for (const layer of [1, 2, 3] as const) {
  test(`a client that leaves while layer ${layer} writes leaves no sequence behind`, async () => {
    const tree = trees[`left${layer}`];
    const { clock } = tree.router.services;
    const writes = () =>
      tree.record()?.agents.some(({ id, state }) => id.startsWith(`l${layer}.`) && state === "running");
    // Again where the run was over before anybody saw that the layer writes, or heard that the client has left.
    for (let attempt = 1;; attempt++) {
      const leaving = new AbortController();
      let over = false;
      const asked = tree.ask(`${attempt} for layer ${layer}: ${QUESTION}`, leaving.signal)
        .then(() => false, () => true).finally(() => over = true);
      while (!writes() && !over) await clock.sleep(2);
      leaving.abort();
      const left = await asked;
      while (lastRun(tree).state === "running") await clock.sleep(2);
      if (left && lastRun(tree).state === "cancelled") break;
      assert.ok(attempt < 20, "the client left while the layer wrote");
    }
    await tree.idle();
    // What the models were told before they have heard once they answer this; a token of each is all that comes then.
    const models = await tree.touch();
    await tree.idle();
    const { generatedTokens } = await tree.counts();
    await tree.touch();
    assert.equal((await tree.counts()).generatedTokens, generatedTokens + models);
    assert.equal(lastRun(tree).state, "cancelled");
  });
}

test("an early exit ends the other members on the engine, and their successors go on without them", async () => {
  const tree = trees.exits;
  const before = await tree.counts();
  await tree.ask(`Early: ${QUESTION}`);
  await tree.idle();
  const record = lastRun(tree);
  assert.equal(record.state, "done");
  assert.equal(record.exits.filter(({ exit }) => exit).length, 4);
  // Of each cluster the two that write more.
  const cut = record.agents.filter(({ state }) => state === "cancelled");
  assert.equal(cut.length, 8);
  for (const { usage } of cut) assert.ok((usage?.completionTokens ?? 0) < 300);
  const generatedTokens = (await tree.counts()).generatedTokens - before.generatedTokens;
  const written = record.agents.reduce((sum, { usage }) => sum + (usage?.completionTokens ?? 0), 0);
  // Warms draw a token each.
  const warms = record.events.filter(({ type }) => type === "warm_sent").length;
  assert.ok(
    generatedTokens >= written && generatedTokens < 4 * (8 + 2 * 200) + 300 + warms,
    `${generatedTokens} were generated, ${written} heard of; ${warms} warms`,
  );
});
