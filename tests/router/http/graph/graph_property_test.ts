import assert from "node:assert/strict";
import { test } from "node:test";
import { fc, often } from "../../../properties.ts";
import { graphAnswerSchema } from "../../../../router/http/graph/response_schema.ts";
import { EngineError } from "../../../../router/worker/engine_error.ts";
import { graphApp } from "./graph_app.ts";

/** An agent that reads some of those before it. */
interface Drawn {
  readonly reads: readonly number[];
  readonly fails: boolean;
  readonly startMs: number;
}

const drawnGraph: fc.Arbitrary<Drawn[]> = fc.array(
  fc.record({
    reads: fc.uniqueArray(fc.nat({ max: 20 }), { maxLength: 4 }),
    fails: fc.integer({ min: 0, max: 5 }).map((draw) => draw === 0),
    startMs: fc.integer({ min: 0, max: 30 }),
  }),
  { minLength: 1, maxLength: 12 },
).map((agents) => agents.map((agent, at) => ({ ...agent, reads: agent.reads.filter((read) => read < at) })));

const FAILURE = new EngineError("It broke", {
  code: "broken",
  status: 502,
  workerUrl: "http://w1",
  retryable: false,
});

test("random graphs: an agent answers exactly if it and all before it can, from exactly their answers", async () => {
  await fc.assert(
    fc.asyncProperty(drawnGraph, async (agents) => {
      const { clock, post, assertIdle, engines } = graphApp({
        script: (prompt) => {
          const agent = agents[Number(/^\d+/.exec(prompt)?.[0])]!;
          const failAt = agent.fails ? { failAt: { piece: 1, error: FAILURE } } : {};
          return { pieces: ["(", prompt, ")"], startMs: agent.startMs, stepMs: 2, ...failAt };
        },
      });
      const texts: (string | undefined)[] = [];
      agents.forEach(({ reads, fails }, at) => {
        const answers = reads.map((read) => texts[read]);
        texts[at] = fails || answers.includes(undefined) ? undefined : `(${at} ${answers.join("")})`;
      });
      const isRead = (at: number) => agents.some(({ reads }) => reads.includes(at));
      /** Every way from the agent to an output leads over a failure: it may be stopped. */
      const inVain = (at: number): boolean =>
        isRead(at) &&
        agents.every(({ reads }, reader) =>
          !reads.includes(at) || texts[reader] === undefined || inVain(reader)
        );
      const outputs = agents.map((_, at) => at).filter((at) => !isRead(at));

      await clock.run(async () => {
        const body = agents.map(({ reads }, at): [string, unknown] => [`n${at}`, {
          model: at % 2 === 0 ? "small" : "big",
          prompt: { text: `${at} ${reads.map((read) => `<|answer:n${read}|>`).join("")}` },
        }]);
        const response = await post("/v1/graph", { agents: Object.fromEntries(body) });
        if (outputs.every((at) => texts[at] === undefined)) {
          assert.equal(response.status, 502);
          return void await response.body?.cancel();
        }
        const graph = graphAnswerSchema.parse(await response.json());
        assert.deepEqual(graph.outputs, outputs.map((at) => `n${at}`));
        for (const [at, text] of texts.entries()) {
          const { state, text: said } = graph.agents[`n${at}`]!;
          if (state === "done") assert.equal(said, text);
          else if (text !== undefined) assert.ok(state === "cancelled" && inVain(at), `n${at} is ${state}`);
        }
        for (const at of outputs) {
          assert.equal(graph.agents[`n${at}`]?.state, texts[at] === undefined ? "failed" : "done");
        }
      });
      assertIdle();
      const calls = [...engines.values()].reduce((sum, engine) => sum + engine.calls.length, 0);
      assert.ok(calls <= agents.length, "no agent is called twice");
    }),
    { numRuns: often(70) },
  );
});
