import assert from "node:assert/strict";
import { test } from "node:test";
import { CanopyError } from "../../../../base/errors.ts";
import type { DeadlyRequest } from "../../../../router/engines/guards/refuse_deadly.ts";
import { refuseDeadly } from "../../../../router/engines/guards/refuse_deadly.ts";
import { olderThan } from "../../../../router/engines/version.ts";
import { loadCase } from "../wire.ts";

const sglang: DeadlyRequest = {
  engine: "sglang",
  version: "0.5.18",
  vocabSize: 1920,
  path: "/generate",
  body: {},
};

function refuses(request: Partial<DeadlyRequest>, param: string): void {
  assert.throws(() => refuseDeadly({ ...sglang, ...request }), (error) => {
    assert.ok(CanopyError.is(error));
    assert.equal(error.status, 400);
    assert.equal(error.param, param);
    assert.ok(error.message.includes(param));
    return true;
  });
}

const passes = (request: Partial<DeadlyRequest>) => refuseDeadly({ ...sglang, ...request });

test("the recorded requests that killed SGLang are refused", async () => {
  for (
    const [name, param] of [["err_ids_negative", "input_ids[0]"], [
      "err_ids_out_of_vocab",
      "input_ids[1]",
    ]] as const
  ) {
    const { request } = await loadCase("sglang-cpu-0.5.18", name);
    refuses({ body: request.body }, param);
  }
  const { request } = await loadCase("sglang-cpu-0.5.18", "generate_token_ids_logprob");
  refuses({ body: request.body }, "token_ids_logprob");
  passes({ body: request.body, version: "0.5.23" });
});

test("ids outside the vocabulary are refused in every field that holds ids", () => {
  refuses({ body: { input_ids: [1, 2, 1920] } }, "input_ids[2]");
  refuses({ body: { input_ids: [[1], [2, -1]] } }, "input_ids[1][1]");
  refuses({ body: { input_ids: [1.5] } }, "input_ids[0]");
  refuses({ path: "/v1/completions", body: { prompt: [-1] } }, "prompt[0]");
  refuses({ body: { sampling_params: { stop_token_ids: [5000] } } }, "sampling_params.stop_token_ids[0]");
  refuses({ body: { sampling_params: { logit_bias: { "-3": 1 } } } }, "sampling_params.logit_bias.-3");
  refuses({ body: { logit_bias: { "1920": 1 } } }, "logit_bias.1920");
  refuses({ vocabSize: undefined, body: { input_ids: [-1] } }, "input_ids[0]");
  passes({ vocabSize: undefined, body: { input_ids: [151_000] } });
  passes({ body: { input_ids: [0, 1919], sampling_params: { logit_bias: { "7": -100 } } } });
  passes({ body: { prompt: "text", input_ids: null, stop_token_ids: null } });
});

test("more choices than any engine's memory holds are refused, in front of every engine", () => {
  for (const engine of ["vllm", "sglang", "openai"] as const) {
    refuses({ engine, body: { n: 16_385 } }, "n");
    refuses({ engine, body: { n: 2 ** 64 } }, "n");
    refuses({ engine, body: { sampling_params: { n: 1e9 } } }, "sampling_params.n");
    refuses({ engine, body: { sampling_params: [{ n: 1 }, { n: 1e9 }] } }, "sampling_params.n");
    passes({ engine, body: { n: 16_384, sampling_params: { n: null } } });
  }
});

test("fields that belong to the router are refused when a client sends them", () => {
  for (const field of ["bootstrap_host", "bootstrap_port", "bootstrap_room", "bootstrap_pair_key"]) {
    refuses({ body: { [field]: 1 } }, field);
    passes({ body: { [field]: null } });
  }
  refuses({ engine: "vllm-pd", body: { kv_transfer_params: {} } }, "kv_transfer_params");
  passes({ engine: "vllm", body: { kv_transfer_params: {} } });
});

