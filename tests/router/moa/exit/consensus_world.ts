import { isJsonObject, type JsonObject } from "../../../../base/json.ts";
import type { RunInput } from "../../../../router/moa/graph/run_input.ts";
import type { RunRecord } from "../../../../router/moa/record/run_record.ts";
import type { Script } from "../fake_engine.ts";
import { services } from "../fake_scorer.ts";
import { makeWorld, readAll, type World } from "../run_harness.ts";

/** A question with one answer. */
export const question = { kind: "text", text: "How many apples are left?" } as const;

/** Pieces of a worked solution with an announced answer and a farewell behind it. */
export function solution(answer: string, steps = 4): string[] {
  const working = Array.from({ length: steps }, (_, step) => `Step ${step}: 2 plus 3 is 5.\n`);
  return [...working, "The answer ", `is ${answer}.`, " I hope ", "that helps."];
}

/** What a test says about a tree whose agents vote. */
export interface Setting {
  readonly consensus?: JsonObject;
  readonly more?: JsonObject;
  /** More settings of the models. */
  readonly fields?: JsonObject;
  /** More settings of the graph. */
  readonly graph?: JsonObject;
  /** By the agent's place among the leaves, from 0; of the others the script of the aggregators. */
  readonly leaf: (place: number) => Script;
  readonly later?: Script | (() => Script);
  /** Of the model that writes the agreed answer up. */
  readonly rewrite?: Script;
  /** Keys of the models. */
  readonly names?: readonly [string, string];
}

/** A tree of six leaves, two aggregators and a root. */
export function consensusWorld(
  {
    consensus = { agree: 3 },
    more = {},
    graph = {},
    fields = {},
    leaf,
    later = { pieces: ["root"] },
    rewrite,
    names: [a, b] = ["a", "b"],
  }: Setting,
): World {
  const agents = [{ model: a }, { model: b }, { model: a }];
  return makeWorld({
    graph: {
      layers: [
        { clusters: 2, agents: agents.map((agent, place) => ({ ...agent, sampling: { seed: place } })) },
        { agents: [{ model: a }, { model: b }] },
        { agents: [{ model: b }] },
      ],
      early_exit: { scope: "run", consensus, ...more },
      ...graph,
    },
    models: [a, b],
    modelFields: { model: "org/model", ...fields },
    prompts: {
      propose: "leaf [input_prompts]",
      aggregate: "mid [responses]",
      synthesize: "root [responses]",
      rewrite: "rewrite [responses]",
    },
    script: leafScripts({ leaf, later, rewrite }),
    earlyExit: () => services({ policyOf: () => undefined }),
  });
}

/** Leaves are told apart by the order in which they ask. */
function leafScripts(
  { leaf, later, rewrite }: Required<Pick<Setting, "leaf" | "later">> & { rewrite: Script | undefined },
) {
  let asked = 0;
  return ({ prompt }: { prompt: string }): Script => {
    if (prompt.includes("leaf")) return leaf(asked++);
    if (rewrite !== undefined && prompt.includes("rewrite")) return rewrite;
    return typeof later === "function" ? later() : later;
  };
}

/** Asks once, reads to the end, and looks that nothing is left. */
export async function played(world: World, input: Partial<RunInput> = {}) {
  return await world.clock.run(async () => {
    const run = world.start({ question, ...input });
    const [text] = await readAll(run);
    const answeredMs = world.clock.now();
    await run.ended;
    world.assertIdle();
    return { text, record: run.record(), usage: run.usage(), answeredMs };
  });
}

/** The figures of a run's decisions, in their order. */
export function decisionsOf(record: RunRecord): JsonObject[] {
  return record.events.flatMap(({ type, data }) =>
    type === "consensus_decided" && isJsonObject(data) ? [data] : []
  );
}
