import assert from "node:assert/strict";
import { test } from "node:test";
import type { JsonObject } from "../../../base/json.ts";
import { liveChange } from "../../../cfgs/check/live_change.ts";
import { withPlannedWorkers } from "../../../launcher/plan/launch_plan.ts";
import { onRunningPlan } from "../../../launcher/plan/running_plan.ts";
import { configOf, planned, recorded } from "../planned.ts";

const big = { model: "Qwen/Qwen3-8B", engine: "sglang" };
const far = { model: "Qwen/Qwen3-4B", engine: "vllm", workers: ["http://far:8000"] };

/** What a launch of `first` makes of `then`, and the workers that it has planned for its model `big`. */
async function read(first: JsonObject, then: JsonObject) {
  const config = configOf(first);
  const plan = await planned(config, recorded("a100x2.txt"));
  const again = () => onRunningPlan(configOf(then), { plan, planned: config, family: undefined });
  return { again, workers: plan.workers.get("big"), started: withPlannedWorkers(config, plan) };
}

test("engines stay as they were started, and what else their model says is taken over", async () => {
  const { again, workers } = await read({ models: { big } }, {
    models: { big: { ...big, model: "Qwen/Qwen3-4B", context_tokens: 4096, max_in_flight: 7 } },
  });
  const { config, later } = again();
  assert.deepEqual(later, ["models.big.model", "models.big.context_tokens"]);
  const { model, context_tokens, max_in_flight, workers: kept } = config.models["big"]!;
  assert.deepEqual({ model, context_tokens, max_in_flight }, {
    model: "Qwen/Qwen3-8B",
    context_tokens: undefined,
    max_in_flight: 7,
  });
  assert.deepEqual(kept, workers);
  assert.ok(workers !== undefined && workers.length > 0);
});

test("what has not changed is not told, and the workers are those of the plan", async () => {
  const first = { models: { big: { ...big, launch: { replicas: 2 } } } };
  const { again, workers } = await read(first, first);
  const { config, later } = again();
  assert.deepEqual(later, []);
  assert.deepEqual(config.models["big"]?.workers, workers);
});

test("a model of which a setting of its engines alone is gone from the file stays as it is", async () => {
  const { again, started } = await read(
    { models: { big: { ...big, launch: { replicas: 2 }, context_tokens: 4096, max_in_flight: 7 } } },
    { models: { big: { ...big, max_in_flight: 7 } } },
  );
  const { config, later } = again();
  assert.deepEqual(later, ["models.big.launch", "models.big.context_tokens"]);
  assert.deepEqual(liveChange(started, config).now, []);
  assert.equal(JSON.stringify(config), JSON.stringify(started));
});

test("a setting that is gone from the file and is not of the engines is gone from their model", async () => {
  const { again, started } = await read(
    { models: { big: { ...big, price: { prompt: 1, completion: 2 } } } },
    { models: { big } },
  );
  const { config, later } = again();
  assert.deepEqual(later, []);
  assert.deepEqual(liveChange(started, config).now, ["models.big"]);
  assert.equal(config.models["big"]?.price, undefined);
});

test("a model elsewhere comes, changes and goes; one that is gone leaves its engines running", async () => {
  const { again } = await read({ models: { big } }, { models: { far } });
  const { config, later } = again();
  assert.deepEqual(Object.keys(config.models), ["far"]);
  assert.deepEqual(config.models["far"]?.workers, far.workers);
  assert.deepEqual(later, ["models.big (its engines run until then)"]);
});

test("a new model whose engines would have to be started is refused by name", async () => {
  const { again } = await read({ models: { big } }, { models: { big, other: { ...big } } });
  assert.throws(again, {
    code: "not_started",
    message: "models.other needs engines that this launch has not started: start it anew, or name servers " +
      "elsewhere in its workers",
  });
});