test("what kills or hangs only a prefill/decode pair is refused only there", () => {
  refuses({ engine: "sglang-pd", body: { session_params: { id: "s" } } }, "session_params");
  refuses({ engine: "sglang-pd", body: { n: 2 } }, "n");
  refuses({ engine: "sglang-pd", body: { sampling_params: { n: 2 } } }, "sampling_params.n");
  refuses(
    { engine: "sglang-pd", version: "0.5.10.post1", body: { top_logprobs_num: 1 } },
    "top_logprobs_num",
  );
  refuses({ engine: "sglang-pd", version: "0.5.10.post1", body: { logprobs: 1 } }, "logprobs");
  refuses(
    { engine: "sglang-pd", version: "0.5.10.post1", body: { top_logprobs_num: [0, 1] } },
    "top_logprobs_num",
  );
  passes({ engine: "sglang-pd", version: "0.5.10.post1", body: { logprobs: true, top_logprobs: 0 } });
  passes({ engine: "sglang-pd", version: "0.5.18", body: { top_logprobs_num: 1, n: 1 } });
  passes({ body: { session_params: { id: "s" }, n: 2 } });
});

test("what is not a JSON object, or not for SGLang, passes", () => {
  for (const body of [null, 5, "x", [], [{ input_ids: [-1] }]]) passes({ body });
  passes({ engine: "vllm", body: { prompt: [-1] } });
  passes({ engine: "openai", body: { token_ids_logprob: [1] } });
  let deep: unknown = -1;
  for (let i = 0; i < 50_000; i++) deep = [deep];
  passes({ body: { input_ids: deep } });
});

test("versions are compared by their numbers", () => {
  const order = [
    "0.4.9",
    "0.5.3",
    "0.5.3.post3",
    "0.5.9",
    "0.5.10",
    "0.5.10.post1",
    "0.5.18",
    "0.5.23",
    "0.32.0",
    "1.0",
  ];
  for (let i = 0; i < order.length; i++) {
    for (let j = 0; j < order.length; j++) {
      assert.equal(olderThan(order[i]!, order[j]!), i < j, `${order[i]} ${order[j]}`);
    }
  }
  assert.equal(olderThan("0.5.18rc1", "0.5.18"), false);
  assert.equal(olderThan("v0.5.9+cu126", "0.5.10"), true);
});

test("numbers that do not fit into SGLang's tensors are refused", () => {
  refuses({ body: { top_k: 2 ** 31 } }, "top_k");
  refuses({ body: { sampling_params: { top_k: -(2 ** 40) } } }, "sampling_params.top_k");
  passes({ body: { top_k: 2 ** 31 - 1 } });
  refuses({ body: { logprobs: 1921 } }, "logprobs");
  refuses({ body: { logprobs: true, top_logprobs: 1921 } }, "top_logprobs");
  refuses({ body: { top_logprobs_num: [1, 1921] } }, "top_logprobs_num");
  refuses({ vocabSize: undefined, body: { top_logprobs_num: 1001 } }, "top_logprobs_num");
  passes({ body: { logprobs: true, top_logprobs: 20 } });
  refuses({ body: { logprob_start_len: -5 } }, "logprob_start_len");
  passes({ body: { logprob_start_len: -1 } });
  refuses({ body: { logit_bias: { "300": "NaN" } } }, "logit_bias.300");
  refuses({ body: { logit_bias: { "300": 1e39 } } }, "logit_bias.300");
  refuses({ body: { sampling_params: { logit_bias: { "3": "Infinity" } } } }, "sampling_params.logit_bias.3");
  refuses({ body: { repetition_penalty: 1e-300 } }, "repetition_penalty");
  passes({ body: { repetition_penalty: 0.5, logit_bias: { "3": "5" } } });
});

test("empty prompts in a list and embeddings in the prompt's place are refused", () => {
  refuses({ body: { input_ids: [[]] } }, "input_ids[0]");
  refuses({ body: { positional_embed_overrides: {} } }, "positional_embed_overrides");
});

test("schemas that lead only to themselves are refused, recursive ones pass", () => {
  const format = (schema: unknown) => ({ response_format: { type: "json_schema", json_schema: { schema } } });
  const field = "response_format.json_schema.schema";
  refuses({ body: format({ $ref: "#" }) }, field);
  refuses({ body: format({ properties: { a: { $ref: "#/properties/a" } } }) }, field);
  refuses({
    body: format({ $ref: "#/$defs/x", $defs: { x: { $ref: "#/$defs/y" }, y: { $ref: "#/$defs/x" } } }),
  }, field);
  refuses({ body: { sampling_params: { json_schema: '{"$ref":"#"}' } } }, "sampling_params.json_schema");
  passes({ body: format({ type: "object", properties: { child: { $ref: "#" } } }) });
  passes({ body: { sampling_params: { json_schema: "not json" } } });
});
