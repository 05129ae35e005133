import assert from "node:assert/strict";
import { test } from "node:test";
import { configSchema } from "../../../cfgs/schema/config.ts";
import { explain } from "../../../cfgs/schema/explain.ts";
import { configJsonSchema } from "../../../cfgs/schema/json_schema.ts";

const withPrefill = (incremental_prefill: unknown) => ({
  models: { a: { model: "org/a", engine: "vllm" } },
  graphs: { moa: { layers: [{ agents: [{ model: "a" }] }], incremental_prefill } },
});

const modes: readonly (readonly [unknown, string])[] = [
  ["auto", "auto"],
  ["on", "on"],
  ["off", "off"],
  [true, "auto"],
  [false, "off"],
  [{}, "auto"],
  [{ mode: "on", chunk_tokens: 64 }, "on"],
  [undefined, "auto"],
];
for (const [written, mode] of modes) {
  test(`incremental_prefill ${JSON.stringify(written)} is read as ${mode}`, () => {
    const { graphs } = configSchema.parse(withPrefill(written));
    assert.equal(graphs["moa"]?.incremental_prefill.mode, mode);
    assert.equal(graphs["moa"]?.incremental_prefill.max_stall_ms, 100);
  });
}

test("A value that says nothing is refused with what may stand there", () => {
  const said = (value: unknown) => explain(configSchema, withPrefill(value)).map(({ message }) => message);
  assert.deepEqual(said("yes"), [
    'graphs.moa.incremental_prefill is "yes": expected one of "auto", "on", "off"',
  ]);
  assert.match(
    said({ mode: "of" }).join(),
    /incremental_prefill\.mode is "of": expected one of .*did you mean "off"/,
  );
  assert.match(said({ chunk: 1 }).join(), /incremental_prefill\.chunk is not a known key/);
});

test("Editors learn every form from the JSON Schema", () => {
  assert.match(
    JSON.stringify(configJsonSchema()),
    /"incremental_prefill":\{[^}]*"anyOf":\[\{"type":"string","enum":\["auto"/,
  );
});
